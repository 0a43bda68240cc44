"""The verdict on a rule, or on the gradient of a function: what was checked, what held, by how much, and where it failed."""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..lib.errors import OperandError
from ..ops.op import Op
from ..ops.rule import Rule, is_float
from . import behaviour, checks
from .graph import plain
from .lines import Line, compared, first_line
from .point import OpPoint, Point, described
from .transforms import is_module, vjp

MARKS = {"held": "held     ", "failed": "FAILED   ", "noted": "noted    ", "not asked": "not asked"}


class Verdict(NamedTuple):
    """What is said of one rule, or of one function, at one point. Its truth value is whether nothing failed."""

    subject: str  # `gelu=exact`
    contract: str  # exact, surrogate or stochastic
    point: str  # operands and statics
    lines: tuple[Line, ...]

    @property
    def failures(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.outcome == "failed")

    @property
    def ok(self) -> bool:
        return not self.failures

    def __bool__(self) -> bool:
        return self.ok

    def line(self, check: str) -> Line:
        """The line of a check by name."""
        for line in self.lines:
            if line.check == check:
                return line
        raise KeyError(f"no check {check!r}; there are {', '.join(line.check for line in self.lines)}")

    def __str__(self) -> str:
        width = max((len(line.check) for line in self.lines), default=0)
        head = f"{self.subject} ({self.contract}) at {self.point}: {'held' if self.ok else 'FAILED'}"
        return "\n".join([head, *(f"  {line.check:<{width}}  {MARKS[line.outcome]}  {line.text}" for line in self.lines)])

    __repr__ = __str__


def check_rule(
    op: Op, *operands, rule: str | Rule = "exact", quick: bool = False, order2: bool = True, seed: int = 0, **statics
) -> Verdict:
    """Judge a backward rule of an op at these operands, in float64 whatever their dtype.

    What is checked, cheapest first: structure (arity, shapes, `None` only where nothing can be perturbed, no operand among the
    residuals); a zero cotangent gives zeros and sums give sums; the pulled-back composite; the slope along random ±1
    directions and of each element of small operands by extrapolated differences with a measured error bar; one array as two
    operands; the documented edge points; the same op by op, compiled, inside a larger program and under vmap, and the same to
    the bit again; second order; and float32, bfloat16 and float16 against float64 on the same rounded operands, in units of
    the last place, so that a wrong rule and a narrow dtype are never taken for each other. A surrogate gets its bias instead
    of the comparisons, a stochastic rule a test of its mean.

    quick: structure, linearity, composite, directions and order 2 only. order2: False leaves second order out, the dearest check.

        print(pb.check_rule(ops.gelu, jnp.linspace(-3, 3, 7)))
    """
    if not isinstance(op, Op):
        raise OperandError(f"check_rule takes an op; it came a {type(op).__name__}. For a function there is pb.check(f, *args)")
    if op.kind == "constant":
        raise OperandError(f"{op.name} is a constant op: nothing flows back through it, so there is no rule to check")
    if not isinstance(rule, (str, Rule)):
        raise OperandError(f"check_rule: rule={rule!r}; expected the name of a rule of {op.name}: {', '.join(op.rules)}")
    judged = rule if isinstance(rule, Rule) else op.find(rule)
    operands = tuple(map(plain, operands))
    with jax.enable_x64(True), np.errstate(all="ignore"):  # a rule may give NaN anywhere
        point = OpPoint(op, operands, statics, seed)
        if not point.at:
            raise OperandError(
                f"{op.name}: none of the operands ({', '.join(map(described, operands))}) can be perturbed; pass a float array"
            )
        lines = tuple(lines_for(point, judged, quick, order2))
    return Verdict(f"{op.name}={judged.name}", judged.contract, str(point), lines)


def lines_for(point: OpPoint, rule: Rule, quick: bool, order2: bool) -> Iterator[Line]:
    """The checks that a rule of this contract owes. After a broken structure nothing more is asked."""
    line = checks.structure(point, rule)
    yield line
    if line.outcome == "failed":
        return
    if rule.contract == "stochastic":
        yield behaviour.mean(point, rule)
        return
    seen = checks.look(point, rule)
    exact = rule.contract == "exact"
    if exact or rule.of is not None:  # a surrogate is the exact rule of another function
        judged = point.held_against(rule)
        yield from checks.linear(point, seen)
        if exact:
            yield checks.composite(point, seen)
        by_element = None if quick else checks.elements(judged, seen.x_bars)  # first: one program measures these and the directions
        yield checks.directions(judged, seen.x_bars)
        if by_element:
            yield by_element
    if not exact:
        yield behaviour.bias(point, rule, seen.x_bars)
    elif not quick:
        yield checks.aliased(point, rule)
        yield at_edges(point.op, rule)
    if not quick:
        yield from behaviour.ways(point, rule, seen)
    if order2:
        yield behaviour.second_order(point, rule)
    if not quick:
        yield from behaviour.precision(point, rule)


