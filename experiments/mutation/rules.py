"""Judging a mutant of a rule: the verdict's checks at every case of its op, the cheapest first, until one fails.

What does not depend on the rule (slopes with their error bars) is measured once per case. The composite is not asked: a verdict
that has one is stronger still.
"""

import functools
import zlib
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from ...autograd import behaviour, checks
from ...autograd.lines import Line
from ...autograd.point import OpPoint, Point
from ...ops.cases import CASES, EDGES
from ...ops.cases.case import Edge, telling
from ...ops.op import Op
from ...ops.rule import Rule
from .operators import Mutant, mutants
from .sources import family, fields_of, rebuilt, source_of

MOST = 12  # cases of an op that a mutant must pass


class RuleJudge:
    """All that a mutant of one rule is held against."""

    def __init__(self, op: Op, name: str):
        self.op, self.rule = op, op.find(name)
        self.members = family(self.rule.fn)
        self.edges = [edge for edge in EDGES if edge.op is op]

    @functools.cached_property
    def points(self) -> list[OpPoint]:
        """The most telling cases, in this order."""
        found = []
        for case in telling([case for case in CASES if case.op is self.op])[:MOST]:
            seed = zlib.crc32(f"{self.op.name}/{case.label}".encode())
            point = OpPoint(self.op, case.make(np.random.default_rng(seed)), case.statics, seed)
            if point.at:
                found.append(point)
        return found

    def mutants(self) -> list[tuple[int, Mutant]]:
        """(which member of the rule's family, the mutant)."""
        return [(i, mutant) for i, member in enumerate(self.members) for mutant in mutants(source_of(member), fields_of(self.op))]

    def build(self, which: int, source: str) -> Rule:
        fn = rebuilt(self.rule.fn, self.members, self.members[which], source)
        kept = tuple(name for name, keep in zip((*self.op.operand_names, "out"), self.rule.kept) if keep)
        return Rule(self.op, self.rule.name, fn, self.rule.contract, kept, self.rule.order2, self.rule.of)

    def killed_by(self, rule: Rule, share: slice = slice(None)) -> str | None:
        """The check that the rule fails, `None` if it passes all of them. share: of the points."""
        with jax.enable_x64(True), np.errstate(all="ignore"):  # a mutant may give NaN anywhere
            for line in self.lines(rule, share):
                if line.outcome == "failed":
                    return line.check
        return None

    def lines(self, rule: Rule, share: slice) -> Iterator[Line]:
        """Every check at this share of the points, the cheapest first. Op by op: mutants then share their compiled programs."""
        looks = [functools.partial(self.at, point, rule) for point in self.points[share]]
        looks.append(functools.partial(self.at_edges, rule, self.edges[share]))
        looks += [functools.partial(behaviour.precision, point, rule) for point in self.points[:2][share]]
        for look in looks:
            try:
                yield from look()
            except Exception as error:  # a mutant may raise anything
                yield Line("structure", "failed", f"raised {type(error).__name__}")

    def at_edges(self, rule: Rule, edges: list[Edge]) -> Iterator[Line]:
        if edges and self.rule.name == "exact":
            yield checks.edges(self.op, rule, edges, compiled=False)

    def at(self, point: OpPoint, rule: Rule) -> Iterator[Line]:
        y, res = self.kept(point)
        bars = rule.pull(res, point.seed_for(y, point.y_bars), point.mask, point.statics)
        x_bars = tuple(bars[i] for i in point.at)
        for x, bar in zip(point.xs, x_bars):
            if bar.shape != x.shape or bar.dtype != x.dtype:
                yield Line("structure", "failed", "another shape or dtype")
        judged = self.judged(point)
        by_element = checks.elements(judged, x_bars)
        yield checks.directions(judged, x_bars)
        yield by_element

    def judged(self, point: OpPoint) -> Point:
        """Where the rule is compared: for a surrogate, the function that it is the slope of."""
        others = self.__dict__.setdefault("others", {})
        if id(point) not in others:
            others[id(point)] = point.held_against(self.rule)
        return others[id(point)]

    def kept(self, point: OpPoint):
        """What the rule reads at a point: the same for every mutant."""
        held = self.__dict__.setdefault("held", {})
        if id(point) not in held:
            held[id(point)] = point.residuals(self.rule, point.xs)
        return held[id(point)]

    def outputs(self, rule: Rule, count: int) -> list[np.ndarray]:
        """Cotangents at `count` random draws of the smallest case with something in it."""
        point = next(point for point in self.points if all(x.size for x in point.xs))
        rng = np.random.default_rng(0)
        draw = lambda arrays: tuple(x * (1 + 0.5 * jnp.asarray(rng.uniform(-1, 1, size=(count, *x.shape)))) for x in arrays)
        run = jax.vmap(lambda xs, y_bars: point.pull(rule, xs, y_bars))
        return list(map(np.asarray, jax.jit(run)(draw(point.xs), draw(point.y_bars))))
