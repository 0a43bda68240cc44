"""A profile as a picture: the step at the top, below it the directions, then the scopes of the model down to their ops, each as wide
as its time. A box whose name does not fit into it has none."""

import re
from pathlib import Path
from typing import NamedTuple

from ...lib.atomic import replacing
from .places import DIRECTIONS
from .rows import Profile, Row

WIDE, HIGH = 18.0, 0.56  # inches of the picture, and of a box
COLOURS = {"forward": "#4c8fd0", "backward": "#e08a3c", "update": "#5aa469", "other": "#9a9a9a"}
SIZE = 8.5  # points of a text
LINE = 1.25 * SIZE / 72  # inches


class Box(NamedTuple):
    """start and width in milliseconds, depth from the top; colour "" for the step itself."""

    start: float
    width: float
    depth: int
    name: str
    direction: str
    is_op: bool


def plot_flame(path: str | Path, profile: Profile, title: str, layers: bool = False) -> None:
    """As a PNG. layers: each layer by itself."""
    from matplotlib.figure import Figure  # without pyplot: no window, no state

    whole = boxes(profile.rows if layers else profile.merged())
    deepest = max(box.depth for box in whole)
    figure = Figure(figsize=(WIDE, HIGH * (deepest + 1) + 1.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlim=(0, whole[0].width), ylim=(-deepest - 1, 0), xlabel="milliseconds of a watched step, the longest first", yticks=[])
    axes.set_title(title, fontsize=11)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    scale = (WIDE - 0.5) / whole[0].width  # inches of a millisecond
    for box in whole:
        face, edge = (lighter(COLOURS[box.direction], 0.62 if box.is_op else 0.25), "white") if box.direction else ("#dddddd", "white")
        axes.add_patch(rectangle(box, face, edge))
        text = fitting(box, whole[0].width, scale * box.width)
        if text:
            axes.text(box.start + box.width / 2, -box.depth - 0.5, text, ha="center", va="center", fontsize=SIZE, linespacing=1.15)
    with replacing(Path(path)) as beside:
        figure.savefig(beside, dpi=110, format="png")


def rectangle(box: Box, face: str, edge: str):
    from matplotlib.patches import Rectangle

    return Rectangle((box.start, -box.depth - 1), box.width, 1, facecolor=face, edgecolor=edge, linewidth=1)


def lighter(colour: str, by: float) -> str:
    """A colour on its way to white: 0 leaves it, 1 is white."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * by):02x}" for part in parts)


def boxes(rows: list[Row]) -> list[Box]:
    """The step, and below it every direction, scope and op. Scopes stand in the same order in both directions, longest first."""
    found = [Box(0.0, 1e3 * sum(row.seconds for row in rows), 0, "step, watched", "", False)]
    start = 0.0
    for direction in DIRECTIONS:
        paths = {path_of(row): 1e3 * row.seconds for row in rows if row.place.direction == direction}
        if paths:
            found.append(Box(start, sum(paths.values()), 1, direction, direction, False))
            below(found, paths, everywhere(rows), start, 2, direction)
            start += sum(paths.values())
    return found


def path_of(row: Row) -> tuple[str, ...]:
    """("blocks.*", "mlp", "fc", "linear"): a layer's number stays with the name before it."""
    scopes = re.split(r"\.(?![\d*])", row.place.scope) if row.place.scope else []
    return *scopes, row.place.op


def everywhere(rows: list[Row]) -> dict[tuple[str, ...], float]:
    """Seconds under each beginning of a path, in all directions together: what decides their order."""
    found: dict[tuple[str, ...], float] = {}
    for row in rows:
        path = path_of(row)
        for i in range(1, len(path) + 1):
            found[path[:i]] = found.get(path[:i], 0.0) + row.seconds
    return found


def below(found: list[Box], paths: dict[tuple[str, ...], float], order: dict, start: float, depth: int, direction: str) -> None:
    """The boxes of some paths, which have the same first `depth - 2` names."""
    heads: dict[tuple[str, ...], dict[tuple[str, ...], float]] = {}
    for path, width in paths.items():
        heads.setdefault(path[: depth - 1], {})[path] = width
    for head in sorted(heads, key=lambda head: -order[head]):
        inside, width = heads[head], sum(heads[head].values())
        is_op = head in inside
        found.append(Box(start, width, depth, head[-1], direction, is_op))
        deeper = {path: width for path, width in inside.items() if path != head}
        below(found, deeper, order, start, depth + 1, direction)
        start += width


def fitting(box: Box, whole: float, inches: float) -> str:
    """The most that there is room for: the name with its time and share, or the name, in one line or in several; or nothing."""
    from matplotlib.textpath import TextPath

    figures = f"{box.width:,.1f} ms, {box.width / whole:.0%}"
    broken = box.name.replace("_", "_\n")
    for text in (f"{box.name}\n{figures}", f"{box.name}\n{box.width / whole:.0%}", box.name, broken):
        lines = text.split("\n")
        wide = max(TextPath((0, 0), line, size=SIZE).get_extents().width for line in lines) / 72 if box.name else 0
        if wide < inches - 0.06 and LINE * len(lines) < HIGH:
            return text
    return ""
