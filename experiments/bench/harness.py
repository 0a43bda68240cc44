"""Programs measured beside each other: separate processes, one after the other, several rounds, medians."""

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from ...lib.arena import tunables
from ...lib.errors import ConfigError, PullbackError

Line = dict[str, Any]


class BenchFailed(PullbackError):
    """A program of a bench ended without its line of figures."""


def environment(arena: bool) -> dict[str, str]:
    """This process's environment with the arena's settings put in, or taken out."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PULLBACK_ARENA")}
    others = [part for part in kept.pop("GLIBC_TUNABLES", "").split(":") if part and not part.startswith("glibc.malloc.")]
    if arena:
        others.append(tunables())
    return {**kept, "GLIBC_TUNABLES": ":".join(others)} if others else kept


def measured(name: str, command: Sequence[str], arena: bool) -> Line:
    """Run a program that prints one line of JSON."""
    done = subprocess.run([sys.executable, *command], env=environment(arena), capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        said = (done.stderr or done.stdout).strip().splitlines()
        errors = [line for line in said if re.match(r"[\w.]+(Error|Exception)\b", line)]  # JAX adds remarks below
        raise BenchFailed(f"{name} ended with code {done.returncode}: {(errors or said or ['it said nothing'])[-1]}")
    return json.loads(lines[-1])


def alternating(programs: Mapping[str, tuple[Sequence[str], bool]], rounds: int) -> dict[str, list[Line]]:
    """{name: its line of each round}: one round runs every program once, so that a slow minute falls on all of them."""
    if rounds < 1:
        raise ConfigError(f"rounds is {rounds}; expected at least 1")
    console, lines = Console(stderr=True), {name: [] for name in programs}
    with console.status("") as status:
        for i in range(rounds):
            for name, (command, arena) in programs.items():
                status.update(f"round {i + 1} of {rounds}: {name}")
                lines[name].append(measured(name, command, arena))
    return lines


def median(lines: Sequence[Line], key: str) -> float | None:
    """Of the rounds that have it."""
    values = [line[key] for line in lines if line.get(key) is not None]
    return statistics.median(values) if values else None


def compared(figures: dict[str, Line], keys: Mapping[str, str]) -> dict[str, Any]:
    """{"pullback", "rivals", "ratios"}: keys maps the name of a ratio to the figure that it is of; ours over theirs."""
    ours = figures["pullback"]
    rivals = {name: line for name, line in figures.items() if name != "pullback"}
    there = lambda line, key: (line.get(key) or 0) > 1e-3  # PyTorch run eagerly has nothing to compile
    ratios = {
        name: {short: round(ours[key] / line[key], 4) for short, key in keys.items() if there(ours, key) and there(line, key)}
        for name, line in rivals.items()
    }
    return {"pullback": ours, "rivals": rivals, "ratios": ratios}


def show(result: dict[str, Any], title: str, columns: Mapping[str, tuple[str, float, str]], as_json: bool) -> None:
    """Print a result: JSON for programs, a table for people. columns: heading -> (figure, factor, format)."""
    if as_json:
        print(json.dumps(result))
        return
    table = Table(title=title)
    for heading in ("", *columns, *(f"ratio {name}" for name in sorted({k for r in result["ratios"].values() for k in r}))):
        table.add_column(heading, justify="left" if not heading else "right")
    names = sorted({k for r in result["ratios"].values() for k in r})
    for name, line in {"pullback": result["pullback"], **result["rivals"]}.items():
        cells = ["-" if line.get(key) is None else format(line[key] * factor, spec) for key, factor, spec in columns.values()]
        ratios = result["ratios"].get(name, {})
        table.add_row(name, *cells, *(f"{ratios[k]:.3f}" if k in ratios else "" for k in names))
    Console().print(table)
