"""Statistics of cotangents as extra outputs of the step: no callbacks, and the same inside `scan`."""

import contextlib
import fnmatch
from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp

from ..lib.errors import OperandError
from ..ops.identity import tap as tap
from .graph import Node, Rerun, plain
from .scope import MACHINERY, setting
from .walk import COLLECT


class Collector:
    """Applies `stat` to the cotangents that reach each node and adds up what falls on one label."""

    def __init__(self, stat: Callable, where: str, out: dict[str, Any]):
        self.stat, self.where, self.out = stat, where, out

    def __call__(self, node: Node, y_bars: list) -> None:
        if isinstance(node.op, Rerun) or MACHINERY in node.scope:
            return  # how checkpoint and loops work, no part of the user's function
        if not fnmatch.fnmatchcase(node.label, self.where):
            return
        for bar in y_bars:
            if bar is not None:
                self.put(node.label, self.stat(plain(bar)))

    def put(self, label: str, value) -> None:
        if label not in self.out:
            self.out[label] = value
            return
        if jnp.shape(self.out[label]) != jnp.shape(value):
            raise OperandError(
                f"collecting: statistics of shapes {jnp.shape(self.out[label])} and {jnp.shape(value)} fall on the label {label!r} and "
                "cannot be added; let stat reduce a cotangent to one shape, or tell the places apart by pb.scope or pb.tap"
            )
        self.out[label] = self.out[label] + value


class Row(Collector):
    """What one iteration of a loop puts into its row of the loop's statistics."""

    def __init__(self, whole: Collector, i: int, n: int):
        super().__init__(whole.stat, whole.where, {})
        self.whole, self.i, self.n = whole, i, n

    def put(self, label: str, value) -> None:
        rows = jnp.zeros((self.n, *jnp.shape(value)), jnp.result_type(value))
        self.whole.put(label, rows.at[self.i].set(value))


@contextlib.contextmanager
def collecting(stat: Callable = lambda y_bar: y_bar, where: str = "*") -> Iterator[dict[str, Any]]:
    """`with pb.collecting(stat, where="blocks.*/gelu") as out:` around a walk: out[`scope/op`] = stat(cotangent of its output).

    stat: a function of one cotangent, in jax.numpy; results under one label are added. Inside a scan a label has one row
    per iteration. Open it inside a compiled step and return `out`: around a compiled call it would see nothing, which is an
    error.
    """
    out: dict[str, Any] = {}
    with setting(COLLECT, Collector(stat, where, out)):
        yield out
