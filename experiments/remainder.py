"""The remainder of a claimed slope, |⟨ȳ, f(x + t·v) − f(x)⟩ − t·⟨x̄, v⟩|, over the step t: a right rule falls with slope 2.

A picture to look at, not a test: a rule that is off by a millionth bends to slope 1 only below steps of a thousandth.
"""

from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from ..autograd.differences import LADDER, moved
from ..autograd.point import OpPoint
from ..lib.atomic import replacing
from ..lib.errors import ConfigError
from ..ops.cases.case import Case, telling
from ..ops.op import Op
from .checking import seed_of

MOST = 12  # panels


def remainders(op: Op, rule: str, cases: Sequence[Case]) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """(case, steps, remainders) for the cases that say most, along one direction each."""
    found = []
    with jax.enable_x64(True):
        for case in telling(cases)[:3]:
            point = OpPoint(op, case.make(np.random.default_rng(seed_of(op, case))), case.statics, seed_of(op, case))
            if not sum(x.size for x in point.xs):
                continue
            judged, chosen = point.held_against(op.find(rule)), op.find(rule)
            x_bars = point.pull(chosen, point.xs, point.y_bars)
            v = tuple(one[:1] for one in point.directions)
            phi = np.asarray(moved(judged.f)(judged.xs, judged.y_bars, v)[0])[0, : len(LADDER)]
            claimed = sum(float(np.vdot(one[0], bar)) for one, bar in zip(v, x_bars))
            found.append((case.label, LADDER, np.abs(phi - LADDER * claimed)))
    return found


def remainder_picture(rules: Sequence[tuple[Op, str, Sequence[Case]]], path: Path) -> None:
    """A panel for each rule at its cases, with a line of slope 2 to hold the curves against."""
    from matplotlib.figure import Figure

    if not 1 <= len(rules) <= MOST:
        raise ConfigError(f"--remainder draws 1 to {MOST} rules; these are {len(rules)}: name ops that have rules, and not too many")
    across = min(3, len(rules))
    down = -(-len(rules) // across)
    figure = Figure(figsize=(4.2 * across, 3.4 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes, (op, rule, cases) in zip(panels, rules):
        for label, steps, off in remainders(op, rule, cases):
            seen = np.isfinite(off) & (off > 0)
            axes.loglog(steps[seen], off[seen], ".-", markersize=4, linewidth=1, label=label)
        top = axes.get_ylim()[1]
        axes.loglog(LADDER, top * LADDER**2, color="grey", linestyle="--", linewidth=1, label="slope 2")
        axes.set(title=f"{op.name} = {rule}", xlabel="step, of the size of x", ylabel="remainder")
        axes.legend(frameon=False, fontsize=7)
        axes.grid(alpha=0.3)
    for axes in panels[len(rules) :]:
        axes.set_axis_off()
    with replacing(path) as beside:
        figure.savefig(beside, dpi=120, format="png")
