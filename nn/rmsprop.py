"""RMSProp: the gradient divided by the root of a moving mean of its square."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from .hyper import Hyper, Setting, at_least_0, below_1, current, held, setting
from .optimisers import Optimiser, columns, correction, filled, fits, in_dtype, increment
from .schedules import Schedule
from .sgd import accelerated, with_momentum


class RMSPropState(NamedTuple):
    """count: updates done; nu, mu: moving means of g² and of g (() unless centred); trace: the momentum, or () without one."""

    count: Int[Array, ""]
    nu: PyTree
    mu: PyTree
    trace: PyTree
    hyper: Hyper


def rmsprop(
    learning_rate: Setting | Schedule,
    decay: Setting = 0.9,
    eps: Setting = 1e-8,
    initial_scale: Setting = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: Setting | None = None,
    nesterov: bool = False,
    bias_correction: bool = False,
) -> Optimiser:
    """RMSProp. Update t = 1, 2, ..., for each leaf with gradient g:

        v ← decay·v + (1 − decay)·g²          step = lr·g / √(v̂ + eps),   without `eps_in_sqrt`  lr·g / (√v̂ + eps)
        with `centered`      m ← decay·m + (1 − decay)·g,   and the variance v̂ − m̂² in the place of v̂
        with `momentum` μ    trace ← step + μ·trace,   and the trace is the step; with `nesterov` step + μ·trace is
        with `bias_correction`   v̂ = v/(1 − decayᵗ),  m̂ = m/(1 − decayᵗ);   else v̂ = v, m̂ = m

    and update = −step. v starts at `initial_scale`, m at 0. The variance is kept from falling below 0, where rounding may put
    it when gradients hardly change; optax and torch give NaN there once |g|² outweighs eps by some 1e7 in float32.
    torch's RMSprop is `eps_in_sqrt=False`, without nesterov or bias correction; its decay ("alpha") is 0.99 by default. Its rate
    multiplies the trace; here, as in optax, it enters the trace: the same while it does not change.
    Tieleman & Hinton 2012, lecture 6.5; Graves 2013, eq. 38 (centred)
    """
    settings = {
        "learning_rate": setting("learning_rate", learning_rate, at_least_0, schedule=True),
        "decay": setting("decay", decay, below_1),
        "eps": setting("eps", eps, at_least_0),
        **with_momentum("rmsprop", momentum, nesterov),
    }
    first = setting("initial_scale", initial_scale, at_least_0)

    def init(params):
        mu, trace = filled(params) if centered else (), filled(params) if "momentum" in settings else ()
        return RMSPropState(jnp.zeros((), jnp.int32), filled(params, first), mu, trace, held(settings))

    def update(grads, state, params=None):
        fits("gradients", grads, state.nu)
        count = increment(state.count)
        now = current(settings, state.hyper, state.count)
        gathered = correction(now["decay"], count) if bias_correction else 1.0
        scalars = in_dtype(now["learning_rate"], now["decay"], now["eps"], gathered)

        def leaf(g, v, m):
            lr, decay, eps, gathered = scalars(v.dtype)
            g = jnp.asarray(g, v.dtype)
            v = decay * v + (1 - decay) * g * g
            spread = v / gathered
            if centered:
                m = decay * m + (1 - decay) * g
                spread = jnp.maximum(spread - (m / gathered) ** 2, 0)
            size = jnp.sqrt(spread + eps) if eps_in_sqrt else jnp.sqrt(spread) + eps
            return lr * g / size, v, m

        steps, nu, mu = columns(3, leaf, grads, state.nu, state.mu if centered else grads)
        trace = state.trace
        if "momentum" in settings:
            steps, trace = accelerated(steps, trace, now["momentum"], nesterov)
        return jax.tree.map(jnp.negative, steps), RMSPropState(count, nu, mu if centered else (), trace, state.hyper)

    return Optimiser(init, update)
