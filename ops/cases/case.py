"""One table of truth per op: what tests, `pullback check`, mutation and benches run it on."""

from collections.abc import Callable, Sequence
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


def telling(cases: Sequence[Case]) -> list[Case]:
    """The cases that say most come first: small ones, but none without elements, each with other dtypes, numbers of axes or statics."""

    def size_and_kind(case: Case) -> tuple[tuple, tuple]:
        operands = case.make(np.random.default_rng(0))
        sizes = [np.size(x) for x in operands if hasattr(x, "dtype")]
        kinds = tuple((getattr(x, "dtype", type(x)), np.ndim(x)) for x in operands)
        return (0 in sizes, abs(sum(sizes) - 12)), (kinds, tuple(sorted(case.statics)))

    seen, first, rest = set(), [], []
    for _, kind, case in sorted(((*size_and_kind(case), case) for case in cases), key=lambda found: found[0]):
        (rest if kind in seen else first).append(case)
        seen.add(kind)
    return sorted(first + rest, key=lambda case: size_and_kind(case)[0][0])
