"""NumPy's spelling of the ops whose own signature is the machinery's: sequences, counts, and functions made of other ops.

Here axes may be given by position. `lookup.py` has the same for ops that take indices.
"""

import math
from collections.abc import Sequence
from numbers import Number

import jax
import jax.numpy as jnp
import numpy as np

from ..lib.errors import OperandError, near
from . import indexing, joining, layout, rectifier, reduction, slicing
from .identity import cast, discrete
from .op import face
from .shape import axes_of, broadcast_to, reshape, transpose

WHOLE = (None, None, None)  # an axis that stays whole, in the key of a slice
MODES = ("constant", "edge", "reflect", "symmetric", "wrap")  # of pad


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


@face("reshape")
def expand_dims(x, axis: int | tuple[int, ...]):
    """x with new axes of size 1, which stand at `axis` in the result."""
    new = axes_of(axis, x.ndim + (len(axis) if isinstance(axis, tuple) else 1), "expand_dims")
    sizes = iter(x.shape)
    return reshape(x, shape=tuple(1 if a in new else next(sizes) for a in range(x.ndim + len(new))))


@face("reshape")
def squeeze(x, axis: int | tuple[int, ...] | None = None):
    """x without these axes of size 1; without all of them for `None`."""
    gone = tuple(a for a, n in enumerate(x.shape) if n == 1) if axis is None else axes_of(axis, x.ndim, "squeeze")
    if math.prod(x.shape[a] for a in gone) != 1:
        raise OperandError(f"squeeze: axis {axis} of shape {x.shape} is not of size 1")
    return reshape(x, shape=tuple(n for a, n in enumerate(x.shape) if a not in gone))


@face("reshape")
def ravel(x):
    """x as one axis, row-major."""
    return reshape(x, shape=(-1,))


@face("transpose")
def swapaxes(x, axis1: int, axis2: int):
    """x with two axes exchanged."""
    order = list(range(x.ndim))
    a, b = axes_of(axis1, x.ndim, "swapaxes") + axes_of(axis2, x.ndim, "swapaxes")
    order[a], order[b] = b, a
    return transpose(x, axes=tuple(order))


@face("transpose")
def moveaxis(x, source: int | tuple[int, ...], destination: int | tuple[int, ...]):
    """x with the axes `source` at `destination`; the others keep their order."""
    sources, targets = axes_of(source, x.ndim, "moveaxis"), axes_of(destination, x.ndim, "moveaxis")
    if len(sources) != len(targets):
        raise OperandError(f"moveaxis: {len(sources)} axes {source} for {len(targets)} places {destination}; expected as many")
    stay = iter(a for a in range(x.ndim) if a not in sources)
    return transpose(x, axes=tuple(sources[targets.index(a)] if a in targets else next(stay) for a in range(x.ndim)))


def flip(x, axis: int | tuple[int, ...] | None = None):
    """x in reverse order along the axes, along all of them for `None`."""
    return layout.flip(x, axis=axis)


def roll(x, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None):
    """x moved on by `shift` places along the axes, what leaves at one end entering at the other; as one axis for `None`."""
    if axis is None:
        return reshape(layout.roll(ravel(x), shift=(shifts(shift, 1)[0],), axis=(0,)), shape=x.shape)
    axes = axes_of(axis, x.ndim, "roll")
    return layout.roll(x, shift=shifts(shift, len(axes)), axis=axes)


def shifts(shift: int | tuple[int, ...], count: int) -> tuple[int, ...]:
    """One shift for each axis."""
    given = shift if isinstance(shift, tuple) else (shift,) * count
    if len(given) != count:
        raise OperandError(f"roll: {len(given)} shifts {shift} for {count} axes; expected one number, or one for each axis")
    return given


def pad(x, pad_width, mode: str = "constant", constant_values: int | float = 0):
    """x with more elements at the ends of its axes.

    pad_width: a number, (before, after), or a pair for each axis. mode: `constant` puts `constant_values` there; `edge`
    repeats the last element, `reflect` mirrors at it, `symmetric` mirrors behind it, `wrap` goes on at the other end.
    """
    if mode not in MODES:
        raise OperandError(f"pad: no mode {mode!r}" + near(mode, MODES))
    if not isinstance(constant_values, Number):
        raise OperandError(f"pad: constant_values is a {type(constant_values).__name__}; expected one number")
    widths = widths_of(pad_width, x.ndim)
    if mode == "constant":
        return layout.pad(x, pad_width=widths, constant_values=constant_values)
    for axis, (n, width) in enumerate(zip(x.shape, widths)):
        if any(width):
            if not n:
                raise OperandError(f"pad: axis {axis} of shape {x.shape} has no element to continue with mode {mode!r}; only constant can")
            x = indexing.take(x, np.pad(np.arange(n, dtype=np.int32), width, mode), axis=axis)
    return x


