"""`pullback runs`: the runs of a folder and where each stands."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ..lib.errors import ConfigError
from .history import Standing, as_json, is_run, read_all, runs_in
from .output import say, visible
from .parsing import parse
from .progress import progress
from .run import RUNS

HEADS = ("run", "preset", "status", "step", "best validation", "last change")


@dataclass(frozen=True)
class Runs:
    """List the runs of a folder.

    A run is at work while its process has the lock of its folder; finished with its weights written after the last step; diverged
    when its last loss is no number; damaged when a file of it cannot be read; else stopped: it was interrupted or killed.
    """

    folder: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")] = str(RUNS)
    """The folder that holds the folders of runs."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print one JSON object on standard output and nothing else there."""


def main(argv: Sequence[str]) -> int:
    given = parse(Runs, argv, "runs")
    folder = Path(given.folder)
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {given.folder!r}; `pullback train` makes {RUNS} and a run in it")
    if is_run(folder):
        raise ConfigError(f"{folder} is a run itself; name the folder that holds it, or see `pullback report {folder}`")
    folders = runs_in(folder)
    found = list(zip(folders, read_all(folders, progress(), keep=True)))
    if given.json:
        say(folder=str(folder), runs=[as_json(path, one if isinstance(one, Exception) else one.standing) for path, one in found])
    elif not found:
        print(f"no runs in {folder}")
    else:
        print_table([row(path, one if isinstance(one, Exception) else one.standing) for path, one in found])
    return 0


def row(path: Path, one: Standing | Exception) -> tuple[str, ...]:
    if isinstance(one, Exception):
        return path.name, "", f"damaged: {one}"
    best = "" if one.best_val_loss is None else f"{one.best_val_loss:.4g} at {one.best_step:,}"
    return (
        path.name,
        one.preset,
        one.status,
        f"{one.step:,} of {one.steps:,}",
        best,
        time.strftime("%Y-%m-%d %H:%M", time.localtime(one.changed)),
    )


def print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """What is damaged is told to the end of its line, and makes no column wider."""
    whole = [HEADS, *(one for one in rows if len(one) == len(HEADS))]
    widths = [max(len(one[i]) for one in whole) for i in range(len(HEADS))]
    widths[0] = max(len(one[0]) for one in [HEADS, *rows])
    for one in [HEADS, *rows]:
        print(visible("  ".join(cell.ljust(width) for cell, width in zip(one, widths)).rstrip()))
