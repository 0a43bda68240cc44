"""Optimisers in optax's protocol: two pure functions over a pytree of arrays.

    state = optimiser.init(params)
    updates, state = optimiser.update(grads, state, params)
    params = apply_updates(params, updates)

optax's chains and loops take these optimisers, and `chain` takes optax's. The settings are arguments of the compiled step,
carried by the state or given per step: see hyper.py. Moments are held in `accumulator(dtype)`, at least float32,
and updates come in that dtype, so that `apply_updates` rounds once.

This file is the protocol and what the optimisers share; each family has its own: sgd.py, adam.py, lion.py, rmsprop.py,
adagrad.py, clipping.py, averaging.py.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import all_leaves, keystr, tree_leaves_with_path
from jaxtyping import Array, Int, PyTree

from ..lib.errors import OperandError
from ..lib.precision import accumulator
from .hyper import Setting

Mask = PyTree | Callable[[PyTree], PyTree]  # of bools


class Optimiser(NamedTuple):
    """A pair `init(params) -> state`, `update(grads, state, params=None) -> (updates, state)`."""

    init: Callable[[PyTree], PyTree]
    update: Callable[..., tuple[PyTree, PyTree]]


def apply_updates(params: PyTree, updates: PyTree) -> PyTree:
    """params + updates, summed in the wider of both dtypes and rounded to each parameter's own."""
    fits("updates", updates, params)
    return jax.tree.map(lambda p, u: jnp.asarray(p + u, jnp.result_type(p)), params, updates)


def chain(*optimisers) -> Optimiser:
    """One after the other: each gets the updates of the one before; the states are a tuple. Takes optax's too."""

    def init(params):
        return tuple(optimiser.init(params) for optimiser in optimisers)

    def update(grads, state, params=None):
        if len(state) != len(optimisers):
            raise OperandError(f"chain of {len(optimisers)} was given {len(state)} states; pass what its own init returned")
        states = []
        for optimiser, old in zip(optimisers, state):
            grads, new = optimiser.update(grads, old, params)
            states.append(new)
        return grads, tuple(states)

    return Optimiser(init, update)


def matrices(params: PyTree) -> PyTree:
    """True for leaves of two axes or more: what weight decay is for unless told otherwise (no biases, no norm scales)."""
    return jax.tree.map(lambda p: jnp.ndim(p) >= 2, params)


# What the optimisers share.


def filled(params: PyTree, value: Setting = 0.0) -> PyTree:
    """A moment for each parameter, all `value`, in the dtype that sums over it are held in."""
    return jax.tree.map(lambda p: jnp.full_like(p, value, dtype=accumulator(jnp.result_type(p))), params)


def increment(count: Int[Array, ""]) -> Int[Array, ""]:
    """count + 1, staying at the largest int32 rather than turning negative."""
    return jnp.minimum(count, jnp.iinfo(jnp.int32).max - 1) + 1


def correction(decay, count: Int[Array, ""]):
    """1 − decayᵗ, the weight that t steps of a moving mean have gathered; without the cancellation near decay = 1."""
    return -jnp.expm1(count * jnp.log(jnp.asarray(decay, float)))  # float: the widest enabled, whatever the count is


def in_dtype(*scalars) -> Callable:
    """dtype -> the scalars in it, converted once per dtype."""

    @functools.cache
    def converted(dtype):
        return tuple(jnp.asarray(s, dtype) for s in scalars)

    return converted


def columns(n: int, leaf: Callable[..., tuple], tree: PyTree, *trees: PyTree) -> tuple[PyTree, ...]:
    """leaf(x, ...), a row of n arrays, at every leaf of the trees: as n trees."""
    rows = jax.tree.map(leaf, tree, *trees)
    column = lambda i: jax.tree.map(lambda _, row: row[i], tree, rows)
    return tuple(map(column, range(n)))


def decayed(steps: PyTree, params: PyTree, mask: Mask, rate: Setting) -> PyTree:
    """−(step + rate·p) where the mask says so, else −step: decoupled weight decay, which the moments never see."""
    fits("parameters", params, steps)
    decay = lambda step, p, decays: -(step + jnp.asarray(rate, step.dtype) * p if decays else step)
    return jax.tree.map(decay, steps, params, chosen(mask, params))


def chosen(mask: Mask, params: PyTree) -> PyTree:
    """The mask as a full pytree of bools. A pytree that can also be called (a Module of bools) is a pytree."""
    if mask is None:
        mask = True
    elif callable(mask) and all_leaves([mask]):
        mask = mask(params)
    return jax.tree.map(bool, jax.tree.broadcast(mask, params))


def fits(what: str, tree: PyTree, like: PyTree) -> None:
    """The same leaves in the same shapes, or an error that names the first that differs: broadcasting would hide a shape."""
    got, want = ({keystr(path): jnp.shape(x) for path, x in tree_leaves_with_path(t)} for t in (tree, like))
    for name in {**want, **got}:
        if name not in got:
            raise OperandError(f"{what}: leaf {name} of shape {want[name]} is missing; give zeros, or leave it out of the parameters")
        if name not in want:
            raise OperandError(f"{what}: leaf {name} of shape {got[name]} belongs to no parameter; the parameters are {', '.join(want)}")
        if got[name] != want[name]:
            raise OperandError(f"{what}: leaf {name} has shape {got[name]}, expected {want[name]}")
