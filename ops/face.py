"""NumPy's spelling of the ops whose own signature is the machinery's: sequences, keys, counts, and sugar made of other ops.

Here axes may be given by position, and indices that Python or NumPy holds are checked.
"""

import math
import operator
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ..lib.errors import OperandError, OutOfRange
from . import indexing, joining, slicing
from .identity import cast, discrete
from .shape import axes_of, reshape, transpose


def concatenate(xs: Sequence, axis: int = 0):
    """The xs one after the other along an axis."""
    return joining.concatenate(*xs, axis=axis)


def stack(xs: Sequence, axis: int = 0):
    """The xs along a new axis."""
    return joining.stack(*xs, axis=axis)


def unstack(x, axis: int = 0) -> tuple:
    """The slices of x along an axis, without it: what a loop over a stacked weight should go through."""
    return joining.unstack(x, axis=axis)


def split(x, sizes: int | Sequence[int], axis: int = 0) -> tuple:
    """x cut into so many equal pieces, or into pieces of these sizes, which add up to the axis (np.split takes the joints)."""
    if isinstance(sizes, int):
        n = x.shape[axes_of(axis, x.ndim, "split")[0]]
        if sizes < 1 or n % sizes:
            raise OperandError(f"split: axis {axis} of shape {x.shape} does not fall into {sizes} equal pieces; pass their sizes")
        sizes = (n // sizes,) * sizes
    return joining.split(x, sizes=tuple(sizes), axis=axis)


def expand_dims(x, axis: int | tuple[int, ...]):
    """x with new axes of size 1, which stand at `axis` in the result."""
    new = axes_of(axis, x.ndim + (len(axis) if isinstance(axis, tuple) else 1), "expand_dims")
    sizes = iter(x.shape)
    return reshape(x, shape=tuple(1 if a in new else next(sizes) for a in range(x.ndim + len(new))))


def squeeze(x, axis: int | tuple[int, ...] | None = None):
    """x without these axes of size 1; without all of them for `None`."""
    gone = tuple(a for a, n in enumerate(x.shape) if n == 1) if axis is None else axes_of(axis, x.ndim, "squeeze")
    if math.prod(x.shape[a] for a in gone) != 1:
        raise OperandError(f"squeeze: axis {axis} of shape {x.shape} is not of size 1")
    return reshape(x, shape=tuple(n for a, n in enumerate(x.shape) if a not in gone))


def swapaxes(x, axis1: int, axis2: int):
    """x with two axes exchanged."""
    order = list(range(x.ndim))
    a, b = axes_of(axis1, x.ndim, "swapaxes") + axes_of(axis2, x.ndim, "swapaxes")
    order[a], order[b] = b, a
    return transpose(x, axes=tuple(order))


def astype(x, dtype):
    """x in another dtype. A float dtype keeps x tracked (`cast`); nothing flows back through integers and booleans (`discrete`)."""
    name = jax.dtypes.canonicalize_dtype(dtype).name  # float and int are what they are to jax.numpy
    return cast(x, dtype=name) if jnp.issubdtype(name, jnp.floating) else discrete(x, dtype=name)


def take(x, ids, axis: int = 0, *, fill: float | None = None):
    """The slices of x at ids along an axis; `indexing.py` says what an index out of range gives."""
    return indexing.take(x, host(ids, x.shape[axes_of(axis, x.ndim, "take")[0]], "take"), axis=axis, fill=fill)


def embedding(weight, ids):
    """The rows (V, D) of a table at ids (…): (…, D). Rows that ids name several times add up their cotangents."""
    return take(weight, ids)


def take_along_axis(x, ids, axis: int, *, fill: float | None = None):
    """y[…, j, …] = x[…, ids[…, j, …], …]."""
    n = x.shape[axes_of(axis, x.ndim, "take_along_axis")[0]]
    return indexing.take_along_axis(x, host(ids, n, "take_along_axis"), axis=axis, fill=fill)


def index(x, key, *, fill: float | None = None):
    """x[key] with NumPy's meaning: integers, slices, `None`, `...`, integer arrays, or a tuple of them. No boolean masks.

    fill: what an index out of range gives, instead of NaN.
    """
    entries, arrays, axis = whole(key if isinstance(key, tuple) else (key,), x), [], 0
    parts: list = []
    for entry in entries:
        if entry is None:
            parts.append(None)
            continue
        if isinstance(entry, slice):
            parts.append(bounds(entry))
        else:
            parts.append(indexing.IDS)
            arrays.append(host(entry, x.shape[axis], "index"))
        axis += 1
    if not arrays:
        return slicing.slice(x, key=tuple(parts))
    return indexing.index(x, arrays[0] if len(arrays) == 1 else together(arrays), key=tuple(parts), fill=fill)


def whole(key: tuple, x) -> tuple:
    """The key with `...` written out."""
    given = sum(k is not None and k is not Ellipsis for k in key)
    dots = [i for i, k in enumerate(key) if k is Ellipsis]
    if given > x.ndim or len(dots) > 1:
        raise OperandError(f"index: {len(dots)} times ... in the key" if len(dots) > 1 else f"index: {given} indices for shape {x.shape}")
    if not dots:
        return key
    return (*key[: dots[0]], *(slice(None),) * (x.ndim - given), *key[dots[0] + 1 :])


def bounds(cut: slice) -> tuple:
    try:
        return tuple(None if k is None else operator.index(k) for k in (cut.start, cut.stop, cut.step))
    except TypeError:
        raise OperandError(f"index: {cut} has bounds that are not Python integers; a slice of unknown place is a take of ids") from None


def host(ids, n: int, op: str):
    """Indices into an axis of n, checked where their values are at hand."""
    if isinstance(ids, (list, tuple)):
        ids = np.asarray(ids, None if ids else np.int32)
    dtype = jnp.result_type(ids)
    if not jnp.issubdtype(dtype, jnp.integer):
        hint = "; choose by a mask with where(mask, x, 0)" if dtype == jnp.bool_ else ""
        raise OperandError(f"{op}: an index is {dtype}; expected integers{hint}")
    if isinstance(ids, (int, np.integer)):
        low = high = ids
    elif isinstance(ids, np.ndarray) and ids.size:
        low, high = ids.min(), ids.max()
    else:
        return ids
    if low < -n or high >= n:
        came = f"index {low}" if low == high else f"indices from {low} to {high}"
        raise OutOfRange(f"{op}: {came} for an axis of {n}; expected {-n} to {n - 1}" if n else f"{op}: {came} for an axis that is empty")
    return ids


def together(arrays: list):
    """Index arrays of one key, broadcast and stacked."""
    on_host = all(isinstance(ids, (int, np.integer, np.ndarray)) for ids in arrays)
    numpy = np if on_host else jnp
    return numpy.stack(numpy.broadcast_arrays(*map(numpy.asarray, arrays)))
