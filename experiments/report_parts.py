"""What the sections of a report are made of: a run with its name, headings, tables, folds. Text in, HTML out."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .charts import text
from .columns import finite
from .history import History

ABSENT = "—"
LONG, LONGEST = 32, 300  # characters: what breaks anywhere, what is cut


class Run(NamedTuple):
    name: str
    history: History

    @property
    def step(self) -> dict[str, Any]:
        """What provenance says of the compiled step."""
        step = self.history.provenance.get("step")
        return step if isinstance(step, dict) else {}


def number(x: Any, form: str, unit: str = "") -> str:
    return ABSENT if math.isnan(x := finite(x)) else format(x, form) + unit


def count(record: Mapping[str, Any], name: str) -> int | None:
    x = record.get(name)
    return x if type(x) is int and 0 <= x < 2**63 else None


def part(heading: str, body: str, name: str) -> str:
    return f"<section id='{name}'><h2>{heading}</h2>{body}</section>"


def folded(summary: str, body: str) -> str:
    return f"<details><summary>{text(summary)}</summary>{body}</details>"


def none(said: str) -> str:
    """In place of what is not there."""
    return f"<p class='none'>{said}</p>"


def key(i: int, run: Run) -> str:
    return f"<span class='key'><i class='box c{i}'></i>{text(run.name)}</span>"


def pill(run: Run) -> str:
    status = run.history.standing.status
    return f"<span class='status {status.replace(' ', '-')}'>{status}</span>"


def value(said: str) -> str:
    """A stranger's text in a cell."""
    cut = text(said if len(said) <= LONGEST else said[: LONGEST - 1] + "…") or "<i>empty</i>"
    return cut if len(said) <= LONG else f"<span class='long'>{cut}</span>"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], name: str = "") -> str:
    """heads: text; cells: HTML."""
    head = "".join(f"<th scope='col'>{text(cell)}</th>" for cell in heads)
    body = "".join(f"<tr><th scope='row'>{row[0]}</th>{''.join(f'<td>{cell}</td>' for cell in row[1:])}</tr>" for row in rows)
    named = f" id='{name}'" if name else ""
    return f"<div class='scroll'{named} tabindex='0'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
