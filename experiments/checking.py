"""`pullback check`: every rule at every case of its op, a table of what held, and a picture of it."""

import functools
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..autograd.checks import at_edge
from ..autograd.graph import leaf, tracked_leaves
from ..autograd.lines import Line, first_line
from ..autograd.verdict import Verdict, check, check_rule
from ..lib.errors import PullbackError, UnknownName, near
from ..ops.cases import CASES, EDGES, FACE_CASES
from ..ops.cases.case import Case, telling
from ..ops.op import FACES, REGISTRY, Op
from ..ops.rule import is_float
from .op_file import demand_sound, load, path_and_name

TELLING = 3  # cases of an op that are judged by every check; the others by the quick ones of first order. A quick check looks at no others


class Judged(NamedTuple):
    """One rule over the cases of its op: the worst line of each check."""

    op: str
    rule: str
    contract: str
    stands_on: str  # for a face: the ops that it calls
    cases: int
    lines: dict[str, Line]
    at: dict[str, str]  # check -> the case that its line is of
    seconds: float

    @property
    def ok(self) -> bool:
        return all(line.outcome != "failed" for line in self.lines.values())


def everything() -> list[str]:
    """Names that a check with nothing named goes through: ops with rules, constants, faces."""
    ours = [name for name, op in REGISTRY.items() if op.__module__.startswith("pullback.")]
    return sorted({*ours, *FACES})


def resolve(names: Sequence[str]) -> list[str]:
    """What was asked for, checked; FILE.py:NAME stays as it is."""
    known, files = everything(), [name for name in names if ".py" in name]
    for name in names:
        if name in files:
            path_and_name(name)
        elif name not in known:
            raise UnknownName(f"no op {name!r}" + near(name, known))
    demand_sound(files)
    return list(dict.fromkeys(names)) or known


def judge(task: str, start: int) -> Iterator[Judged]:
    """The work of one process: the rules of an op from the start-th on, or a face. task: `full op` or `quick op`."""
    how, _, target = task.partition(" ")
    for look in looks(target, how == "full")[start:]:
        yield look()


def op_and_cases(target: str) -> tuple[Op, tuple[Case, ...]]:
    """Of a user's file, or of the library's tables."""
    if ".py" in target:
        return load(target)
    op = REGISTRY[target]
    return op, tuple(case for case in CASES if case.op is op)


def cases_of(target: str) -> Sequence[Case]:
    """Of an op or a face."""
    return [case for case in FACE_CASES if case.op is FACES[target].fn] if target in FACES else op_and_cases(target)[1]


def seed_of(op: Op, case: Case) -> int:
    """The same numbers for a case every time."""
    return zlib.crc32(f"{op.name}/{case.label}".encode())


def looks(target: str, whole: bool) -> list[Callable[[], Judged]]:
    """One for each row that a target has in the table."""
    if target in FACES:
        return [functools.partial(of_face, target, whole)]
    op, cases = op_and_cases(target)
    if op.kind == "constant":
        return [functools.partial(constant, op, cases)]
    return [functools.partial(of_rule, op, name, cases, whole) for name in op.rules]


def of_rule(op: Op, name: str, cases: Sequence[Case], whole: bool) -> Judged:
    chosen, looks = telling(cases)[:TELLING], []
    for case in cases if whole else chosen:
        looks.append((case.label, functools.partial(one, op, case, name, not whole or case not in chosen, case in chosen)))
    return gathered(op.name, name, "", looks)


def one(op: Op, case: Case, rule: str, quick: bool, order2: bool) -> Verdict:
    seed = seed_of(op, case)
    operands = case.make(np.random.default_rng(seed))
    if not any(map(is_float, operands)):
        return Verdict(op.name, op.find(rule).contract, case.label, (Line("structure", "not asked", "no operand that can be perturbed"),))
    return check_rule(op, *operands, rule=rule, quick=quick, order2=order2, seed=seed, **case.statics)


def gathered(op: str, rule: str, stands_on: str, looks: Sequence[tuple[str, Callable[[], Verdict]]]) -> Judged:
    """The verdicts on the cases as one row: for each check a failure if there is one, else the line nearest to its limit."""
    began, lines, at, contract = time.monotonic(), {}, {}, "exact"
    for label, look in looks:
        try:
            verdict = look()
        except Exception as error:  # whatever a user's rule raises where it runs
            text = str(error) if isinstance(error, PullbackError) else f"raised {type(error).__name__}: {first_line(error)}"
            verdict = Verdict(op, contract, label, (Line("structure", "failed", text),))
        contract = verdict.contract
        for line in verdict.lines:
            if line.check not in lines or weight(line) > weight(lines[line.check]):
                lines[line.check], at[line.check] = line, label
    return Judged(op, rule, contract, stands_on, len(looks), lines, at, time.monotonic() - began)


def hung(name: str) -> Judged:
    """The row of a rule that never answered, or that took its process with it."""
    line = Line("structure", "failed", "no answer in time: the rule hangs, or it ended its process")
    return Judged(name.rpartition(":")[2], "?", "exact", "", 0, {"structure": line}, {"structure": "?"}, 0.0)


def weight(line: Line) -> tuple:
    """Failures first, then what was measured, by its share of the limit."""
    order = {"not asked": 0, "noted": 1, "held": 2, "failed": 3}
    return order[line.outcome], (line.gap or 0.0) / (line.limit or 1.0)


def constant(op: Op, cases: Sequence[Case]) -> Judged:
    """A constant op: values at its edge points, and nothing flows back."""

    def look() -> Verdict:
        lines = [Line("structure", "held", "a constant op: nothing flows back, its output is not tracked")]
        with jax.enable_x64(True):
            for case in cases:
                y = op(*[leaf(jnp.asarray(x), 1) if is_float(x) else x for x in case.make(np.random.default_rng(0))], **case.statics)
                if tracked_leaves(y):
                    lines[0] = Line("structure", "failed", f"{case.label}: the output is tracked")
            wrong = [text for edge in EDGES if edge.op is op and (text := at_edge(edge, None))]
            known = [edge for edge in EDGES if edge.op is op]
        lines.append(Line("edges", "failed" if wrong else "held", wrong[0] if wrong else f"{len(known)} points as documented"))
        return Verdict(op.name, "constant", "its edge points", tuple(lines))

    return gathered(op.name, "", "", [("edges", look)])


def of_face(name: str, whole: bool) -> Judged:
    """A thin face over other ops: its gradient as a function, at its cases."""
    face, cases = FACES[name], cases_of(name)
    looked = cases if whole else cases[:TELLING]

    def look(case: Case) -> Verdict:
        operands = case.make(np.random.default_rng(zlib.crc32(f"{name}/{case.label}".encode())))
        return check(functools.partial(face.fn, **case.statics), *operands)

    return gathered(name, "", ", ".join(face.stands_on), [(case.label, functools.partial(look, case)) for case in looked])
