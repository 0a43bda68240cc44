"""The work of one process of `pullback mutate`: the mutants of one target, one after the other."""

import contextlib
import functools
import hashlib
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from ...ops.op import REGISTRY
from .equivalent import PROOFS
from .operators import Mutant
from .optimisers import OPTIMISERS, OptimiserJudge
from .rules import RuleJudge
from .sources import source_of
from .walk import WalkJudge

SECONDS = 20.0  # for one mutant; one that takes longer hangs, which is noticed too
INPUTS = 10_000  # random inputs on which an equivalent mutant must agree
ULPS = 2


class Outcome(NamedTuple):
    """killed: by which check. proof: why it is no mistake; agrees: whether it then agreed with the original on random inputs."""

    target: str
    operator: str
    line: int
    diff: str
    killed: str | None
    proof: str | None = None
    agrees: bool | None = None

    @classmethod
    def of(cls, target: str, mutant: Mutant, killed: str | None) -> "Outcome":
        return cls(target, mutant.operator, mutant.line, mutant.diff, killed)

    @property
    def survives(self) -> bool:
        return self.killed is None and not self.agrees


class Hung(BaseException):
    """A mutant took too long. No `except Exception` on the way is to take it for a mistake of another kind."""


def targets() -> list[str]:
    """`gelu=exact` for every rule, `walk`, and the optimisers."""
    rules = [f"{op.name}={rule}" for op in REGISTRY.values() if op.__module__.startswith("pullback.") for rule in op.rules]
    return [*rules, "walk", *OPTIMISERS]


@functools.cache
def fingerprint() -> str:
    """Of all sources that an outcome depends on."""
    root = Path(__file__).parents[2]
    folders = ("lib", "ops", "autograd", "nn", "experiments/mutation")
    files = sorted(file for folder in folders for kind in ("*.py", "*.json") for file in (root / folder).rglob(kind))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def judge_of(target: str) -> Any:
    if target == "walk":
        return WalkJudge()
    if target in OPTIMISERS:
        return OptimiserJudge(target)
    op, _, rule = target.partition("=")
    return RuleJudge(REGISTRY[op], rule)


def shares(names: Sequence[str], processes: int) -> list[str]:
    """Tasks for the processes: `gelu=exact 0/2` is every second mutant of a target. Shares where the targets are too few to go round."""
    count = max(1, processes // len(names)) if names else 1
    return [f"{name} {i}/{count}" for name in names for i in range(count)]


def target_of(task: str) -> str:
    return task.partition(" ")[0]


def share_of(task: str) -> slice:
    first, count = map(int, task.partition(" ")[2].split("/"))
    return slice(first, None, count)


def mutants_of(task: str, judge: Any) -> list[tuple[int, Mutant]]:
    return judge.mutants()[share_of(task)]


def judge(task: str, start: int) -> Iterator[Outcome | str]:
    """What is wrong with the original, "" if nothing; then the outcomes of a share of a target's mutants, then "": from the start-th on.

    Each share holds the original against its share of the checks, and its mutants against all of them.
    """
    target = target_of(task)
    judge = judge_of(target)
    if start == 0:
        fault = judge.killed_by(original_of(judge), share_of(task))
        yield f"{target} itself does not pass {fault}; see `pullback check {target.partition('=')[0]}`" if fault else ""
    for which, mutant in mutants_of(task, judge)[max(0, start - 1) :]:
        yield outcome(judge, target, which, mutant)
    yield ""


def original_of(judge) -> Any:
    """What is to be mutated, built from its source as mutants are."""
    return judge.build(0, source_of(judge.members[0]))


def outcome(judge, target: str, which: int, mutant: Mutant) -> Outcome:
    try:
        with at_most(SECONDS):
            mutated = judge.build(which, mutant.source)
            killed = judge.killed_by(mutated)
    except Hung:
        return Outcome.of(target, mutant, "time")
    except Exception as error:  # it does not even build
        return Outcome.of(target, mutant, type(error).__name__)
    found = Outcome.of(target, mutant, killed)
    proof = PROOFS.get((target, mutant.diff))
    return found if killed or proof is None else found._replace(proof=proof, agrees=agree(judge, mutated))


def agree(judge, mutated) -> bool:
    """Within ULPS units in the last place on INPUTS random inputs."""
    with jax.enable_x64(True):
        pairs = zip(judge.outputs(original_of(judge), INPUTS), judge.outputs(mutated, INPUTS), strict=True)
        return all(np.all((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= ULPS * np.spacing(np.abs(b)))) for a, b in pairs)


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise Hung in the block after so long. What hangs in compiled code is ended from outside."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_):
        raise Hung

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