def widths_of(pad_width, ndim: int) -> tuple[tuple[int, int], ...]:
    """(before, after) for each axis."""
    widths = counts_of(pad_width, "pad: pad_width")
    try:
        return tuple((before, after) for before, after in np.broadcast_to(widths, (ndim, 2)).tolist())
    except ValueError:
        text = f"pad: pad_width {pad_width} for {ndim} axes; expected one number, (before, after), or a pair for each axis"
        raise OperandError(text) from None


def counts_of(counts, what: str) -> np.ndarray:
    """Whole numbers that are known before the program runs, as the shape of a result must be."""
    try:
        found = np.asarray(counts)
    except jax.errors.TracerArrayConversionError:
        raise OperandError(f"{what} is known only while the program runs, and the shape of the result hangs on it; pass numbers") from None
    except ValueError:  # of several lengths
        found = np.array([-1])
    if found.size and (found.dtype.kind not in "iu" or found.min() < 0):
        raise OperandError(f"{what} {counts}; expected whole numbers ≥ 0")
    return found.astype(int)


def tril(x, k: int = 0):
    """x on and below the k-th diagonal of its last two axes, else 0."""
    return layout.tril(x, k=k)


def triu(x, k: int = 0):
    """x on and above the k-th diagonal of its last two axes, else 0."""
    return layout.triu(x, k=k)


@face("transpose", "reshape", "slice")
def diagonal(x, offset: int = 0, axis1: int = 0, axis2: int = 1):
    """The x[i, i + offset] of two axes, which a last axis replaces. A slice of the rows laid end to end, so no look-up."""
    if x.ndim < 2:
        raise OperandError(f"diagonal: x of shape {x.shape}; expected two or more axes")
    pair = axes_of((axis1, axis2), x.ndim, "diagonal")
    x = transpose(x, axes=(*(a for a in range(x.ndim) if a not in pair), *pair))
    *lead, n, m = x.shape
    start = offset if offset >= 0 else -offset * m
    count = max(0, min(n, m - offset) if offset >= 0 else min(n + offset, m))
    rows = reshape(x, shape=(*lead, n * m))
    return slicing.slice(rows, key=(*[WHOLE] * len(lead), (start, start + count * (m + 1), m + 1)))


@face("transpose", "reshape", "slice", "sum")
def trace(x, offset: int = 0, axis1: int = 0, axis2: int = 1):
    """Σ x[i, i + offset] of two axes."""
    return reduction.sum(diagonal(x, offset, axis1, axis2), axis=-1)


@face("reshape", "broadcast_to", "take")
def repeat(x, repeats: int | Sequence[int], axis: int | None = None):
    """Each element `repeats` times in a row along an axis, in the flattened array for `None`; or each its own count of times."""
    if axis is None:
        x, axis = ravel(x), 0
    at = axes_of(axis, x.ndim, "repeat")[0]
    n = x.shape[at]
    counts = counts_of(repeats, "repeat: repeats")
    if counts.ndim > 1 or counts.size not in (1, n):
        raise OperandError(f"repeat: repeats {repeats} for an axis of {n}; expected one number, or {n} of them")
    if counts.size != 1:
        return indexing.take(x, np.repeat(np.arange(n, dtype=np.int32), counts), axis=at)
    count = int(counts.reshape(()))
    before, after = x.shape[: at + 1], x.shape[at + 1 :]
    rows = broadcast_to(reshape(x, shape=(*before, 1, *after)), shape=(*before, count, *after))
    return reshape(rows, shape=(*before[:-1], n * count, *after))


@face("reshape", "broadcast_to")
def tile(x, reps: int | Sequence[int]):
    """x laid `reps` times side by side along each axis; new leading axes where there are more numbers than axes."""
    counts = tuple(counts_of(reps, "tile: reps").ravel().tolist())
    ndim = max(x.ndim, len(counts))
    sizes = (1,) * (ndim - x.ndim) + tuple(x.shape)
    pairs = list(zip((1,) * (ndim - len(counts)) + counts, sizes))
    rows = reshape(x, shape=tuple(n for _, size in pairs for n in (1, size)))
    return reshape(broadcast_to(rows, shape=tuple(n for pair in pairs for n in pair)), shape=tuple(count * size for count, size in pairs))


def clip(x, min=None, max=None):
    """x held to min … max, as np.clip: bounds by position or by name, numbers or arrays, `None` for no bound."""
    return rectifier.clip(x, min, max)


@face("cast", "discrete")
def astype(x, dtype):
    """x in another dtype. A float dtype keeps x tracked (`cast`); nothing flows back through integers and booleans (`discrete`)."""
    name = jax.dtypes.canonicalize_dtype(dtype).name  # float and int are what they are to jax.numpy
    return cast(x, dtype=name) if jnp.issubdtype(name, jnp.floating) else discrete(x, dtype=name)