@functools.lru_cache(maxsize=8)
def at_edges(op: Op, rule: Rule) -> Line:
    """The documented edge points are those of the op, wherever it is judged."""
    from ..ops.cases import EDGES  # forty modules that nothing but a verdict reads

    return checks.edges(op, rule, EDGES)


def check(f: Callable, *args, seed: int = 0) -> Verdict:
    """Judge the gradient of a function, or of a Module, at these arguments: its whole graph of rules against differences.

    Arguments are pytrees; float arrays and the parameters of Modules are what is moved. All is done in float64.

        print(pb.check(lambda model, x: model(x), model, x))
    """
    if not callable(f):
        raise OperandError(f"check takes a function and its arguments; it came a {type(f).__name__}")
    with jax.enable_x64(True), np.errstate(all="ignore"):
        xs, names, rebuild = taken_apart(args)
        if not xs:
            raise OperandError("check: no argument holds a float array or a Module with parameters; nothing can be perturbed")

        def flat(xs) -> tuple:
            return tuple(y for y in jax.tree.leaves(f(*rebuild(xs))) if is_float(y))

        subject = getattr(f, "__name__", type(f).__name__)
        point = Point(flat, xs, names, seed)
        if not point.ys:
            raise OperandError(f"check: {subject} gives no float array, so there is nothing to differentiate")
        lines = tuple(lines_of_function(point))
    return Verdict(subject, "exact", ", ".join(map(described, point.xs)), lines)


def lines_of_function(point: Point) -> Iterator[Line]:
    pull = lambda xs, y_bars: vjp(lambda *xs: point.f(xs), *xs)[1](y_bars)
    try:
        eager = pull(point.xs, point.y_bars)
    except Exception as error:
        yield Line("structure", "failed", f"{type(error).__name__}: {first_line(error)}")
        return
    yield Line("structure", "held", f"{len(eager)} cotangent{'s' * (len(eager) > 1)}, each in the shape of its argument")
    if point.without_infinities(point.f(point.xs)):
        eager = pull(point.xs, point.y_bars)
    u_bars = point.like(point.ys)
    both = tuple(2 * y_bar - 3 * u_bar for y_bar, u_bar in zip(point.y_bars, u_bars))
    x_bars, zeros, other, summed = jax.jit(lambda xs, *bars: tuple(pull(xs, bar) for bar in bars))(
        point.xs, point.y_bars, tuple(map(jnp.zeros_like, point.y_bars)), u_bars, both
    )
    yield from checks.linear(point, checks.Seen(point.ys, x_bars, zeros, other, summed))
    by_element = checks.elements(point, x_bars)
    yield checks.directions(point, x_bars)
    yield by_element
    yield compared("ways", point.names, eager, x_bars, "eager against compiled")


def taken_apart(args: Sequence) -> tuple[list, list[str], Callable]:
    """(float arrays, their names, what puts arguments together again). A Module gives its parameters by name."""
    leaves, tree = jax.tree.flatten(list(args), is_leaf=is_module)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(list(args), is_leaf=is_module)]
    xs: list = []
    names: list[str] = []
    owners: list[tuple[int, Any]] = []  # leaf index, and the parameter's name or None

    for i, (leaf, path) in enumerate(zip(map(plain, leaves), paths)):
        named: Iterable = leaf.__named_parameters__().items() if is_module(leaf) else [(None, leaf)]
        for name, x in named:
            if isinstance(x, float) or is_float(x):
                xs.append(x)
                names.append(name if name is not None else f"args{path}")
                owners.append((i, name))

    def rebuild(xs) -> list:
        full = list(leaves)
        parameters: dict[int, dict] = {}
        for (i, name), x in zip(owners, xs):
            if name is None:
                full[i] = x
            else:
                parameters.setdefault(i, dict(leaves[i].__named_parameters__()))[name] = x
        for i, named in parameters.items():
            full[i] = leaves[i].__with_parameters__(named)
        return tree.unflatten(full)

    return xs, names, rebuild
