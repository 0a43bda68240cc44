"""The graph: a `Tensor` is a value and the `Node` that made it.

There is no tape. A node holds its parents, so the graph hangs from its outputs and is freed with them. Levels nest: each
`vjp` opens one, and a value tracked at level 2 may hold a value tracked at level 1. An op is recorded at the highest level
among its operands; its forward then runs on what those operands hold.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..lib.errors import GraphError, OperandError
from ..ops.op import OVERRIDES, Op
from ..ops.rule import EPOCH, RULES, Aval, Rule, aval_of, is_float
from . import inspection
from .methods import Methods
from .rules import chosen
from .scope import SCOPE, setting

ORDER = itertools.count()  # birth order: creation order reversed is a topological order
LEVELS = itertools.count(2)
EXPLORING = 1  # the level of `pb.tensor`: below every vjp, never closed
LIVE: ContextVar[frozenset[int]] = ContextVar("live levels", default=frozenset((EXPLORING,)))  # those that may record

# How many functions are being watched right now. A fused op under two of them keeps its operands, for its composite.
WATCHERS: ContextVar[int] = ContextVar("watchers", default=0)

explored = False  # has a `pb.tensor` been made? Then EXPLORING counts as a watcher of every function


class Node:
    """One recorded call of an op. `op` is None for a leaf."""

    __slots__ = (
        "op",
        "rule",
        "statics",
        "residuals",
        "operands",
        "parents",
        "order",
        "avals",
        "many",
        "scope",
        "deeper",
        "watched",
        "line",
        "cheap",
        "again",
        "__weakref__",
    )

    op: Any  # an Op, a Rerun, or None for a leaf
    rule: Any  # a Rule, or None for a leaf or Rerun
    statics: dict[str, Any]
    residuals: Any  # what the rule reads; None for a fused op under an outer level, which goes through its composite
    operands: Any  # a tuple, kept only while an outer level is open
    parents: tuple  # (node, output index) per operand, None for an operand that is not tracked at this level
    order: int
    avals: tuple  # shape and dtype of the outputs
    many: bool  # is the output a tuple?
    scope: str
    deeper: bool  # do the residuals hold values tracked by an outer level?
    watched: dict | None  # output index -> weak reference to the Tensor whose .grad is filled
    line: str | None  # where in the user's source, under debug_nans
    cheap: bool  # can its output be had again from its residuals? Then who would keep the output keeps this node instead
    again: tuple  # (operand index, cheap node) for each operand that is had again that way

    def __init__(self, op, rule, statics, residuals, operands, parents, avals, many, deeper, cheap=False, again=()):
        self.op, self.rule, self.statics, self.residuals, self.operands = op, rule, statics, residuals, operands
        self.parents, self.avals, self.many, self.deeper = parents, avals, many, deeper
        self.order, self.scope, self.watched, self.line = next(ORDER), SCOPE.get(), None, None
        self.cheap, self.again = cheap, again

    @property
    def label(self) -> str:
        """`scope/op`: the name that rules, ledgers and statistics go by."""
        name = self.op.name if self.op is not None else "leaf"
        if name == "tap":
            name = self.statics["name"]
        return f"{self.scope}/{name}" if self.scope else name


class Rerun:
    """Stands where a node's op stands, for a node whose pullback runs a function again (checkpoint, scan)."""

    is_fused = False

    def __init__(self, name: str, pull):
        self.name, self.pull = name, pull


class Tensor(Methods):
    """A tracked value."""

    __slots__ = ("value", "node", "index", "level", "_grad", "__weakref__")

    value: Any
    node: Node
    index: int
    level: int
    backward: Callable[..., None]  # these two come from explore.py, which stands above the walk
    retain_grad: Callable[..., "Tensor"]

    def __init__(self, value, node: Node, index: int, level: int):
        self.value, self.node, self.index, self.level = value, node, index, level

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self):
        return self.value.dtype

    @property
    def aval(self):
        """Shape and dtype, as those of a JAX array."""
        return self.value.aval

    @property
    def ndim(self) -> int:
        return self.value.ndim

    @property
    def size(self) -> int:
        return self.value.size

    @property
    def grad(self) -> Any:
        """The cotangent that `backward()` left here; None before, and where nothing arrived."""
        return getattr(self, "_grad", None)

    @grad.setter
    def grad(self, bar) -> None:
        self._grad = bar

    def zero_grad(self) -> None:
        self._grad = None

    def __repr__(self) -> str:
        """`Tensor([1. 2.], float32[2], from 'mul')`"""
        value: Any = plain(self)
        made = "leaf" if self.node.op is None else f"from {self.node.label!r}"
        kind = f"{self.dtype}[{','.join(map(str, self.shape))}]"
        if isinstance(value, Tracer):
            return f"Tensor({kind}, {made}, level {self.level}, traced)"
        text = np.array_str(np.asarray(value), precision=4) if value.size <= 100 else "..."
        return f"Tensor({text}, {kind}, {made})"


