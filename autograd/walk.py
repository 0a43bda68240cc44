"""The walk: carry cotangents from outputs to leaves, node by node, in reverse birth order.

A heap on birth order needs no recursion and no sorting pass, so depth is unbounded; a cotangent is dropped as soon as its
node is pulled. Nodes older than `floor` count as leaves: `checkpoint` and `scan` record a function again and walk only
what they have just recorded, so what it closes over is simply the set of older nodes that the walk arrives at.
"""

import heapq
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer

from ..lib.errors import GraphError, RuleError, RuleOrderError
from ..ops import add
from . import inspection
from .graph import LEVELS, Node, Tensor, leaf, plain, recording, zeros
from .scope import SCOPE, backward_scope, setting

FREED = object()  # stands in the residuals of a node that a backward() has consumed
COLLECT: ContextVar[Any] = ContextVar("collector", default=None)  # called with each node and its cotangents
EXPANDED: ContextVar[list[str] | None] = ContextVar("expanded composites", default=None)  # labels, for the memory plan
LEDGER: ContextVar["Ledger | None"] = ContextVar("residual ledger", default=None)


class Ledger:
    """Bytes kept from forward to backward, by `scope/op`, each array once. What was an argument anyway is left out."""

    def __init__(self):
        self.bytes: dict[str, int] = {}
        self.seen: dict[int, object] = {}  # the values are held, so that no identity is used twice

    def argument(self, x) -> None:
        self.seen[id(x)] = x

    def count(self, outputs: Sequence[Tensor]) -> None:
        for node in sorted(reached(outputs, -math.inf), key=lambda node: node.order):
            for x in map(plain, jax.tree.leaves(node.residuals)):
                if hasattr(x, "dtype") and id(x) not in self.seen:  # a Python number takes no memory
                    self.seen[id(x)] = x
                    self.bytes[node.label] = self.bytes.get(node.label, 0) + x.size * x.dtype.itemsize


def walk(outputs: Sequence[Tensor], seeds: Sequence, floor: float = -math.inf, free: bool = False) -> dict[Node, list]:
    """{leaf, older or watched node: the cotangent of each of its outputs, `None` where none arrived}.

    outputs: tracked at one level; seeds: their cotangents, `None` for no contribution.
    """
    bars: dict[Node, list] = {}
    end: dict[Node, list] = {}
    heap: list[tuple[int, Node]] = []
    fresh: dict[Node, Any] = {}  # residuals of cheap nodes, as what was recomputed from them saw them

    def give(node: Node, index: int, bar) -> None:
        slots = bars.get(node)
        if slots is None:
            slots = bars[node] = [None] * len(node.avals)
            heapq.heappush(heap, (-node.order, node))
        slots[index] = bar if slots[index] is None else summed(node, slots[index], bar)

    for output, seed in zip(outputs, seeds):
        if seed is not None:
            give(output.node, output.index, seed)
    collect, ledger = COLLECT.get(), LEDGER.get()
    if ledger is not None and floor < 0:
        ledger.count(outputs)
    while heap:
        node = heapq.heappop(heap)[1]
        y_bars = bars.pop(node)
        if node.watched is not None and node.order > floor:
            deposit(node.watched, y_bars)
            end[node] = y_bars
        if node.op is None or node.order <= floor:
            end[node] = y_bars
            continue
        if collect is not None:
            collect(node, y_bars)
        x_bars = pull(node, y_bars, fresh)
        if inspection.current is not None:
            inspection.current.pulled(node, y_bars, x_bars)
        for parent, x_bar in zip(node.parents, x_bars):
            if x_bar is not None:  # none for an operand without a parent
                give(parent[0], parent[1], x_bar)
        if free:
            node.residuals, node.operands, node.parents, node.again = FREED, None, (), ()
    return end


def summed(node: Node, a, b):
    """Two cotangents of a node's output, in its scope. Who looks on is told whose they are."""
    place: Any = nullcontext()
    if inspection.current is not None:
        place = setting(SCOPE, f"{node.label}/backward")
    elif isinstance(plain(a), Tracer):
        place = backward_scope(node.scope)
    with place:
        return add(a, b)


def pull(node: Node, y_bars: list, fresh: dict[Node, Any]) -> Sequence:
    """Cotangents of the parents of a node."""
    refuse_freed(node)
    watched = node.deeper or any(type(bar) is Tensor for bar in y_bars)
    tracing = any(isinstance(plain(bar), Tracer) for bar in y_bars)
    context: Any = backward_scope(node.scope) if watched or tracing else nullcontext()
    with context:
        if node.rule is None:  # checkpoint or scan
            return node.op.pull(y_bars)
        y_bar = filled(node, y_bars) if node.many else y_bars[0]
        mask = tuple([parent is not None for parent in node.parents])
        try:
            if not watched:
                res = residuals_of(node, fresh, y_bar if tracing else None)
                x_bars = node.rule.program(mask)(res, y_bar, **node.statics)
                return leaves_last(node, x_bars) if tracing else x_bars
            if node.op.is_fused:
                return expand(node, y_bar)
            return node.rule.pull(residuals_of(node, fresh, None), y_bar, mask, node.statics)
        except RuleError as error:
            if not node.scope:
                raise
            raise type(error)(f"{node.scope}: {error}") from None


