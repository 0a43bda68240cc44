"""`pullback report`: one HTML file that shows a run, or several laid over each other. It needs no network and no server."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ..lib.atomic import write_text
from ..lib.errors import ConfigError
from .history import as_json, read_all
from .output import say
from .parsing import parse
from .progress import progress
from .report_page import page
from .run import demand_place

MOST = 16  # runs in one picture: eight colours, whole and dashed


@dataclass(frozen=True)
class Report:
    """Write a report of runs as one HTML file. The last line printed is its path."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder of a run; several are laid over each other."""
    out: Annotated[str | None, tyro.conf.arg(metavar="FILE.html")] = None
    """The file to write; RUN/report.html if not given, or runs-report.html here for several runs."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print one JSON object on standard output and nothing else there."""


def main(argv: Sequence[str]) -> int:
    given = parse(Report, argv, "report")
    folders = [Path(name) for name in given.runs if name]
    if not folders or len(folders) < len(given.runs):
        raise ConfigError("report: there is no RUN, or its name is empty; `pullback runs` lists the runs that there are")
    if len(folders) > MOST:
        raise ConfigError(f"{len(folders)} runs; one report shows at most {MOST}")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ConfigError("a run is named twice; name each once")
    histories = list(read_all(folders, progress()))
    default = folders[0] / "report.html" if len(folders) == 1 else Path("runs-report.html")
    out = demand_place(str(default) if given.out is None else given.out, ".html")
    write_text(out, page(histories))
    if given.json:
        say(report=str(out), runs=[as_json(history.folder, history.standing) for history in histories])
    else:
        print(out)
    return 0
