"""One line of a verdict, and the two comparisons that make most of them.

A derivative by differences may be off by LIMIT of its own error bars (right rules were seen up to 19); two ways to compute
one thing in float64 may differ by CLOSE of the larger of the two.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from ..lib.gap import offs
from .differences import Slopes

Outcome = Literal["held", "failed", "noted", "not asked"]

LIMIT = 100.0  # error bars
CLOSE = 1e-10  # relative, in float64
WEAK = 1e-4  # an error bar so wide, relative to the slope, that it says little


class Line(NamedTuple):
    """One check. `gap` over `limit` is a failure; both are in the unit that the text names."""

    check: str
    outcome: Outcome
    text: str
    gap: float | None = None
    limit: float | None = None
    where: str | None = None  # operand and element


def compared(check: str, names: Sequence[str], ours: Sequence, theirs: Sequence, what: str, limit: float = CLOSE) -> Line:
    """‖a − b‖/‖b‖ for each array by name; the worst one, and its worst element."""
    worst, where, text = 0.0, None, ""
    for name, a, b in zip(names, ours, theirs):
        if a.shape != b.shape:
            return Line(check, "failed", f"{what}: {name} has shape {a.shape}, expected {b.shape}", where=name)
        off, gap = offs(a, b)
        if gap > worst:
            k = int(np.argmax(off))
            worst, where = gap, element(name, a.shape, k)
            text = f", at {where}: {float(np.ravel(a)[k]):.10g}, expected {float(np.ravel(b)[k]):.10g}"
    if worst > limit:
        return Line(check, "failed", f"{what}: relative gap {worst:.1e} (limit {limit:.0e}){text}", worst, limit, where)
    return Line(check, "held", f"{what}: relative gap {worst:.0e} (limit {limit:.0e})", worst, limit)


def against_bars(check: str, claimed: np.ndarray, measured: Slopes, where: Sequence[str]) -> Line:
    """Held if every claimed slope is within LIMIT error bars of the measured one; at a kink, of those between its two sides."""
    slope, bar, jump = measured
    measurable = np.isfinite(slope) & np.isfinite(bar)
    with np.errstate(all="ignore"):
        gaps = np.where(measurable, np.maximum(np.abs(claimed - slope) - np.abs(jump) / 2, 0.0) / bar, 0.0)
    gaps = np.where(measurable & ~np.isfinite(claimed), np.inf, gaps)
    k = int(np.argmax(gaps))
    gap = float(gaps[k])
    if gap > LIMIT:
        at = f"{slope[k]:.10g}" if not jump[k] else f"{sides(slope[k], jump[k])} at a kink"
        text = f"{where[k]}: claimed {claimed[k]:.10g}, measured {at} ± {bar[k]:.1g} ({gap:.3g} bars, limit {LIMIT:.0f})"
        if slope[k] == 0:
            text += "; small steps change nothing at all: is the function flat there, or rounded to a narrow dtype inside?"
        return Line(check, "failed", text, gap, LIMIT, where[k])
    lost = int(np.sum(~measurable))
    if lost == len(gaps):
        return Line(check, "noted", "no slope could be measured: the function is not finite around this point")
    size = np.max(np.abs(slope[measurable]), initial=0.0)
    wide = float(np.median(bar[measurable]) / size) if size else 0.0
    text = f"{len(gaps) - lost} slopes, worst {gap:.2g} bars off (limit {LIMIT:.0f}); bars {wide:.0e} of the slope"
    if lost:
        text += f"; {lost} not measurable"
    if wide > WEAK:
        text += ": too wide to say much (does the function round to a narrow dtype inside, is one element far larger than the others?)"
    if jump.any():
        k = int(np.argmax(np.abs(jump)))
        text += f"; {np.count_nonzero(jump)} at a kink, where any slope between its sides is right: {where[k]}, {sides(slope[k], jump[k])}"
    blind = measurable & (LIMIT * bar > np.abs(claimed)) & (np.abs(claimed - slope) > np.maximum(1e-3 * np.abs(claimed), np.abs(jump) / 2))
    if blind.any():
        text += f"; {int(blind.sum())} claimed slopes are too small beside their bars to be told, the first {where[int(np.argmax(blind))]}"
    return Line(check, "noted" if blind.sum() + lost == len(gaps) else "held", text, gap, LIMIT)


def sides(slope: float, jump: float) -> str:
    """The slopes to either side of a kink."""
    return f"{slope - jump / 2:.6g} to the left and {slope + jump / 2:.6g} to the right"


def element(name: str, shape: tuple[int, ...], k: int) -> str:
    """`x[1, 2]` for the k-th element."""
    at = ", ".join(str(int(i)) for i in np.unravel_index(k, shape)) if shape else ""
    return f"{name}[{at}]" if at else name


def near(value, expected) -> bool:
    """Within the rounding of the value's dtype; infinities and NaN exactly."""
    value, expected = np.asarray(value), np.asarray(expected)
    if value.shape != expected.shape and value.size + expected.size:
        return False
    eps = 8 * float(jnp.finfo(value.dtype).eps) if jnp.issubdtype(value.dtype, jnp.floating) else 0.0
    return np.allclose(value.astype(np.float64), expected.astype(np.float64).reshape(value.shape), rtol=eps, atol=eps, equal_nan=True)


def shown(x) -> str:
    """An array in one line, cut where it is long."""
    if x is None:
        return "None"
    return np.array2string(np.asarray(x, np.float64), precision=6, threshold=8, edgeitems=3).replace("\n", "")


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]
