"""A step op by op, as Python runs it: for how long each op and each pullback was at work, and what its programs cost.

Each is waited for. What Python does on the way to an op (finding it, recording it, making its program run) counts as the op's; what
comes after the last pullback is the update. Of a pullback, an output that is computed again for it is a part.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.core import Tracer

from ...autograd.graph import plain
from ...autograd.inspection import Inspector, inspecting
from ...autograd.walk import filled, residuals_of
from ...ops.op import REGISTRY
from .hlo import Cost, Program
from .places import Place

UPDATE = Place("update", "(jax.numpy)", "update")


class Run(NamedTuple):
    """A jitted program and what it was called with."""

    program: Any
    operands: tuple
    statics: dict[str, Any]


Look = Callable[[Place, Any, Callable[[], list[Run]]], None]  # (where, the result, what tells the programs that made it)


class Watch(Inspector):
    """Shows one step to a `look`. All that comes after its first pullback belongs to the backward: a function that runs again, too."""

    def __init__(self, look: Look):
        self.look, self.walks = look, False

    def place(self, scope: str, name: str) -> Place:
        return Place(scope, name, "backward" if self.walks else "forward")

    def called(self, label: str, operands: Sequence, statics: dict[str, Any], result: Any) -> None:
        scope, _, name = label.rpartition("/")
        if scope.endswith("/backward"):  # a sum of cotangents: SCOPE/OP/backward/add
            scope = scope.removesuffix("/backward").rpartition("/")[0]
        self.look(self.place(scope, name), result, lambda: [Run(REGISTRY[name].primal, tuple(operands), statics)])

    def recorded(self, node: Any, operands: Sequence, result: Any) -> None:
        runs = lambda: [Run(node.op.forward, tuple(operands), node.statics)]
        self.look(self.place(node.scope, node.op.name), result, runs)

    def pulled(self, node: Any, y_bars: Sequence, x_bars: Sequence) -> None:
        self.walks = True
        self.look(self.place(node.scope, node.op.name), x_bars, lambda: pullbacks(node, y_bars))


def pullbacks(node: Any, y_bars: Sequence) -> list[Run]:
    """The rule of a node, after what is computed again for it; nothing for a node whose pullback runs ops."""
    if node.rule is None:
        return []
    again = [Run(producer.op.recompute, (producer.residuals,), producer.statics) for _, producer in node.again]
    mask = tuple(parent is not None for parent in node.parents)
    y_bar = filled(node, list(y_bars)) if node.many else y_bars[0]
    return [*again, Run(node.rule.program(mask), (residuals_of(node, {}, None), y_bar), node.statics)]


def timed(step: Callable[[int], object], count: int) -> tuple[dict[Place, float], float]:
    """(seconds at each place, seconds of all), both of `count` steps together."""
    seconds: dict[Place, float] = {}
    last = 0.0

    def mark(place: Place, result, _=None) -> None:
        nonlocal last
        leaves = [plain(x) for x in jax.tree.leaves(result)]
        if any(isinstance(x, Tracer) for x in leaves):
            return  # it does not run now
        jax.block_until_ready(leaves)
        now = time.perf_counter()
        seconds[place] = seconds.get(place, 0.0) + now - last
        last = now

    for i in range(count):
        last = time.perf_counter()
        with inspecting(Watch(mark)):
            result = step(i)
        mark(UPDATE, result)
    return seconds, sum(seconds.values())


def costs(step: Callable[[int], object]) -> dict[Place, Cost]:
    """What the programs of one step cost at each place, read off their compiled texts."""
    known: dict[tuple, Cost] = {}
    found: dict[Place, Cost] = {}

    def cost(run: Run) -> Cost:
        leaves, tree = jax.tree.flatten((run.operands, run.statics))
        kinds = tuple((x.shape, x.dtype) if hasattr(x, "dtype") else x for x in map(plain, leaves))
        key = (id(run.program), tree, kinds)
        if key not in known:
            text = run.program.program.lower(*run.operands, **run.statics).compile().as_text()
            known[key] = Program(text).total()
        return known[key]

    def look(place: Place, result, runs: Callable[[], list[Run]]) -> None:
        if any(isinstance(plain(x), Tracer) for x in jax.tree.leaves(result)):
            return
        for run in runs():
            found[place] = found.get(place, Cost()).plus(cost(run))

    with inspecting(Watch(look)):
        jax.block_until_ready(step(0))
    return found
