"""For pytest files: the verdict as an assertion."""

from collections.abc import Callable

from ..ops.op import Op
from ..ops.rule import Rule
from .verdict import Verdict, check, check_rule


def assert_rule(op: Op, *operands, rule: str | Rule = "exact", quick: bool = False, seed: int = 0, **statics) -> Verdict:
    """Fail with the whole verdict if the rule does not hold at these operands; see `pb.check_rule`."""
    __tracebackhide__ = True  # pytest shows the caller's line
    return demanded(check_rule(op, *operands, rule=rule, quick=quick, seed=seed, **statics))


def assert_gradient(f: Callable, *args, seed: int = 0) -> Verdict:
    """Fail with the whole verdict if the gradient of f does not hold at these arguments; see `pb.check`."""
    __tracebackhide__ = True
    return demanded(check(f, *args, seed=seed))


def demanded(verdict: Verdict) -> Verdict:
    __tracebackhide__ = True
    if not verdict:
        raise AssertionError(f"\n{verdict}")
    return verdict
