"""Numbers as SVG and HTML, to stand inside a page: lines over steps, shares of a whole, bars.

A chart is as wide as its place. Its lines live in a box of SIDE by SIDE units that is stretched to fit, with strokes that are
not; text and points are placed by percent and keep their size, on a telephone too.
"""

import html
import math
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

SIDE = 10_000  # units of a chart's box, so that a coordinate is an integer
MOST = 1_500  # points of a line
MARKED = 60  # points that are still told apart


class Line(NamedTuple):
    """values over steps. colour: an index into the page's. kind: "line", "faint" behind another, or "points" that are joined."""

    name: str
    colour: int
    steps: np.ndarray
    values: np.ndarray
    kind: str = "line"


class Scale(NamedTuple):
    """The values from low to high; log: by their logarithms."""

    low: float
    high: float
    log: bool = False

    def at(self, x):
        """0 at low, 1 at high."""
        if self.log:
            return np.log(np.maximum(x, 1e-300) / self.low) / math.log(self.high / self.low)
        return (x - self.low) / (self.high - self.low)


def text(x: object) -> str:
    """Anything as text of a page: escaped, and without characters that are neither to be seen nor spaces."""
    shown = lambda c: c.isprintable() or c in "\n\t" or unicodedata.category(c) == "Zs"
    return html.escape("".join(c if shown(c) else "\ufffd" for c in str(x)))


def short(x: float) -> str:
    """0.0003, 3e-5, 1,500, 20k, 1.5M."""
    if abs(x) >= 1e12 or 0 < abs(x) < 1e-4:
        mantissa, exponent = f"{x:.3g}".split("e") if "e" in f"{x:.3g}" else (f"{x:.3g}", "0")
        return f"{mantissa}e{int(exponent)}"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(x) >= size:
            return f"{x / (1e3 if letter == 'k' else size):.4g}{letter}"
    return f"{x:,.4g}" if abs(x) < 1000 else f"{x:,.0f}"


def thin(steps: np.ndarray, values: np.ndarray, most: int = MOST) -> tuple[np.ndarray, np.ndarray]:
    """At most so many points: of each stretch the lowest and the highest, so that no spike is lost; the last point stays."""
    if len(steps) <= most:
        return steps, values
    kept = [len(steps) - 1]
    for stretch in np.array_split(np.arange(len(steps)), (most - 1) // 2):
        kept += [stretch[values[stretch].argmin()], stretch[values[stretch].argmax()]]
    kept = np.unique(kept)
    return steps[kept], values[kept]


def ticks(scale: Scale, about: int) -> list[float]:
    """Round numbers within the scale, about so many."""
    if scale.log:
        decades = range(math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high)) + 1)
        for digits in ((1, 2, 5), (1, 3), (1,)):
            found = [d * 10.0**e for e in decades for d in digits if scale.low <= d * 10.0**e <= scale.high]
            if len(found) <= about + 1:
                return found
        return found[:: math.ceil(len(found) / about)]
    rough = 0.75 * (scale.high - scale.low) / about
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * m for m in (1, 2, 2.5, 5, 10) if size * m >= rough * 0.999)
    first, last = math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def span(lines: Sequence[Line], from_zero: bool) -> Scale:
    """The scale of the values: of all of them, but of a faint line without its outermost hundredths, at most ten values, which
    may be spikes. By logarithms where the largest is over 20 times the smallest."""
    spikes = [min(0.01, 10 / len(line.values)) if line.kind == "faint" else 0.0 for line in lines]
    ends = [np.quantile(line.values, (few, 1 - few)) for line, few in zip(lines, spikes)]
    low, high = float(np.min(ends)), float(np.max(ends))
    if not from_zero and low > 0 and high > 20 * low:
        return Scale(low / 1.2, high * 1.2, log=True)
    if from_zero and low >= 0:
        return Scale(0.0, high * 1.08 or 1.0)
    room = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    return Scale(low - room, high + room)


