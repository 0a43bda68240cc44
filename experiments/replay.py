"""Two runs side by side from where they were last the same, to the first step that they do differently, and there op by op."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..autograd import first_difference
from ..autograd.rules import rules
from ..lib.errors import ConfigError, PullbackError
from ..lib.gap import gap
from ..lib.precision import precision
from ..lib.reading import read_json
from .checkpoint import FOLDER, STATE, copied, digest, named, read, there
from .job import Begun, Job, prepare
from .metrics import sums
from .progress import Progress, Silent
from .run import read_run
from .step import State


class Found(NamedTuple):
    """What a replay came to. start: the step that it began after. step: the first that differs, 0 for what both begin with, None if
    none did. name: of the value, by scope and op, or of the tensor of the state. same: values of that step that were the same."""

    start: int
    step: int | None
    name: str = ""
    text: str = ""
    line: str = ""
    same: int = 0

    def __str__(self) -> str:
        began = f"after step {self.start:,}" if self.start else "from the beginning"
        if self.step is None:
            return f"replayed {began}: both do the same here; what sets them apart is not in their settings"
        if self.step == self.start:
            return f"replayed {began}: they begin with other weights, the first {self.name}: {self.text}"
        line = f" (called at {self.line})" if self.line else ""
        after = f", after {self.same:,} values that are the same" if self.same else ""
        return f"replayed {began}: first different at step {self.step:,}{after}, in {self.name}{line}: {self.text}"


class Side(NamedTuple):
    """One of the two, under its precision and its rules."""

    table: dict[str, str]
    job: Job

    @contextlib.contextmanager
    def settings(self) -> Iterator[None]:
        with precision(self.job.config.precision), rules(self.table):
            yield

    def step(self, state: State, number: int) -> tuple[State, tuple]:
        """The state after a step, and all that is compared of it."""
        with self.settings():
            batch = self.job.stream.at(number)
            new, measured = self.job.step(copied(state), number, *batch)
            return new, (sums(new, batch), measured)

    def by_ops(self, number: int, state: State) -> Callable[[], dict[str, Any]]:
        """The step, op by op, as a function that returns all that comes of it by name."""

        def step() -> dict[str, Any]:
            with self.settings():
                batch = self.job.stream.at(number)
                new, measured = self.job.step.f(state, number, *batch)
            said = {name: x for name, x in measured._asdict().items() if x is not None}
            after = sorted(named(new).items(), key=lambda item: item[0].startswith("params/"))  # weights come last
            return {f"batch/{i}": x for i, x in enumerate(batch) if x is not None} | said | dict(after)

        return step


def replay(a: Path, b: Path, last: int, show: Progress) -> Found:
    """Both runs from their last checkpoint before step `last` that is the same, or from the beginning, up to that step."""
    start = common(a, b, last)
    show.note(f"repeating both {f'from step {start:,}' if start else 'from the beginning'}, to step {last:,} at most; compiling")
    sides = [side(folder, start) for folder in (a, b)]
    states = [side.job.state for side in sides]
    if found := unlike(*(state.params for state in states)):  # the optimiser's state holds settings, which may differ from the start
        return Found(start, start, *found)
    show.start(last - start, "step")
    try:
        for number in range(start, last):
            after, said = zip(*(side.step(state, number) for side, state in zip(sides, states)))
            if not same(*said):
                return by_ops(sides, states, start, number)
            states = after
            show.at(number + 1 - start)
    finally:
        show.close()
    return Found(start, None)


def by_ops(sides: Sequence[Side], states: Sequence[State], start: int, number: int) -> Found:
    """The first value of a step that differs."""
    one, other = ({f"batch/{i}": x for i, x in enumerate(side.job.stream.at(number)) if x is not None} for side in sides)
    if found := unlike(one, other):
        return Found(start, number + 1, *found)
    comparison = first_difference(*(side.by_ops(number, state) for side, state in zip(sides, states)))
    if comparison.first is None:
        return Found(start, number + 1, "the compiled step", "op by op both do the same", "", comparison.same)
    return Found(start, number + 1, comparison.first.name, comparison.first.text, comparison.first.line, comparison.same)


def same(one: tuple, other: tuple) -> bool:
    """To the bit: the checksums and numbers of a step."""
    bits = lambda x: None if x is None else np.asarray(x).tobytes()
    sums, measured = zip(one, other)
    parts = [{name: bits(words) for name, words in each.items()} for each in sums]
    return parts[0] == parts[1] and list(map(bits, measured[0])) == list(map(bits, measured[1]))


def unlike(a: dict[str, Any], b: dict[str, Any]) -> tuple[str, str] | None:
    """The name of the first array that differs, and how."""
    for name in {**a, **b}:
        if name not in a or name not in b:
            return name, "only one of them has it"
        x, y = np.asarray(a[name]), np.asarray(b[name])
        if x.shape != y.shape or x.dtype != y.dtype:
            return name, f"{x.dtype} of shape {x.shape} and {y.dtype} of shape {y.shape}"
        if (found := gap(x, y)).differing:
            return name, str(found)
    return None


def common(a: Path, b: Path, last: int) -> int:
    """The step of the last checkpoint before `last` that both have, the same to the bit; 0 if there is none."""
    folders = [{int(path.name): path for path in there(run / FOLDER)} for run in (a, b)]
    for step in sorted(folders[0].keys() & folders[1].keys(), reverse=True):
        if step < last and digest(folders[0][step] / STATE) == digest(folders[1][step] / STATE):
            return step
    return 0


def side(folder: Path, start: int) -> Side:
    """A run, ready to go on after step `start`."""
    config, words = read_run(folder)
    table = rules_of(folder)
    with precision(config.precision), rules(table):
        begun = Begun(read(folder / FOLDER / f"{start:06d}"), words) if start else None
        return Side(table, prepare(config, Silent(), begun))


def rules_of(folder: Path) -> dict[str, str]:
    """The backward rules that a run was made under."""
    try:
        record = read_json(folder / "provenance.json")
        return {pattern: rule for pattern, rule in record["rules"]}
    except (PullbackError, KeyError, TypeError, ValueError):
        raise ConfigError(f"{folder / 'provenance.json'} does not say under which rules the run was made") from None
