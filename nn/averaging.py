"""Moving means of weights: what a model is evaluated with while its own weights still jump about."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from ..lib.precision import accumulator
from .hyper import Hyper, Setting, below_1, carried, held, setting
from .optimisers import Optimiser, columns, correction, filled, fits, in_dtype, increment


class EmaState(NamedTuple):
    """count: updates done; ema: the moving mean, uncorrected, in at least float32; hyper: the decay, if it is a plain number."""

    count: Int[Array, ""]
    ema: PyTree
    hyper: Hyper


def ema(decay: Setting, debias: bool = True) -> Optimiser:
    """The exponential moving average of whatever it is given at each update, weights above all:

        average = nn.ema(0.999)
        state = average.init(params)
        averaged, state = average.update(params, state)      # after each step; evaluate with `averaged`

        e ← decay·e + (1 − decay)·x,   e starts at 0          averaged = e/(1 − decayᵗ),   without `debias`  e

    Debiased, the first average is the first x itself, so there is no memory of a start; without, the average comes up from 0.
    Keeps each leaf's dtype; e is held in at least float32, where a step of 1e-4 of a bfloat16 weight is not lost.
    It is optax's `ema` and fits in a chain, where it averages updates instead. torch's `swa_utils.AveragedModel` with
    `get_ema_multi_avg_fn` begins with the first weights: that is `incremental_update`.   Polyak & Juditsky 1992
    """
    settings = {"decay": setting("decay", decay, below_1)}

    def init(params):
        return EmaState(jnp.zeros((), jnp.int32), filled(params), held(settings))

    def update(values, state, params=None):
        fits("values", values, state.ema)
        count = increment(state.count)
        decay = carried(settings, state.hyper)["decay"]
        scalars = in_dtype(decay, correction(decay, count) if debias else 1.0)

        def leaf(x, e):
            decay, gathered = scalars(e.dtype)
            e = decay * e + (1 - decay) * jnp.asarray(x, e.dtype)
            return (e / gathered).astype(jnp.result_type(x)), e

        averaged, means = columns(2, leaf, values, state.ema)
        return averaged, EmaState(count, means, state.hyper)

    return Optimiser(init, update)


def incremental_update(new_tensors: PyTree, old_tensors: PyTree, step_size: float | Float[Array, ""]) -> PyTree:
    """step_size·new + (1 − step_size)·old, leaf by leaf, in the dtype of the old: a slow copy of moving weights.

        slow = params                                                     # before the first step
        slow = nn.incremental_update(params, slow, step_size=1e-3)        # after each

    The mean is taken in at least float32 and rounded to the old leaf's dtype: keep a float32 copy of narrow weights.
    """
    fits("new tensors", new_tensors, old_tensors)

    def leaf(new, old):
        wide = accumulator(jnp.result_type(old))
        step = jnp.asarray(step_size, wide)
        mean = step * jnp.asarray(new, wide) + (1 - step) * jnp.asarray(old, wide)
        return mean.astype(jnp.result_type(old))

    return jax.tree.map(leaf, new_tensors, old_tensors)
