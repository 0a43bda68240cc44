"""`pullback verify`: does a run come out the same again, to the bit, also when it is killed on the way?"""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import tyro

from ..lib.errors import ConfigError
from .checkpoint import FOLDER, newest, there
from .columns import rows_of
from .config import RunConfig, check, to_record
from .kernels import FILE, doubts, kernels_of
from .loop import train
from .machine import Machine, settle
from .output import say
from .parsing import parse
from .progress import Progress, Silent, progress
from .provenance import changes, legs, provenance, record_of
from .resume import resume
from .run import read_run

CLOCKS = ("tokens_per_s",)  # of a line of metrics, what is not to be the same


@dataclass(frozen=True)
class Verify:
    """Repeat a run from its config and compare, at each step that has a checksum, its weights, moments, loss scale and batch; and its
    losses. Exit code 0: equal to the bit; 1: not, and where first."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder of a run."""
    start: Annotated[int | None, tyro.conf.arg(name="from", metavar="STEP")] = None
    """Begin at the checkpoint of this step instead of at the beginning."""
    to: Annotated[int | None, tyro.conf.arg(metavar="STEP")] = None
    """End at this step; where the run ended if not given."""
    interrupt: Annotated[str | None, tyro.conf.arg(metavar="STEP,...")] = None
    """Kill the repetition (SIGKILL) after these steps, and resume it each time in a fresh process."""
    machine: Annotated[Machine, tyro.conf.arg(name="")] = field(default_factory=Machine)


class Verdict(NamedTuple):
    """compared: steps with a checksum. step, what: the first that differs and in which of its fields; None and empty if none does."""

    compared: int
    step: int | None
    what: list[str]
    notes: list[str]


def main(argv: Sequence[str]) -> int:
    given = parse(Verify, argv, "verify")
    settle(given.machine)
    kills = steps_of(given.interrupt)
    verdict = verify(given.run, progress(), start=given.start, to=given.to, kills=kills, machine=given.machine)
    equal = verdict.step is None
    if given.machine.json:
        say(run=given.run, equal=equal, **verdict._asdict(), interrupted=kills)
    else:
        killed = f", killed {'once' if len(kills) == 1 else f'{len(kills)} times'} on the way" if kills else ""
        print(*verdict.notes, sep="\n", end="\n" if verdict.notes else "")
        if equal:
            print(f"equal: the same to the bit at all {verdict.compared:,} steps that have a checksum{killed}")
        else:
            print(f"DIFFERENT{killed}: first at step {verdict.step:,}, in {', '.join(verdict.what)}")
    return 0 if equal else 1


def steps_of(text: str | None) -> list[int]:
    try:
        kills = [int(word) for word in text.split(",")] if text is not None else []
    except ValueError:
        raise ConfigError(f"interrupt is {text!r}; expected steps, as in 3,17") from None
    if any(a >= b for a, b in zip([0, *kills], kills)):
        raise ConfigError(f"interrupt is {text!r}; expected ascending steps from 1 on")
    return kills


def verify(
    run: str | Path,
    show: Progress | None = None,
    *,
    start: int | None = None,
    to: int | None = None,
    kills: Sequence[int] = (),
    machine: Machine | None = None,
) -> Verdict:
    """The run repeated in a folder that is gone afterwards, and compared line by line. machine: what processes that are to be killed
    run on; this one runs on what it was given."""
    show, folder = show or Silent(), Path(run)
    config, _ = read_run(folder)
    rows = {row["step"]: row for row in rows_of(folder / "metrics.jsonl")}
    first, last = start or 0, min(to or config.steps, max(rows, default=0))
    wanted = {step: row for step, row in rows.items() if first < step <= last}
    if not any("checksum" in row for row in wanted.values()):
        raise ConfigError(f"{folder} has no checksum from step {first + 1:,} to {last:,}; its checksum_every is {config.checksum_every}")
    if kills and not first < kills[0] <= kills[-1] <= last:
        raise ConfigError(f"interrupt is {','.join(map(str, kills))}; the repetition goes from step {first:,} to {last:,}")
    again = check(replace(config, steps=last, sample_tokens=0, checkpoint_every=0))
    with tempfile.TemporaryDirectory() as place, kernels_of(folder):
        copy = Path(place) / "run"
        if start:
            copied(folder, copy, start)
        if kills:
            lives(again, copy, folder, kills, show, machine or Machine())
        elif start:
            resume(copy, show, loose=True, steps=last, sample_tokens=0, checkpoint_every=0)
        else:
            train(again, copy, show)
        came = {row["step"]: row for row in rows_of(copy / "metrics.jsonl")}
        noted = notes(folder, copy, config.reproducible)
    return compared(wanted, came, noted)


