"""`pullback check`: judge backward rules, all of them or those named."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from ..lib.errors import ConfigError
from ..ops.op import FACES
from .check_report import as_json, picture, print_table
from .checking import Judged, cases_of, hung, judge, op_and_cases, resolve
from .parsing import parse
from .plot import can_plot
from .pool import spread
from .progress import progress
from .remainder import remainder_picture
from .run import demand_place

LIMIT = 300.0  # seconds for all that one rule owes, on a busy machine too; a rule that takes longer hangs


@dataclass(frozen=True)
class Check:
    """Judge backward rules at the cases of their ops. Exit code 1 if an exact rule fails."""

    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="OP|FILE.py:NAME")] = ()
    """Ops by name, or an op of a Python file of yours that has a list CASES; every op if none is named."""
    quick: tyro.conf.FlagCreatePairsOff[bool] = False
    """Structure, linearity, composite, directions and order 2, at three cases of each op."""
    plot: Annotated[str | None, tyro.conf.arg(metavar="FILE.png")] = None
    """A picture of the table."""
    remainder: Annotated[str | None, tyro.conf.arg(metavar="FILE.png")] = None
    """A picture of what is left of each claimed slope over the step, for up to twelve rules."""
    details: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print the worst line of every check instead of the table."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print one JSON object on standard output and nothing else there."""


def main(argv: Sequence[str]) -> int:
    given = parse(Check, argv, "check")
    if (given.plot, given.remainder) != (None, None) and not can_plot():
        raise ConfigError("pictures need matplotlib: pip install 'pullback[plots]'")
    plot, remainder = (None if path is None else demand_place(path, ".png") for path in (given.plot, given.remainder))
    names = resolve(given.names)
    if remainder:
        found = [op_and_cases(name) for name in names if name not in FACES]
        remainder_picture([(op, rule, cases) for op, cases in found for rule in op.rules], remainder)
    rows = run(names, given.quick)
    if plot:
        picture(rows, plot)
    if given.json:
        print(json.dumps(as_json(rows), allow_nan=False))
    else:
        print_table(rows, given.details)
    return 1 if any(not row.ok for row in rows) else 0


def run(names: Sequence[str], quick: bool) -> list[Judged]:
    """Every rule of these ops, in their order, judged in processes of their own."""
    how = "quick" if quick else "full"
    tasks = [f"{how} {name}" for name in sorted(names, key=lambda name: -len(cases_of(name)))]  # what takes longest begins first
    show, rows, done = progress(), [], set()
    show.start(len(tasks), "op")
    try:
        for answer in spread(judge, tasks, LIMIT):
            rows.append(hung(answer.task.split(" ", 1)[1]) if answer.hung else answer.value)
            done.add(answer.task)
            show.at(len(done), rows[-1].op)
    finally:
        show.close()
    order = {name.rpartition(":")[2]: i for i, name in enumerate(names)}
    return sorted(rows, key=lambda row: (order.get(row.op, 0), row.rule != "exact", row.rule))
