"""One table of truth per op: what tests, `pullback check`, mutation and benches run it on."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..op import Op


class Case(NamedTuple):
    """Operands to judge an op on.

    make(rng) gives the operands: float64, integer or boolean NumPy arrays, Python numbers, `None`. Whoever runs the case
    casts the float arrays to the dtype under test. Values stay inside the op's domain and away from kinks.
    """

    op: Any  # an Op; among FACE_CASES a function over ops
    label: str
    make: Callable[[np.random.Generator], tuple]
    statics: dict[str, Any] = {}


class Edge(NamedTuple):
    """A point where convention decides (a kink, a tie, an infinity, an empty axis), with the right values.

    y_bar, x_bars: one cotangent per output and operand; `None` in x_bars is not checked.
    """

    op: Op
    label: str
    operands: tuple
    y_bar: Any
    x_bars: tuple
    y: Any = None
    statics: dict[str, Any] = {}


def normal(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], tuple]:
    """Independent standard normal operands of these shapes."""
    return lambda rng: tuple(rng.normal(size=shape) for shape in shapes)


def values(op: Op, label: str, operands: tuple, y, **statics) -> Edge:
    """A point of a constant op: nothing flows back, so its value alone."""
    return Edge(op, label, operands, None, (None,) * len(operands), np.array(y), statics)
