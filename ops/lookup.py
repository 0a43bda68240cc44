"""NumPy's spelling of the ops that take indices: axes may be given by position, keys are NumPy's, host indices are checked."""

import jax.numpy as jnp
from jax.typing import DTypeLike

from ..lib.errors import OperandError
from . import indexing, scatter, slicing
from .embedding import one_hot as one_hot_op
from .keys import checked, read
from .op import face
from .shape import axes_of, reshape


def take(x, ids, axis: int = 0, *, fill: float | None = None):
    """The slices of x at ids along an axis; `indexing.py` says what an index out of range gives."""
    return indexing.take(x, checked(ids, x.shape[axes_of(axis, x.ndim, "take")[0]], "take"), axis=axis, fill=fill)


def take_along_axis(x, ids, axis: int, *, fill: float | None = None):
    """y[…, j, …] = x[…, ids[…, j, …], …]."""
    n = x.shape[axes_of(axis, x.ndim, "take_along_axis")[0]]
    return indexing.take_along_axis(x, checked(ids, n, "take_along_axis"), axis=axis, fill=fill)


def index(x, key, *, fill: float | None = None):
    """x[key] with NumPy's meaning: integers, slices, `None`, `...`, integer arrays, boolean masks, or a tuple of them.

    A mask is turned into the indices at which it holds, so its values have to be at hand: in a compiled function a mask of
    NumPy's, or one that was made outside. fill: what an index out of range gives, instead of NaN.
    """
    place = read(key, x.shape, "index")
    x = in_shape(x, place.shape)
    return slicing.slice(x, key=place.key) if place.ids is None else indexing.index(x, place.ids, key=place.key, fill=fill)


def index_set(x, key, y):
    """A copy of x with y at x[key] (NumPy's x[key] = y).   x̄ = ȳ of the copy, 0 where it was overwritten.

    A place that the key names several times keeps the last y, in row-major order of the indices, on every device; the
    cotangent goes to that one alone.
    """
    place = read(key, x.shape, "index_set")
    return in_shape(scatter.index_set(in_shape(x, place.shape), place.ids, y, key=place.key), x.shape)


def index_add(x, key, y):
    """A copy of x with y added at x[key] (NumPy's np.add.at): a place that the key names several times gets every y."""
    place = read(key, x.shape, "index_add")
    return in_shape(scatter.index_add(in_shape(x, place.shape), place.ids, y, key=place.key), x.shape)


@face("index_set")
def index_fill(x, key, value):
    """A copy of x with one value, a number or an array without axes, at every place of x[key]."""
    if jnp.ndim(value):
        raise OperandError(f"index_fill: a value of shape {jnp.shape(value)}; expected a number. For an array there is index_set")
    return index_set(x, key, value)


def one_hot(ids, num_classes: int, *, dtype: DTypeLike = "float32"):
    """y[…, k] = 1 where ids[…] = k, else 0, for k = 0 … num_classes − 1: (…) to (…, num_classes). Untracked.

    A traced id that is no class gives a row of zeros.
    """
    return one_hot_op(checked(ids, num_classes, "one_hot", low=0), num_classes=num_classes, dtype=dtype)


def in_shape(x, shape: tuple[int, ...]):
    """x with, or again without, the axes of size 1 that masks without axes ask for."""
    return x if x.shape == shape else reshape(x, shape=shape)
