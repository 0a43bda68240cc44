"""A profile as a table."""

from collections.abc import Sequence

from ..rates import Rates
from .places import DIRECTIONS
from .rows import Profile, Row

HEADS = ("scope", "op", "direction", "ms", "share", "GFLOP/s", "of machine", "GB/s", "of machine")
TEXTS = 3  # columns of words, the first ones
LEAST = 0.001  # share of a row that is shown by itself


def print_profile(profile: Profile, best: Rates, layers: bool) -> None:
    """The rows, longest first, and what they add up to. layers: each layer by itself."""
    slower = profile.watched_s / profile.step_s - 1
    parts = profile.by_direction()
    print(
        f"watched: {1e3 * profile.watched_s:,.1f} ms ({slower:+.1%}), which the rows add up to; {profile.attributed:.1%} of it attributed"
    )
    print(", ".join(f"{name} {parts[name]:.1%}" for name in DIRECTIONS if name in parts))
    print(
        f"this machine: {best.product / 1e9:,.1f} GFLOP/s of products, {best.read / 1e9:,.1f} GB/s of reading, medians of plain programs\n"
    )
    rows = profile.rows if layers else profile.merged()
    shown = [row for row in rows if row.share >= LEAST]
    few = [row for row in rows if row.share < LEAST]
    lines = [cells(row, best) for row in shown]
    if few:
        lines.append((f"{len(few)} smaller", "", "", *numbers([row.seconds for row in few], [row.share for row in few])))
    print_columns([HEADS, *lines])
    print("\nA fusion counts for the op that its result comes from. GB/s: operands and results of instructions, from caches too.")


def cells(row: Row, best: Rates) -> tuple[str, ...]:
    figures = row.as_json(best)
    rate = lambda amount, share: (f"{figures[amount]:,.1f}", f"{figures[share]:.0%}") if figures[amount] else ("", "")
    speeds = *rate("gflop_s", "of_product_rate"), *rate("gb_s", "of_read_rate")
    return *row.place, *numbers([row.seconds], [row.share]), *speeds


def numbers(seconds: Sequence[float], share: Sequence[float]) -> tuple[str, str]:
    return f"{1e3 * sum(seconds):,.3f}", f"{sum(share):.1%}"


def print_columns(rows: Sequence[tuple[str, ...]]) -> None:
    """Words to the left, numbers to the right."""
    rows = [(*row, *("" for _ in range(len(HEADS) - len(row)))) for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADS))]
    for row in rows:
        aligned = (cell.ljust(width) if i < TEXTS else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths)))
        print("  ".join(aligned).rstrip())
