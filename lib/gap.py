"""How far apart two arrays are: elements that differ, units in the last place, and relative to their size."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np


class Gap(NamedTuple):
    """differing: elements whose bits differ (for arrays of two dtypes: whose values do), of `size`. ulps: the largest distance in
    representable numbers; None where the dtypes differ or are no floats. relative: ‖a − b‖/‖b‖ over finite elements, infinite
    where only one of two is finite. at: the element that is furthest off; a, b: what is there."""

    differing: int
    size: int
    ulps: int | None
    relative: float
    at: tuple[int, ...]
    a: float
    b: float

    def __str__(self) -> str:
        ulps = "" if self.ulps is None else f"up to {self.ulps:,} ulps, "
        place = f"[{', '.join(map(str, self.at))}]: " if self.at else ""
        return (
            f"{self.differing:,} of {self.size:,} elements differ, {ulps}relative {self.relative:.1e}; {place}{self.a:.9g} and {self.b:.9g}"
        )


def gap(a: Any, b: Any) -> Gap:
    """Of two arrays of one shape, of numbers or of booleans. −0 and 0 differ; two NaNs of the same bits do not."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        raise ValueError(f"arrays of shapes {a.shape} and {b.shape} have no gap")
    off, relative = offs(a, b)
    if a.dtype == b.dtype:
        differs = words(a) != words(b)
        ulps = int(distances(a, b).max(initial=0)) if jnp.issubdtype(a.dtype, jnp.floating) else None
    else:
        differs, ulps = off > 0, None
    k = int(np.argmax(off)) if off.any() else int(np.argmax(differs)) if differs.size else 0
    at = tuple(map(int, np.unravel_index(k, a.shape))) if a.size else ()
    first, second = (float(x.ravel()[k]) for x in (a, b)) if a.size else (0.0, 0.0)
    return Gap(int(differs.sum()), a.size, ulps, relative, at, first, second)


def offs(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, float]:
    """(|a − b| in float64, flat, 0 where both are the same or both NaN and infinite where one is not finite; ‖a − b‖/‖b‖)."""
    a, b = np.asarray(a, np.float64).ravel(), np.asarray(b, np.float64).ravel()
    with np.errstate(all="ignore"):
        off = np.abs(a - b)
        off = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.where(np.isfinite(off), off, np.inf))
        size = np.linalg.norm(b[np.isfinite(b)])
        return off, float(np.linalg.norm(off) / (size or 1.0)) if off.size else 0.0


def words(x: np.ndarray) -> np.ndarray:
    """The bits of each element."""
    return np.ascontiguousarray(x).ravel().view(f"u{x.dtype.itemsize}")


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Steps from one representable number to the next between each two elements."""
    a, b = ordered(a), ordered(b)
    return np.maximum(a, b) - np.minimum(a, b)


def ordered(x: np.ndarray) -> np.ndarray:
    """Unsigned integers in the order of the floats: of a negative number all bits are turned, of another one the first."""
    bits, sign = words(x), 1 << (8 * x.dtype.itemsize - 1)
    return np.where(bits & bits.dtype.type(sign), ~bits, bits | bits.dtype.type(sign))
