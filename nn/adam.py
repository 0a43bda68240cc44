"""Adam and AdamW: steps along the moving mean of the gradient, divided by the root of that of its square."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from ..lib.errors import OperandError
from .hyper import Hyper, Setting, at_least_0, below_1, current, held, setting
from .optimisers import Mask, Optimiser, columns, correction, decayed, filled, fits, in_dtype, increment, matrices
from .schedules import Schedule


class AdamState(NamedTuple):
    """count: updates done; mu, nu: moving means of g and g², uncorrected; hyper: the settings that are plain numbers."""

    count: Int[Array, ""]
    mu: PyTree
    nu: PyTree
    hyper: Hyper


def adam(
    learning_rate: Setting | Schedule,
    b1: Setting = 0.9,
    b2: Setting = 0.999,
    eps: Setting = 1e-8,
    eps_root: Setting = 0.0,
    *,
    nesterov: bool = False,
) -> Optimiser:
    """Adam. Update t = 1, 2, ..., for each leaf with gradient g:

        m ← b1·m + (1 − b1)·g          v ← b2·v + (1 − b2)·g²
        update = −lr·m̂ / (√(v/(1 − b2ᵗ) + eps_root) + eps),       m̂ = m/(1 − b1ᵗ)
        with `nesterov`                                            m̂ = b1·m/(1 − b1ᵗ⁺¹) + (1 − b1)·g/(1 − b1ᵗ)

    There is no weight decay here: L2 in the gradient is not what Adam should be given, see `adamw`. `nesterov` is optax's
    (its b2 is not squeezed into m̂, unlike in the paper); torch's NAdam lets b1 change over the steps and is not this.
    Kingma & Ba 2015, algorithm 1; Dozat 2016, algorithm 2
    """
    settings = with_rates(learning_rate, b1, b2, eps, eps_root)

    def update(grads, state, params=None):
        now = current(settings, state.hyper, state.count)
        steps, state = moved(now, nesterov, grads, state)
        return jax.tree.map(jnp.negative, steps), state

    return Optimiser(functools.partial(started, settings), update)


def adamw(
    learning_rate: Setting | Schedule,
    b1: Setting = 0.9,
    b2: Setting = 0.999,
    eps: Setting = 1e-8,
    weight_decay: Setting | Schedule = 1e-4,
    mask: Mask = matrices,
    *,
    eps_root: Setting = 0.0,
    nesterov: bool = False,
) -> Optimiser:
    """Adam with decoupled weight decay: the update of `adam`, less the weights themselves at the same rate,

        update = −lr·( m̂ / (√(v/(1 − b2ᵗ) + eps_root) + eps) + weight_decay·p )

    mask: pytree of bools (or a prefix of one), or a function from params to it: which leaves decay. By default **only
        matrices** do; optax decays everything: there `mask=nn.matrices` gives this default, here `mask=None` gives optax's.
    A schedule sees t − 1. The factors 1 − bᵗ are folded into scalars,

        α = lr/(1 − b1ᵗ)     ρ = 1/(1 − b2ᵗ)     δ = lr·weight_decay          update = −(α·m / (√(ρ·v + eps_root) + eps) + δ·p)

    so that an element costs one root and one division, and eps stays outside the root and the correction. A gradient whose
    square overflows (above 1.8e19 in float32) makes v infinite and its updates 0 from then on, as in optax. torch's AdamW is
    the same with `mask=None`; its default weight decay is 1e-2.
    Loshchilov & Hutter 2019, algorithm 2
    """
    settings = with_rates(learning_rate, b1, b2, eps, eps_root)
    settings["weight_decay"] = setting("weight_decay", weight_decay, at_least_0, schedule=True)

    def update(grads, state, params=None):
        if params is None:
            raise OperandError("adamw decays weights, so it needs them: update(grads, state, params)")
        now = current(settings, state.hyper, state.count)
        steps, state = moved(now, nesterov, grads, state)
        return decayed(steps, params, mask, now["learning_rate"] * now["weight_decay"]), state

    return Optimiser(functools.partial(started, settings), update)


# What both share.


def with_rates(learning_rate, b1, b2, eps, eps_root) -> dict:
    return {
        "learning_rate": setting("learning_rate", learning_rate, at_least_0, schedule=True),
        "b1": setting("b1", b1, below_1),
        "b2": setting("b2", b2, below_1),
        "eps": setting("eps", eps, at_least_0),
        "eps_root": setting("eps_root", eps_root, at_least_0),
    }


def started(settings: dict, params: PyTree) -> AdamState:
    return AdamState(jnp.zeros((), jnp.int32), filled(params), filled(params), held(settings))


def moved(now: dict, nesterov: bool, grads: PyTree, state: AdamState) -> tuple[PyTree, AdamState]:
    """(lr·m̂ / (√(v̂ + eps_root) + eps) at each leaf, the next state), with the settings of now."""
    fits("gradients", grads, state.mu)
    count, b1, b2 = increment(state.count), now["b1"], now["b2"]
    alpha, ahead = (now["learning_rate"] / correction(b1, t) for t in (count, increment(count)))
    scalars = in_dtype(b1, b2, alpha, ahead, 1 / correction(b2, count), now["eps_root"], now["eps"])

    def leaf(g, m, v):
        b1, b2, alpha, ahead, rho, eps_root, eps = scalars(m.dtype)
        g = jnp.asarray(g, m.dtype)
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        along = ahead * b1 * m + alpha * (1 - b1) * g if nesterov else alpha * m
        return along / (jnp.sqrt(rho * v + eps_root) + eps), m, v

    steps, mu, nu = columns(3, leaf, grads, state.mu, state.nu)
    return steps, AdamState(count, mu, nu, state.hyper)
