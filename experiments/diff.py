"""`pullback diff`: where two runs, or two checkpoints, first are not the same."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import tyro

from ..lib.errors import ConfigError, PullbackError
from ..lib.gap import gap
from ..lib.tensors import Tensors
from .checkpoint import FOLDER, MANIFEST, STATE, differences, digest, read, there
from .columns import rows_of
from .history import is_run, read_object
from .machine import Machine, settle
from .output import say
from .parsing import parse
from .progress import Progress, Silent, progress
from .replay import Found, replay
from .verify import unlike

SHOWN = 12  # differences of one kind that are listed


@dataclass(frozen=True)
class Diff:
    """Compare two runs: their settings and provenance, the first line of metrics, the last checkpoint that both have; and, by repeating
    them side by side, the first step, scope, op and tensor that differ. Or two checkpoints, or two safetensors files: tensor by tensor.

    Exit code 0: the same numbers; 1: not.
    """

    a: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="A")]
    """The folder of a run, of a checkpoint, or a safetensors file."""
    b: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="B")]
    """Another of the same kind."""
    replay: bool = True
    """Repeat two runs whose metrics differ to find out where."""
    machine: Annotated[Machine, tyro.conf.arg(name="")] = field(default_factory=Machine)


class Tensorwise(NamedTuple):
    """Two files of tensors. differing: of `of` that both have; first: of them, by name; worst: the one that is relatively furthest off.
    alone: what is only in one of them, or of another shape or dtype."""

    differing: int
    of: int
    first: str
    worst: str
    text: str
    alone: list[str]

    def __str__(self) -> str:
        if not self.differing and not self.alone:
            return f"the same: all {self.of:,} tensors, to the bit"
        lines = listed(self.alone)
        if self.differing:
            lines += [
                f"{self.differing:,} of {self.of:,} tensors differ, the first {self.first}",
                f"the furthest off {self.worst}: {self.text}",
            ]
        return "\n  ".join(lines)


class Outcome(NamedTuple):
    """config, provenance: what is not the same of them. step: of the first line of metrics that both have and that differs, in which
    fields; lines: how many are the same before it. tensors: of the last checkpoint that both have, of this step. found: by a replay."""

    config: list[str]
    provenance: list[str]
    lines: int | None = None
    step: int | None = None
    fields: dict[str, list] = {}
    checkpoint: int | None = None
    tensors: Tensorwise | None = None
    found: Found | None = None
    note: str = ""

    @property
    def equal(self) -> bool:
        return self.step is None and not (self.tensors and (self.tensors.differing or self.tensors.alone))


def main(argv: Sequence[str]) -> int:
    given = parse(Diff, argv, "diff")
    settle(given.machine)
    outcome = diff(given.a, given.b, progress(), again=given.replay)
    if given.machine.json:
        parts = {name: part and part._asdict() for name, part in (("tensors", outcome.tensors), ("found", outcome.found))}
        say(a=given.a, b=given.b, equal=outcome.equal, **outcome._asdict() | parts)
    else:
        print("\n".join(lines(outcome)))
    return 0 if outcome.equal else 1


def lines(outcome: Outcome) -> list[str]:
    """What a person is told."""
    said = []
    for title, texts in (("settings", outcome.config), ("provenance", outcome.provenance)):
        said += [f"{title}:", *(f"  {text}" for text in listed(texts))] if texts else [f"{title}: the same"]
    if outcome.lines is not None:
        if outcome.step is None:
            said.append(f"metrics: the same at all {outcome.lines:,} steps that both have a line of")
        else:
            texts = [f"{name} {values[0]} and {values[1]}" if values else name for name, values in outcome.fields.items()]
            before = f"the same at {outcome.lines:,} steps, " if outcome.lines else ""
            said.append(f"metrics: {before}first different at step {outcome.step:,}: {', '.join(texts)}")
    if outcome.tensors:
        title = "tensors" if outcome.checkpoint is None else f"checkpoint of step {outcome.checkpoint:,}"
        said.append(f"{title}: {outcome.tensors}")
    return said + [str(text) for text in (outcome.found, outcome.note) if text]


def listed(texts: list[str]) -> list[str]:
    short = [text if len(text) <= 200 else f"{text[:200]}..." for text in texts[:SHOWN]]
    return short + ([f"and {len(texts) - SHOWN:,} more"] if len(texts) > SHOWN else [])


def diff(a: str | Path, b: str | Path, show: Progress | None = None, again: bool = True) -> Outcome:
    """Two runs, two checkpoints or two safetensors files. again: repeat runs whose metrics differ. ConfigError where they cannot be
    compared."""
    paths, show = (Path(a), Path(b)), show or Silent()
    kinds = [kind_of(path) for path in paths]
    if kinds[0] != kinds[1]:
        raise ConfigError(f"{a} is a {kinds[0]} and {b} a {kinds[1]}; name two of a kind")
    if kinds[0] == "run":
        return of_runs(paths[0], paths[1], show, again)
    if kinds[0] == "checkpoint":
        origins = [read(path).origin._asdict() for path in paths]
        return Outcome(told(*origins), [], tensors=of_tensors(paths[0] / STATE, paths[1] / STATE, show))
    return Outcome([], [], tensors=of_tensors(paths[0], paths[1], show))


def kind_of(path: Path) -> str:
    if is_run(path):
        return "run"
    if (path / MANIFEST).is_file():
        return "checkpoint"
    if path.is_file():
        return "file of tensors"
    there = f"there is neither config.json nor {MANIFEST} in it" if path.is_dir() else "there is no such folder or file"
    raise ConfigError(f"{path} is no run and no checkpoint: {there}")


def told(a: Any, b: Any) -> list[str]:
    return differences(a, b, words=("is", "in the second"), alone=("is only in the first", "is only in the second"))


def of_runs(a: Path, b: Path, show: Progress, again: bool) -> Outcome:
    config = told(*(read_object(folder / "config.json") for folder in (a, b)))
    provenance = told(*map(provenance_of, (a, b)))
    rows = [{row["step"]: row for row in rows_of(folder / "metrics.jsonl")} for folder in (a, b)]
    both = sorted(rows[0].keys() & rows[1].keys())
    if not both:
        raise ConfigError(f"{a} and {b} have no line of metrics of the same step")
    outcome = Outcome(config, provenance, len(both))
    for before, step in enumerate(both):
        row, other = (each[step] for each in rows)
        if fields := unlike({name: x for name, x in row.items() if name in other}, other):
            outcome = outcome._replace(lines=before, step=step, fields={x: [row[x], other[x]] if x in row else [] for x in fields})
            break
    folders = [{int(path.name): path / STATE for path in there(folder / FOLDER)} for folder in (a, b)]
    if steps := folders[0].keys() & folders[1].keys():
        tensors = of_tensors(folders[0][max(steps)], folders[1][max(steps)], show)
        outcome = outcome._replace(checkpoint=max(steps), tensors=tensors)
    if outcome.step is None or not again:
        return outcome
    try:
        return outcome._replace(found=replay(a, b, outcome.step, show))
    except PullbackError as error:
        return outcome._replace(note=f"cannot repeat them here: {error}")


def provenance_of(folder: Path) -> dict[str, Any]:
    """As far as it is compared: without what the step took, and with the digest of uncommitted changes in place of their text."""
    record = read_object(folder / "provenance.json")
    record.pop("step", None)
    git = record.get("git")
    if isinstance(git, dict) and isinstance(git.get("dirty"), dict):
        git["dirty"].pop("diff", None)
    return record


def of_tensors(a: Path, b: Path, show: Progress) -> Tensorwise:
    """Tensor by tensor, each read when it is its turn."""
    files = [Tensors(path) for path in (a, b)]
    both = [name for name, kind in files[0].kinds.items() if files[1].kinds.get(name) == kind]
    alone = told(*({name: str(kind) for name, kind in file.kinds.items()} for file in files))
    if digest(a) == digest(b):
        return Tensorwise(0, len(both), "", "", "", alone)
    differing, furthest = [], -1.0
    worst = text = ""
    show.start(max(1, len(both)), "tensor")
    try:
        for i, name in enumerate(both):
            found = gap(files[0][name], files[1][name])
            if found.differing:
                differing.append(name)
                if found.relative > furthest:
                    furthest, worst, text = found.relative, name, str(found)
            show.at(i + 1)
    finally:
        show.close()
    return Tensorwise(len(differing), len(both), differing[0] if differing else "", worst, text, alone)
