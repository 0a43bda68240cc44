"""Gradient descent, with momentum and Nesterov's."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from ..lib.errors import ConfigError
from ..lib.precision import accumulator
from .hyper import Hyper, Setting, at_least_0, current, held, setting
from .optimisers import Optimiser, filled, fits, increment
from .schedules import Schedule


class SGDState(NamedTuple):
    """count: updates done; trace: the momentum, or () without one; hyper: the settings that are plain numbers."""

    count: Int[Array, ""]
    trace: PyTree
    hyper: Hyper


def sgd(learning_rate: Setting | Schedule, momentum: Setting | None = None, nesterov: bool = False) -> Optimiser:
    """Gradient descent. For each leaf with gradient g and momentum μ:

        trace ← g + μ·trace          update = −lr·trace,   with `nesterov`  −lr·(g + μ·trace)

    Without momentum  update = −lr·g. The rate multiplies the trace, not the gradient that enters it; there is no dampening:
    torch's SGD with its defaults, optax's too.   Sutskever et al. 2013
    """
    settings = {"learning_rate": setting("learning_rate", learning_rate, at_least_0, schedule=True)}
    settings |= with_momentum("sgd", momentum, nesterov)

    def init(params):
        return SGDState(jnp.zeros((), jnp.int32), filled(params) if "momentum" in settings else (), held(settings))

    def update(grads, state, params=None):
        now = current(settings, state.hyper, state.count)
        trace = state.trace
        if "momentum" in settings:
            fits("gradients", grads, trace)
            steps = jax.tree.map(lambda g, t: jnp.asarray(g, t.dtype), grads, trace)
            steps, trace = accelerated(steps, trace, now["momentum"], nesterov)
        else:
            if params is not None:
                fits("gradients", grads, params)
            steps = jax.tree.map(lambda g: jnp.asarray(g, accumulator(jnp.result_type(g))), grads)
        updates = jax.tree.map(lambda x: -jnp.asarray(now["learning_rate"], x.dtype) * x, steps)
        return updates, SGDState(increment(state.count), trace, state.hyper)

    return Optimiser(init, update)


# What rmsprop has too.


def with_momentum(name: str, momentum: Setting | None, nesterov: bool) -> dict:
    """The setting `momentum`, if there is one."""
    if momentum is None and nesterov:
        raise ConfigError(f"{name}: nesterov=True needs a momentum, for example momentum=0.9")
    return {} if momentum is None else {"momentum": setting("momentum", momentum, at_least_0)}


def accelerated(steps: PyTree, trace: PyTree, momentum: Setting, nesterov: bool) -> tuple[PyTree, PyTree]:
    """(steps, trace):  trace ← step + μ·trace, and the steps are it, with `nesterov` step + μ·trace once more."""
    blend = lambda step, t: step + jnp.asarray(momentum, t.dtype) * t
    trace = jax.tree.map(blend, steps, trace)
    return jax.tree.map(blend, steps, trace) if nesterov else trace, trace
