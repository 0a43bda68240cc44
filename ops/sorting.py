"""Putting values in order: argsort, sort, top_k.

Where a value came from is an integer array, a constant; the values are looked up by it. So each cotangent goes to the one
place that its value came from, ties included. NaN counts as larger than everything. Ties keep their order.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..lib.errors import OperandError
from .indexing import take_along_axis
from .op import constant, face
from .shape import axes_of, reshape


@constant
def argsort(x: Float[Array, "..."], *, axis: int | None = -1, descending: bool = False):
    """Where the values of x stand that would be first, second, … along an axis, or in the flattened array. Untracked."""
    at = None if axis is None else axes_of(axis, jnp.ndim(x), "argsort")[0]
    return jnp.argsort(x, at, stable=True, descending=descending)


@face("take_along_axis", "reshape")
def sort(x, axis: int | None = -1, *, descending: bool = False):
    """The values of x in order along an axis, or of the flattened array.   x̄ = ȳ put back to where each value came from."""
    if axis is None:
        x, axis = reshape(x, shape=-1), 0
    at = axes_of(axis, x.ndim, "sort")[0]
    return take_along_axis(x, argsort(x, axis=at, descending=descending), axis=at)


class TopK(NamedTuple):
    """The values and where they stood."""

    values: Any
    indices: Any


@face("take_along_axis")
def top_k(x, k: int, axis: int = -1, *, largest: bool = True) -> TopK:
    """The k largest values of x along an axis, or the smallest, best first, and their indices.

    x̄ = the values' ȳ at the indices, 0 elsewhere.
    """
    at = axes_of(axis, x.ndim, "top_k")[0]
    if not 0 <= k <= x.shape[at]:
        raise OperandError(f"top_k: k = {k} of an axis of {x.shape[at]}; expected 0 to {x.shape[at]}")
    ids = lax.slice_in_dim(argsort(x, axis=at, descending=largest), 0, k, axis=at)  # lax.top_k would gather a batch that is spread
    return TopK(take_along_axis(x, ids, axis=at), ids)
