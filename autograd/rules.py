"""Which rule pulls an op back: chosen by scope and op, while the forward is recorded."""

import contextlib
import fnmatch
import functools
import warnings
from collections.abc import Iterator, Mapping
from contextvars import ContextVar

from ..lib.errors import OperandError, UnknownName, near
from ..ops.op import REGISTRY, Op
from ..ops.rule import EPOCH, RULES, Rule
from .scope import SCOPE, setting

Table = tuple[tuple[str, str], ...]

MATCHED: ContextVar[set[str] | None] = ContextVar("matched patterns", default=None)


class UnmatchedRule(UserWarning):
    """A pattern of `pb.rules` matched nothing that was recorded."""


def chosen(op: Op) -> Rule:
    """The rule of the last pattern that matches, else the exact one."""
    name, hits = choice(RULES.value, SCOPE.get(), op.name, EPOCH.value)
    matched = MATCHED.get()
    if matched is not None:
        matched |= hits
    return op.find(name)


@functools.lru_cache(maxsize=10_000)
def choice(table: Table, scope: str, op: str, epoch: int) -> tuple[str, frozenset[str]]:
    """The rule's name, and every pattern that matches. "" is among them: something was recorded."""
    name, hits = "exact", {""}
    for pattern, rule in table:
        where, _, what = pattern.rpartition("/")
        if fnmatch.fnmatchcase(op, what) and fnmatch.fnmatchcase(scope, where or "*"):
            name = rule
            hits.add(pattern)
    return name, frozenset(hits)


def validated(table: Mapping[str, str]) -> Table:
    """The table as a hashable key, order kept; unknown ops and rules fail here."""
    ruled = [name for name, op in REGISTRY.items() if op.rules]  # nothing flows back through the others
    for pattern, rule in table.items():
        if not isinstance(pattern, str) or not isinstance(rule, str):
            raise OperandError(f"rules: {pattern!r} -> {rule!r}; expected a pattern and the name of a rule, both strings")
        what = pattern.rpartition("/")[2]
        ops = [name for name in ruled if fnmatch.fnmatchcase(name, what)]
        if not ops:
            raise UnknownName(f"rules: no op {what!r} with rules (in the pattern {pattern!r})" + near(what, ruled))
        for op in ops:
            REGISTRY[op].find(rule)
    return tuple(table.items())


def unmatched(table: Table, matched: set[str]) -> None:
    for pattern, rule in table:
        if pattern not in matched:
            warnings.warn(f"rules: {pattern!r} -> {rule!r} matched nothing that was recorded", UnmatchedRule, stacklevel=4)


@contextlib.contextmanager
def rules(table: Mapping[str, str]) -> Iterator[None]:
    """`with pb.rules({"gelu": "straight_through", "blocks.[0-5].*/gelu": "exact"}):`

    Patterns are globs on `scope/op`; a bare op name means `*/op`; the last match wins. The choice is made while the forward
    is recorded and is part of every jit key. Tables nest: the inner one is read after the outer one.
    A pattern that matched nothing is reported by a warning, when anything was recorded inside.
    """
    new = validated(table)
    matched: set[str] = set()
    outer = MATCHED.get()
    with RULES(RULES.value + new), setting(MATCHED, matched):
        yield
    if matched:
        unmatched(new, matched)
    if outer is not None:
        outer.update(matched)
