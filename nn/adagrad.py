"""Adagrad: the gradient divided by the root of the sum of all its squares so far."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from .hyper import Hyper, Setting, at_least_0, current, held, setting
from .optimisers import Optimiser, columns, filled, fits, in_dtype, increment
from .schedules import Schedule


class AdagradState(NamedTuple):
    """count: updates done; sum_of_squares: of all gradients, and the starting value; hyper: the settings that are plain numbers."""

    count: Int[Array, ""]
    sum_of_squares: PyTree
    hyper: Hyper


def adagrad(learning_rate: Setting | Schedule, initial_accumulator_value: Setting = 0.1, eps: Setting = 1e-7) -> Optimiser:
    """Adagrad. For each leaf with gradient g:

        s ← s + g²          update = −lr·g / √(s + eps),   0 where s is 0

    s starts at `initial_accumulator_value`. torch's Adagrad has eps outside the root, √s + eps, and starts s at 0 by default:
    the two agree at `eps=0`. A gradient that is not a number stays one, also where optax gives 0 for it.
    Duchi, Hazan & Singer 2011, fig. 1 (diagonal)
    """
    settings = {
        "learning_rate": setting("learning_rate", learning_rate, at_least_0, schedule=True),
        "eps": setting("eps", eps, at_least_0),
    }
    first = setting("initial_accumulator_value", initial_accumulator_value, at_least_0)

    def init(params):
        return AdagradState(jnp.zeros((), jnp.int32), filled(params, first), held(settings))

    def update(grads, state, params=None):
        fits("gradients", grads, state.sum_of_squares)
        lr, eps = current(settings, state.hyper, state.count).values()  # in the order above
        scalars = in_dtype(lr, eps)

        def leaf(g, s):
            lr, eps = scalars(s.dtype)
            g = jnp.asarray(g, s.dtype)
            s = s + g * g
            return jnp.where(s == 0, 0, lr * g / jnp.sqrt(s + eps)), s

        steps, sums = columns(2, leaf, grads, state.sum_of_squares)
        return jax.tree.map(jnp.negative, steps), AdagradState(increment(state.count), sums, state.hyper)

    return Optimiser(init, update)