def notes(run: Path, copy: Path, reproducible: bool) -> list[str]:
    """What is not as it was when the run was made, and its repetition begun."""
    record = record_of(run)
    found = [text for part in changes(record, provenance()) for text in part] + doubts(run, reproducible)
    then, now = (sums if isinstance(sums := source_of(each).get("sha256"), dict) else {} for each in (record, record_of(copy)))
    found += [f"what the run began from has changed: {name} is another file now" for name in now if now[name] != then.get(name)]
    found += [f"from step {leg.get('step')} on: {text}" for leg in legs(record) for text in leg["differences"]]
    return [f"note: {text}" for text in found]


def source_of(record: dict[str, Any]) -> dict[str, Any]:
    source = record.get("init_from")
    return source if isinstance(source, dict) else {}


def compared(wanted: dict[int, dict], came: dict[int, dict], notes: list[str]) -> Verdict:
    """The first step whose lines differ in what both have; a line or a checksum that is missing differs."""
    sums = 0
    for step, row in sorted(wanted.items()):
        other = came.get(step, {})
        if what := unlike(row, other):
            return Verdict(sums, step, what, notes)
        sums += "checksum" in row
    return Verdict(sums, None, [], notes)


def unlike(row: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The fields of a line, and the parts of its checksum, that another line does not have like that."""
    what = [name for name in row if name not in CLOCKS and not (name in other and alike(name, row, other))]
    parts = row["checksum"] if "checksum" in what else {}
    return [name for name in what if name != "checksum"] + [part for part in parts if parts[part] != other.get("checksum", {}).get(part)]


def alike(name: str, row: dict[str, Any], other: dict[str, Any]) -> bool:
    """The repetition looks at the validation split whole at its last step, so a look that it shortened does not count."""
    return row[name] == other[name] or name == "val_loss" and None in (row[name], other[name])


def copied(run: Path, copy: Path, step: int) -> None:
    """As much of a run as a resumption from this step reads."""
    steps = {int(path.name): path for path in there(run / FOLDER)}
    if step not in steps:
        raise ConfigError(f"{run} has no checkpoint of step {step}; there are {', '.join(map(str, steps)) or 'none'}")
    shutil.copytree(steps[step], copy / FOLDER / steps[step].name)
    for name in ("config.json", "tokeniser.json", "provenance.json", "metrics.jsonl", FILE):
        if (run / name).exists():
            shutil.copy(run / name, copy / name)


def lives(config: RunConfig, folder: Path, run: Path, kills: Sequence[int], show: Progress, machine: Machine) -> None:
    """The run in one process after the other: each but the last is killed after its step, with a checkpoint of the one before."""
    config = replace(config, checkpoint_every=1, log_every=1)
    for life, kill in enumerate([*kills, None]):
        task = {"config": to_record(config), "folder": str(folder), "run": str(run), "kill": kill, "machine": asdict(machine)}
        ended = subprocess.run([sys.executable, "-m", f"{__package__}.life"], input=json.dumps(task), text=True, capture_output=True)
        if ended.returncode != (0 if kill is None else -signal.SIGKILL):
            said = ended.stderr.strip().splitlines()[-1:] or [f"exit code {ended.returncode}"]
            raise ConfigError(f"the repetition ended by itself in life {life + 1}: {said[0]}")
        if kill is not None:
            found = newest(folder, show.note).step if there(folder / FOLDER) else 0
            show.note(f"killed after step {kill:,}; step {found:,} was saved")
