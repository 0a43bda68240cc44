"""The exploring face, the one mutable place: `x = pb.tensor(...)`, `loss.backward()`, `x.grad`."""

import weakref

import jax.numpy as jnp
from jax.core import Tracer

from ..lib.errors import GraphError, OperandError
from ..ops.rule import is_float
from . import graph
from .graph import EXPLORING, Node, Tensor, leaf, plain
from .walk import walk


def tensor(data, dtype=None) -> Tensor:
    """A leaf: a float array whose `.grad` is filled by `backward()`. Integers cannot be perturbed and stay plain arrays."""
    if isinstance(data, Tensor):
        raise GraphError("pb.tensor of a tracked value: use it as it is, or start anew from its array, pb.tensor(x.detach())")
    value = jnp.asarray(data, dtype)
    if not is_float(value):
        raise OperandError(f"a leaf of {value.dtype} cannot have a gradient; pass dtype='float32', or use the array as it is")
    graph.explored = True
    return watch(leaf(value, EXPLORING))


def watch(x: Tensor) -> Tensor:
    """Have `backward()` fill this value's `.grad`; every `pb.tensor` is watched from the start."""
    x.node.watched = {**(x.node.watched or {}), x.index: weakref.ref(x)}
    return x


def backward(y: Tensor, seed=None, retain: bool = False) -> None:
    """Walk from y to the leaves and add each one's cotangent to its `.grad`.

    seed: cotangent of y, in its shape; 1 for a scalar. The graph is freed as it is walked unless `retain`.
    """
    if isinstance(plain(y), Tracer) or isinstance(jnp.zeros(()), Tracer):
        raise GraphError(
            "backward() inside a compiled or mapped function: nothing there outlives the trace; use pb.grad or pb.value_and_grad"
        )
    if y.level != EXPLORING:
        raise GraphError("backward() on a value that vjp or grad watches; it is for values made with pb.tensor")
    if seed is None:
        if y.shape != ():
            raise GraphError(f"backward() without a seed needs a scalar; this value has shape {y.shape}: sum it, or pass seed=")
        seed = jnp.ones((), y.dtype)
    seed = jnp.asarray(seed)
    if seed.shape != y.shape:
        raise GraphError(f"the seed has shape {seed.shape}; the value has shape {y.shape}")
    if not is_float(seed):
        raise GraphError(f"the seed is {seed.dtype}; a cotangent is a float array")
    end = walk([y], [seed.astype(y.dtype)], free=not retain)
    if not any(reference() is not None for node in end for reference in (node.watched or {}).values()):
        raise GraphError("backward() reached no leaf: this value does not depend on any pb.tensor that is still there")


def draw(y: Tensor) -> str:
    """The graph behind a value as text, one line per node, inputs indented below what uses them.

    A node that was shown already is named by its number only.
    """
    if not isinstance(y, Tensor):
        raise GraphError(f"draw of a {type(y).__name__}: only a tracked value has a graph; start from pb.tensor(...)")
    numbers: dict[Node, int] = {}
    lines: list[str] = []
    stack = [(y.node, 0)]
    while stack:
        node, depth = stack.pop()
        seen = node in numbers
        number = numbers.setdefault(node, len(numbers))
        shapes = ", ".join(f"{aval.dtype}[{','.join(map(str, aval.shape))}]" for aval in node.avals)
        rule = f" rule={node.rule.name}" if node.rule is not None and node.rule.name != "exact" else ""
        lines.append(f"{'  ' * depth}#{number} {node.label}" + (" (above)" if seen else f" -> {shapes}{rule}"))
        if not seen:
            stack += [(parent[0], depth + 1) for parent in reversed(node.parents) if parent is not None]
    return "\n".join(lines)


Tensor.backward = backward
Tensor.retain_grad = watch