def chart(title: str, unit: str, lines: Sequence[Line], from_zero: bool = False, wide: bool = False) -> str:
    """A figure of lines over steps, with a legend if there are several."""
    lines = [line for line in lines if len(line.steps)]
    if not lines:
        body = '<p class="none">no numbers yet</p>'
        return f'<figure class="chart{" wide" if wide else ""}"><figcaption><h3>{text(title)}</h3></figcaption>{body}</figure>'
    y = span(lines, from_zero)
    x = Scale(0.0, float(max(line.steps[-1] for line in lines)) or 1.0)
    told = "; ".join(f"{line.name} from {short(line.values[0])} to {short(line.values[-1])}" for line in lines if line.kind != "faint")
    grid, paths, points, keys = [], [], [], []
    for value in ticks(y, 5 if wide else 4):
        at = f"{100 - 100 * float(y.at(value)):.2f}%"
        grid.append(f'<line x2="100%" y1="{at}" y2="{at}"/><text class="y" x="-8" y="{at}" dy=".35em">{short(value)}</text>')
    for value in ticks(x, 5 if wide else 4):
        at = float(x.at(value))
        end = ' class="end"' if at > 0.96 else ""
        grid.append(f'<text x="{100 * at:.2f}%" y="100%" dy="1.6em"{end}>{short(value)}</text>')
    for line in lines:
        steps, values = thin(line.steps, line.values)
        across, down = np.rint(SIDE * x.at(steps)).astype(int), np.rint(SIDE * (1 - y.at(values))).clip(-SIDE, 2 * SIDE).astype(int)
        style = f'class="{line.kind} c{line.colour}"'
        name = f' data-name="{text(line.name)}"'
        paths.append(f'<path {style}{name} d="M{"L".join(f"{a} {b}" for a, b in zip(across, down))}"/>')
        if line.kind == "points" and len(steps) <= MARKED or len(steps) == 1:
            points += [f'<circle class="c{line.colour}" cx="{a / 100:g}%" cy="{b / 100:g}%" r="3.5"/>' for a, b in zip(across, down)]
        if line.kind != "points" or line.colour not in {other.colour for other in lines if other.kind != "points"}:
            keys.append((f"{line.kind} c{line.colour}", line.name))  # the dots of a run that has a line need no word of their own
    log = ", log scale" if y.log else ""
    numbers = f"{x.high:g} {y.low:.9g} {y.high:.9g} {int(y.log)}"
    return (
        f'<figure class="chart{" wide" if wide else ""}"><figcaption><h3>{text(title)}</h3><span>{text(unit)}{log}</span></figcaption>'
        f'<div class="frame"><svg class="plot" role="img" aria-label="{text(f"{title} by step: {told}")}" data-scale="{numbers}">'
        f'<g class="grid">{"".join(grid)}</g>'
        f'<svg viewBox="0 0 {SIDE} {SIDE}" preserveAspectRatio="none" width="100%" height="100%">{"".join(paths)}</svg>'
        f'{"".join(points)}<line class="cursor" y2="100%"/></svg><div class="readout" aria-hidden="true"></div></div>'
        f'<div class="below">{legend(keys) if len(keys) > 1 else ""}<span>step</span></div></figure>'
    )


def legend(keys: Sequence[tuple[str, str]]) -> str:
    """(classes, name) of each."""
    return f'<ul class="legend">{"".join(f"<li><i class={chr(34)}{how}{chr(34)}></i>{text(name)}</li>" for how, name in keys)}</ul>'


def size(count: float) -> str:
    """Bytes for people."""
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 2**power:
            return f"{count / 2**power:,.1f} {unit}"
    return f"{count:,.0f} B"


def stack(name: str, parts: Sequence[tuple[str, int]], whole: int) -> str:
    """A bar of parts, in bytes, on a scale that ends at `whole`."""
    told, boxes, start = "; ".join(f"{part} {size(count)}" for part, count in parts), [], 0.0
    for i, (part, count) in enumerate(parts):
        width = 100 * count / whole
        boxes.append(
            f'<rect class="m{i}" x="{start:.2f}%" width="{width:.2f}%" height="100%"><title>{text(part)}: {size(count)}</title></rect>'
        )
        start += width
    return f'<svg class="stack" role="img" aria-label="{text(f"{name}: {told}")}">{"".join(boxes)}</svg>'


def bars(rows: Sequence[tuple[str, Sequence[int]]]) -> str:
    """Names with a bar, in bytes, for each run: a list, longest first as given."""
    most = max((count for _, counts in rows for count in counts), default=0) or 1
    items = []
    for name, counts in rows:
        lines = (
            f'<div class="bar"><svg aria-hidden="true"><rect class="c{i}" width="{100 * n / most:.2f}%" height="100%"/></svg>'
            f"<span>{size(n)}</span></div>"
            for i, n in enumerate(counts)
        )
        items.append(f'<li><span class="name">{text(name)}</span><div>{"".join(lines)}</div></li>')
    return f'<ol class="bars">{"".join(items)}</ol>'
