"""Reading what stands between the brackets of x[...]: NumPy's keys, taken apart into what an op can be given.

Indices whose values Python or NumPy holds are checked here and raise; `indexing.py` has the rule for the others.
"""

import operator
from types import EllipsisType
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..lib.errors import OperandError, OutOfRange
from .rule import aval_of

IDS = "ids"  # stands in a key where an index array goes
Cut = tuple[int | None, int | None, int | None]
Key = tuple[Cut | str | EllipsisType | None, ...]

WHOLE = (None, None, None)


class Place(NamedTuple):
    """A place in an array.

    shape: that of the array, with an axis of size 1 more for every mask without axes.
    key: `(start, stop, step)` for a slice, `None` for a new axis, "ids" for an index array. A `...` that stands for no axis
        is kept beside index arrays: it sets them apart, and their axes then lead.
    ids: the index array; of several, all, broadcast and stacked along a leading axis; `None` without.
    """

    shape: tuple[int, ...]
    key: Key
    ids: Any


def read(key, shape: tuple[int, ...], op: str) -> Place:
    """The place that `key` means in an array of this shape: integers, slices, `None`, `...`, integer arrays and masks."""
    entries = [as_array(entry, op) for entry in (key if isinstance(key, tuple) else (key,))]
    given, dots = sum(map(spanned, entries)), sum(entry is Ellipsis for entry in entries)
    if dots > 1:
        raise OperandError(f"{op}: {dots} times ... in the key; expected one at most")
    if given > len(shape):
        raise OutOfRange(f"{op}: {given} indices for shape {shape}")
    rest = list(shape)
    sizes: list[int] = []
    parts: list = []
    arrays: list = []
    for entry in entries:
        count = len(shape) - given if entry is Ellipsis else spanned(entry)
        here, rest = rest[:count], rest[count:]
        if entry is None:
            parts.append(None)
        elif entry is Ellipsis:
            parts.extend([WHOLE] * count or [Ellipsis])
        elif isinstance(entry, slice):
            parts.append(bounds(entry, op))
        elif is_mask(entry):
            found = where_true(entry, tuple(here), op)
            here = here or [1]
            parts.extend([IDS] * len(found))
            arrays.extend(found)
        else:
            parts.append(IDS)
            arrays.append(checked(entry, here[0], op))
        sizes.extend(here)
    if not arrays:
        parts = [part for part in parts if part is not Ellipsis]
    return Place((*sizes, *rest), tuple(parts), together(arrays, op))


def as_array(entry, op: str):
    """Lists of indices, and Python's booleans, as NumPy arrays; everything else as it is."""
    if isinstance(entry, (list, tuple)):
        try:
            return np.asarray(entry, None if len(entry) else np.int32)
        except (TypeError, ValueError):  # traced values in it, or rows of several lengths
            raise OperandError(
                f"{op}: a list of indices holds Python's integers, in rows of one length; for others pass an array"
            ) from None
    return np.asarray(entry) if isinstance(entry, bool) else entry


def is_mask(entry) -> bool:
    return getattr(entry, "dtype", None) == jnp.bool_


def spanned(entry) -> int:
    """How many axes of the array an entry of a key stands for."""
    if entry is None or entry is Ellipsis:
        return 0
    return entry.ndim if is_mask(entry) else 1


def bounds(cut: slice, op: str) -> Cut:
    try:
        start, stop, step = (None if k is None else operator.index(k) for k in (cut.start, cut.stop, cut.step))
    except TypeError:
        raise OperandError(f"{op}: {cut} has bounds that are not Python integers; a slice of unknown place is a take of ids") from None
    if step == 0:
        raise OperandError(f"{op}: {cut} steps by 0")
    return start, stop, step


def where_true(mask, shape: tuple[int, ...], op: str) -> tuple:
    """The indices at which a mask holds, an array for each of its axes; one without axes becomes an index into a new axis of 1."""
    if isinstance(mask, Tracer):
        raise OperandError(
            f"{op}: how many values a traced mask chooses is not known while tracing; select with where(mask, x, 0) or "
            "masked_fill(x, mask, 0), which keep the shape, or pass a mask made of NumPy arrays"
        )
    if mask.shape != shape:
        raise OutOfRange(f"{op}: a mask of shape {mask.shape} for axes of shape {shape}; expected one of as many")
    return np.nonzero(np.asarray(mask)) if shape else (np.zeros(int(mask), np.int32),)


def checked(ids, n: int, op: str, low: int | None = None):
    """Indices into an axis of n, from `low` (−n where not given) to n − 1, checked where their values are at hand."""
    ids, low = as_array(ids, op), -n if low is None else low
    try:
        dtype = aval_of(ids).dtype  # type: ignore[union-attr]
    except (AttributeError, TypeError):
        raise OperandError(f"{op}: an index is a {type(ids).__name__}; expected integers") from None
    if not jnp.issubdtype(dtype, jnp.integer):
        hint = "; choose by a mask with where(mask, x, 0)" if dtype == jnp.bool_ else ""
        raise OperandError(f"{op}: an index is {dtype}; expected integers{hint}")
    if isinstance(ids, (int, np.integer)):
        least = most = ids
    elif isinstance(ids, np.ndarray) and ids.size:
        least, most = ids.min(), ids.max()
    else:
        return ids
    if least < low or most >= n:
        came = f"index {least}" if least == most else f"indices from {least} to {most}"
        raise OutOfRange(f"{op}: {came} for an axis of {n}; expected {low} to {n - 1}" if n else f"{op}: {came} for an axis that is empty")
    return ids


def together(arrays: list, op: str):
    """The index arrays of one key as one operand: broadcast and stacked where there are several, `None` where there are none."""
    if len(arrays) < 2:
        return arrays[0] if arrays else None
    on_host = all(isinstance(ids, (int, np.integer, np.ndarray)) for ids in arrays)
    numpy = np if on_host else jnp
    try:
        return numpy.stack(numpy.broadcast_arrays(*map(numpy.asarray, arrays)))
    except ValueError:
        shapes = ", ".join(str(np.shape(ids)) for ids in arrays)
        raise OperandError(
            f"{op}: index arrays of shapes {shapes} do not broadcast; counted from the right, sizes must be equal or 1"
        ) from None