def refuse_freed(node: Node) -> None:
    if node.residuals is FREED:
        raise GraphError(
            f"a second backward() through {node.label!r}, which the first one freed; call backward(retain=True) before the last"
        )


def residuals_of(node: Node, fresh: dict[Node, Any], y_bar):
    """The residuals of a node, with the operands recomputed that a cheap node gives again.

    While tracing (y_bar is not None) they go through a barrier together with the cotangent: or XLA would merge the second
    computation with the first, and do it long before it is wanted. The cheap node's own rule comes later and reads through
    the same barrier, so that XLA can merge what the two have in common.
    """
    res = fresh.get(node, node.residuals)
    for i, producer in node.again:
        refuse_freed(producer)
        if producer not in fresh:
            fresh[producer] = producer.residuals if y_bar is None else lax.optimization_barrier((producer.residuals, y_bar))[0]
        value = producer.op.recompute(fresh[producer], **producer.statics)
        res = res._replace(**{node.op.operand_names[i]: value})
    return res


def leaves_last(node: Node, x_bars: tuple) -> tuple:
    """The cotangents, behind one barrier where some are of leaves and some are not.

    The others may read a leaf's value (x̄ = ȳ·W), which an optimiser overwrites as soon as it has W̄. Once nothing reads it any
    more when W̄ is there, XLA updates it in place; else it copies every weight first.
    """
    leaves = [parent[0].op is None for parent in node.parents if parent is not None]
    return lax.optimization_barrier(x_bars) if any(leaves) and not all(leaves) else x_bars


def filled(node: Node, y_bars: list) -> tuple:
    """A rule with several outputs is given zeros for those that nothing came back to, `None` for integer ones."""
    return tuple(zeros(aval) if bar is None and jnp.issubdtype(aval.dtype, jnp.floating) else bar for bar, aval in zip(y_bars, node.avals))


def record_leaves(f: Callable, values: Sequence):
    """(level, leaves, f(*leaves)): the start of every transform."""
    level = next(LEVELS)
    leaves = [leaf(value, level) for value in values]
    with recording(level):
        return level, leaves, f(*leaves)


def expand(node: Node, y_bar) -> tuple:
    """The pullback of a fused op whose residuals or cotangent an outer level watches: through its composite, in primitives."""
    op, rule, statics = node.op, node.rule, {**node.op.defaults, **node.statics}
    if node.operands is None:
        raise RuleOrderError(
            f"backward of {op.name!r}: its cotangent is tracked by a level that was not open when it was recorded; "
            "call vjp inside the function that you differentiate"
        )
    if rule.name != "exact":
        if rule.order2 is None:
            raise RuleOrderError(
                f"rule {rule.name!r} of {op.name!r} gives first derivatives only, and a higher one was asked for; "
                "give it order2=..., written in ops, or choose the exact rule"
            )
        return rule.order2(node.operands, y_bar, **statics)
    if op.composite_fn is None:
        raise RuleOrderError(
            f"backward of {op.name!r}: a derivative of higher order was asked for, which goes through its composite, and it has none; "
            f"give it one with @{op.name}.composite"
        )
    expanded = EXPANDED.get()
    if expanded is not None:
        expanded.append(node.label)
    here = [i for i, parent in enumerate(node.parents) if parent is not None]

    def composite(*watched):
        operands = list(node.operands)
        for i, x in zip(here, watched):
            operands[i] = x
        return op.composite_fn(*operands, **statics)

    level, leaves, y = record_leaves(composite, [node.operands[i] for i in here])
    outputs, seeds = (y, y_bar) if node.many else ((y,), (y_bar,))
    pairs = [(t, seed) for t, seed in zip(outputs, seeds) if type(t) is Tensor and t.level == level]
    with setting(COLLECT, None):
        end = walk([t for t, _ in pairs], [seed for _, seed in pairs])
    bars: list = [None] * len(node.parents)
    for i, x in zip(here, leaves):
        bars[i] = end[x.node][0] if x.node in end else zeros(x.node.avals[0])
    return tuple(bars)


def deposit(watched: dict, y_bars: list) -> None:
    """Fill `.grad` of the tensors that watch a node."""
    for index, reference in watched.items():
        tensor, bar = reference(), y_bars[index]
        if tensor is not None and bar is not None:
            tensor.grad = bar if tensor.grad is None else add(tensor.grad, bar)


def reached(outputs: Sequence[Tensor], floor: float) -> set[Node]:
    """The nodes behind some outputs, up to and including the first ones older than `floor`."""
    found = {output.node for output in outputs}
    frontier = list(found)
    while frontier:
        node = frontier.pop()
        if node.order > floor:
            for parent in node.parents:
                if parent is not None and parent[0] not in found:
                    found.add(parent[0])
                    frontier.append(parent[0])
    return found


def closed_over(outputs: Sequence[Tensor], floor: int) -> list[tuple[Node, int]]:
    """What a recording stands on: the (node, output index) pairs older than `floor` that its nodes and outputs refer to."""
    edge: dict[tuple[Node, int], None] = {}
    for node in sorted(reached(outputs, floor), key=lambda node: node.order):
        if node.order > floor:
            edge.update({parent: None for parent in node.parents if parent is not None and parent[0].order <= floor})
    edge.update({(t.node, t.index): None for t in outputs if t.node.order <= floor})
    return list(edge)
