"""What a rule owes mathematically, cheapest check first: each takes a rule at a point and gives a line."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..lib.errors import PullbackError
from ..ops.op import Op
from ..ops.rule import Rule, is_float
from .differences import FAST, Slopes
from .lines import Line, against_bars, compared, element, first_line, near, shown
from .point import SMALL, OpPoint, Point
from .random import keys

if TYPE_CHECKING:
    from ..ops.cases.case import Edge


class Seen(NamedTuple):
    """What a rule gave at a point for ȳ, 0, ū and 2ȳ − 3ū."""

    ys: tuple
    x_bars: tuple
    of_zero: tuple
    other: tuple
    of_sum: tuple


def look(point: OpPoint, rule: Rule) -> Seen:
    """Call the rule four times, in one program. From here on nothing more is asked of outputs that are not finite."""

    def program(xs, y_bars, u_bars):
        y, res = point.residuals(rule, xs)

        def pull(bars) -> tuple:
            x_bars = rule.pull(res, point.seed_for(y, bars), point.mask, point.statics)
            return tuple(x_bars[i] for i in point.at)

        rows = [jnp.stack([a, 0 * a, b, 2 * a - 3 * b]) for a, b in zip(y_bars, u_bars)]
        ys = tuple(v for v in (y if point.many else (y,)) if is_float(v))
        return ys, jax.lax.map(lambda row: pull(row[1]), (jnp.arange(4), rows))  # a number, for an op may have no output

    run, u_bars = jax.jit(program, compiler_options=FAST), point.like(point.ys)
    ys, x_bars = run(point.xs, point.y_bars, u_bars)
    if point.without_infinities(ys):
        ys, x_bars = run(point.xs, point.y_bars, u_bars)
    return Seen(ys, *(tuple(bar[k] for bar in x_bars) for k in range(4)))


def structure(point: OpPoint, rule: Rule) -> Line:
    """Arity, shapes, dtypes, a cotangent for every float operand; no operand among the residuals."""

    def pull(xs, y_bars):
        with keys(0):  # a stochastic rule draws
            return point.pull(rule, xs, y_bars)

    try:
        x_bars = jax.eval_shape(pull, point.xs, point.y_bars)
    except PullbackError as error:
        return Line("structure", "failed", str(error))
    except Exception as error:  # whatever a user's rule raises
        return Line("structure", "failed", f"the rule raised {type(error).__name__}: {first_line(error)}")
    twice = kept_twice(point)
    if twice:
        text = f"the forward returns operand {twice!r} among its residuals; name it in saves=, the engine adds it back"
        return Line("structure", "failed", text)
    n, of = len(x_bars), len(point.mask)
    return Line("structure", "held", f"{n} cotangent{'s' * (n > 1)} for {of} operand{'s' * (of > 1)}, each in its shape")


def kept_twice(point: OpPoint) -> str | None:
    """The name of an operand that the forward returns as a residual."""
    if not point.op.residuals:
        return None
    traced = jax.make_jaxpr(lambda xs: tuple(point.op.fn(*point.merged(xs), **point.statics)[1]))(point.xs).jaxpr
    for name, variable in zip(point.names, traced.invars):
        if any(variable is out for out in traced.outvars):
            return name
    return None


def linear(point: Point, seen: Seen) -> Iterator[Line]:
    """A zero cotangent gives zeros, and a sum of cotangents the sum."""
    wrong = [name for name, bar in zip(point.names, seen.of_zero) if np.any(np.asarray(bar) != 0)]
    yield Line("zero", "failed" if wrong else "held", f"ȳ = 0 gives x̄ ≠ 0 for {', '.join(wrong)}" if wrong else "ȳ = 0 gives x̄ = 0")
    expected = [2 * np.asarray(a) - 3 * np.asarray(b) for a, b in zip(seen.x_bars, seen.other)]
    yield compared("linear", point.names, seen.of_sum, expected, "x̄(2ȳ − 3ū) against 2·x̄(ȳ) − 3·x̄(ū)")


def composite(point: OpPoint, seen: Seen) -> Line:
    """Forward and pullback against those of the composite."""
    try:
        found = point.by_composite
    except Exception as error:  # whatever a user's composite raises
        return Line("composite", "failed", f"the composite raised {type(error).__name__}: {first_line(error)}")
    if found is None:
        return Line("composite", "not asked", "the op has no composite")
    ys, x_bars = found
    if len(ys) != len(seen.ys):
        return Line("composite", "failed", f"the composite gives {len(ys)} float outputs, the op {len(seen.ys)}")
    forward = compared("composite", [f"output {i}" for i in range(len(ys))], seen.ys, ys, "y against the composite's")
    backward = compared("composite", point.names, seen.x_bars, x_bars, "x̄ against the pulled-back composite")
    return forward if forward.outcome == "failed" else backward


def directions(point: Point, x_bars: Sequence) -> Line:
    """The slope along ±1 directions against extrapolated differences."""
    if not sum(x.size for x in point.xs):
        return Line("directions", "not asked", "no element to move")
    along = lambda v, x_bar: v.reshape(len(v), -1) @ np.ravel(np.asarray(x_bar, np.float64))
    claimed = np.sum([along(v, x_bar) for v, x_bar in zip(point.directions, x_bars)], axis=0)
    return against_bars("directions", claimed, point.slopes, [f"direction {i}" for i in range(len(claimed))])


def elements(point: Point, x_bars: Sequence) -> Line:
    """Each partial derivative of small operands against extrapolated differences."""
    if not point.partials:
        return Line("elements", "not asked", f"no operand of 1 to {SMALL} elements")
    claimed = [np.ravel(np.asarray(x_bars[i], np.float64)) for i, _ in point.partials]
    measured = Slopes(*map(np.concatenate, zip(*(slopes for _, slopes in point.partials))))
    where = [element(point.names[i], point.xs[i].shape, k) for i, _ in point.partials for k in range(point.xs[i].size)]
    return against_bars("elements", np.concatenate(claimed), measured, where)


def edges(op: Op, rule: Rule, table: "Sequence[Edge]", compiled: bool = True) -> Line:
    """The documented values where convention decides: ties, zeros, infinities, saturation, empty axes.

    compiled: one program for each point. Op by op is quicker for many rules of one op, and rounds after every step.
    """
    table = [edge for edge in table if edge.op is op]
    for edge in table:
        wrong = at_edge(edge, rule, compiled)
        if wrong:
            return Line("edges", "failed", f"{edge.label}: {wrong}", where=edge.label)
    if not table:
        return Line("edges", "not asked", "no edge points are documented")
    return Line("edges", "held", f"{len(table)} points as documented")


def at_edge(edge: "Edge", rule: Rule | None, compiled: bool = False) -> str | None:
    """What is wrong at an edge point, if anything; a constant op has no rule."""
    place = OpPoint(edge.op, edge.operands, edge.statics)
    as_tuple = lambda v: v if place.many else (v,)
    there = as_tuple(jax.eval_shape(lambda: place.op(*place.operands, **place.statics)))
    pulled = rule is not None and place.at
    y_bars = [np.asarray(bar, v.dtype).reshape(v.shape) for v, bar in zip(there, as_tuple(edge.y_bar)) if is_float(v) and pulled]

    def program(xs, y_bars):
        if rule is None or not place.at:
            return place.op(*place.merged(xs), **place.statics), None
        y, res = place.residuals(rule, xs)
        return y, rule.pull(res, place.seed_for(y, y_bars), place.mask, place.statics)

    run = jax.jit(program, compiler_options=FAST) if compiled else program
    y, x_bars = run([place.operands[i] for i in place.at], y_bars)
    if edge.y is not None:
        for i, (a, b) in enumerate(zip(as_tuple(y), as_tuple(edge.y))):
            if b is not None and not near(a, b):
                return f"y{f'[{i}]' if place.many else ''} is {shown(a)}; expected {shown(b)}"
    for i, (x_bar, expected) in enumerate(zip(x_bars or (), edge.x_bars)):
        if expected is not None and (x_bar is None or not near(x_bar, expected)):
            name = f"operand {i}" if place.op.variadic else place.op.operand_names[i]
            return f"cotangent of {name} is {shown(x_bar)}; expected {shown(expected)}"
    return None


def aliased(point: OpPoint, rule: Rule) -> Line:
    """One array as the first two operands: the sum of their cotangents is the slope along it."""
    pair = point.at[:2]
    if len(pair) < 2 or point.xs[0].shape != point.xs[1].shape or not point.xs[0].size:
        return Line("aliased", "not asked", "no two operands of one shape")
    same = OpPoint(point.op, point.merged((point.xs[0], *point.xs[:1], *point.xs[2:])), point.statics)
    x_bars = same.pull(rule, same.xs, same.y_bars)
    once = Point(lambda xs: same.forward((xs[0], *xs)), (same.xs[0], *same.xs[2:]), same.names[1:], 0)
    once.y_bars = same.y_bars
    line = directions(once, (x_bars[0] + x_bars[1], *x_bars[2:]))
    return line._replace(check="aliased", text=f"{point.names[0]} and {point.names[1]} one array: {line.text}")
