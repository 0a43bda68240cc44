"""Lion: steps of one size, along the sign of a moving mean."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from ..lib.errors import OperandError
from .hyper import Hyper, Setting, at_least_0, below_1, current, held, setting
from .optimisers import Mask, Optimiser, columns, decayed, filled, fits, in_dtype, increment
from .schedules import Schedule


class LionState(NamedTuple):
    """count: updates done; mu: the moving mean of g; hyper: the settings that are plain numbers."""

    count: Int[Array, ""]
    mu: PyTree
    hyper: Hyper


def lion(
    learning_rate: Setting | Schedule,
    b1: Setting = 0.9,
    b2: Setting = 0.99,
    weight_decay: Setting | Schedule = 1e-3,
    mask: Mask = None,
) -> Optimiser:
    """Lion. For each leaf with gradient g:

        update = −lr·( sign(b1·m + (1 − b1)·g) + weight_decay·p )          m ← b2·m + (1 − b2)·g

    sign(0) = 0, so zero gradients move nothing. A rate three to ten times below that of AdamW is usual, with a decay as many
    times larger. mask: as in `adamw`; everything decays unless told otherwise, as in optax: `mask=nn.matrices` spares biases and scales.
    Chen et al. 2023, algorithm 2
    """
    settings = {
        "learning_rate": setting("learning_rate", learning_rate, at_least_0, schedule=True),
        "b1": setting("b1", b1, below_1),
        "b2": setting("b2", b2, below_1),
        "weight_decay": setting("weight_decay", weight_decay, at_least_0, schedule=True),
    }

    def init(params):
        return LionState(jnp.zeros((), jnp.int32), filled(params), held(settings))

    def update(grads, state, params=None):
        if params is None:
            raise OperandError("lion decays weights, so it needs them: update(grads, state, params)")
        fits("gradients", grads, state.mu)
        lr, b1, b2, weight_decay = current(settings, state.hyper, state.count).values()  # in the order above
        scalars = in_dtype(lr, b1, b2)

        def leaf(g, m):
            lr, b1, b2 = scalars(m.dtype)
            g = jnp.asarray(g, m.dtype)
            return lr * jnp.sign(b1 * m + (1 - b1) * g), b2 * m + (1 - b2) * g

        steps, mu = columns(2, leaf, grads, state.mu)
        updates = decayed(steps, params, mask, lr * weight_decay)
        return updates, LionState(increment(state.count), mu, state.hyper)

    return Optimiser(init, update)