def plain(x):
    """The JAX array under all levels."""
    while type(x) is Tensor:
        x = x.value
    return x


def leaf(value, level: int) -> Tensor:
    node = Node(None, None, {}, None, None, (), (Aval(value.shape, value.dtype),), False, False)
    return Tensor(value, node, 0, level)


@contextlib.contextmanager
def recording(level: int) -> Iterator[None]:
    """A function is watched at this level inside; afterwards, values of this level have escaped."""
    with setting(LIVE, LIVE.get() | {level}), setting(WATCHERS, WATCHERS.get() + 1):
        yield


def escaped(op_name: str) -> GraphError:
    where = SCOPE.get()
    return GraphError(
        f"{op_name}{f' ({where})' if where else ''} met a tracked value whose function has returned: a Tensor escaped from vjp, grad or "
        "checkpoint; return it as an output (has_aux=True) or take stop_gradient of it inside"
    )


def record(op: Op, operands: tuple, statics: dict):
    """Run the forward and hang a node on its outputs; what a constant op gives is not tracked."""
    if op.kind == "constant":
        return op(*map(plain, operands), **statics)
    level = 0
    for x in operands:
        if type(x) is Tensor and x.level > level:
            level = x.level
    if level not in LIVE.get():
        raise escaped(op.name)
    values, parents, deeper, cheap = [], [], False, False
    for x in operands:
        if type(x) is Tensor:
            if x.level == level:
                if x.node.cheap:
                    cheap = True
                x, parent = x.value, (x.node, x.index)
                if type(x) is Tensor:
                    deeper = True
            else:
                parent, deeper = None, True
            values.append(x)
            parents.append(parent)
        else:
            values.append(x)
            parents.append(None)
    rule = exact = op.rules.get("exact") or op.find("exact")
    forward = op.program
    if RULES.value or EPOCH.value:
        rule, forward = chosen(op), op.forward

    extra = ()
    try:
        if deeper:
            y = op(*values, **statics)
        elif op.residuals is not None:
            y, extra = forward(*values, **statics)
        else:
            y = forward(*values, **statics) if statics else forward(*values)
    except (TypeError, ValueError) as error:
        raise op.explain(operands, statics, error) from None if isinstance(error, OperandError) else error
    while len(values) < len(op.operand_names):
        values.append(None)
        parents.append(None)
    kept, operands_kept, again = values, None, ()
    if cheap and not deeper and not op.variadic:
        again = had_again(parents, rule)
        kept = list(values)
        for i, _ in again:
            kept[i] = aval_of(values[i])
    if op.is_fused and (deeper or WATCHERS.get() + explored > 1):
        operands_kept = tuple(values)
    residuals = None if deeper and op.is_fused else op.keep(kept, y, extra, rule)

    cheap = op.recompute_fn is not None and not deeper and not again and rule.kept == exact.kept
    many = type(y) is tuple
    avals = tuple([v.aval for v in y]) if many else (y.aval,)
    node = Node(op, rule, statics, residuals, operands_kept, tuple(parents), avals, many, deeper, cheap, again)
    if many:
        result = tuple([Tensor(v, node, i, level) if is_float(v) else v for i, v in enumerate(y)])
    else:
        result = Tensor(y, node, 0, level)
    if inspection.current is not None:
        inspection.current.recorded(node, values, result)
    return result


OVERRIDES[Tensor] = record


def had_again(parents: list, rule: Rule) -> tuple:
    """(operand index, node) of the operands that the rule keeps and a cheap node can give it again."""
    pairs = [(i, parent[0]) for i, parent in enumerate(parents) if parent is not None and rule.kept[i] and parent[0].cheap]
    return tuple(pairs)


def is_tracked(x) -> bool:
    return type(x) is Tensor


def tracked_leaves(tree) -> list[Tensor]:
    return [x for x in jax.tree.leaves(tree) if type(x) is Tensor]


def level_of(tree) -> int:
    """The highest level among the tracked values of a tree; 0 if there are none."""
    return max((t.level for t in tracked_leaves(tree)), default=0)


def strip(tree, level: int):
    """Take one level off."""
    return jax.tree.map(lambda x: x.value if type(x) is Tensor and x.level == level else x, tree)


def lift(tree, level: int):
    """Make every float array of a tree a leaf of this level; integers, keys and `None` stay."""
    return jax.tree.map(lambda x: leaf(x, level) if is_float(x) else x, tree)


def zeros(aval: Aval):
    return jnp.zeros(aval.shape, aval.dtype)
