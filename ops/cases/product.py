"""Cases of `ops/product.py`."""

import numpy as np

from ..product import prod
from .case import Case, Edge, normal
from .reduction import WAYS


def zeros_at(shape, *places):
    """Normal numbers with zeros at these places of the flattened array."""

    def make(rng):
        x = rng.normal(size=shape)
        x.flat[list(places)] = 0.0
        return (x,)

    return make


CASES = [
    *[Case(prod, label, normal(shape), statics) for label, (shape, statics) in WAYS.items()],
    Case(prod, "one zero in a row, two in the next", zeros_at((3, 4), 1, 4, 6), {"axis": 1}),
    Case(prod, "axes apart, out of order", normal((2, 3, 2)), {"axis": (2, 0)}),
    Case(prod, "first axes of three", normal((2, 2, 3)), {"axis": (0, 1)}),
    Case(prod, "of nothing", normal((2, 0)), {"axis": 1}),
]

EDGES = [
    Edge(prod, "one zero", ([0.0, 2.0, 3.0],), 2.0, ([12.0, 0.0, 0.0],), 0.0),
    Edge(prod, "two zeros", ([0.0, 0.0, 3.0],), 2.0, ([0.0, 0.0, 0.0],), 0.0),
    Edge(prod, "of one element", ([0.0],), 2.0, ([2.0],), 0.0, {"axis": 0}),
    Edge(prod, "of nothing is 1", (np.zeros(0),), 2.0, (np.zeros(0),), 1.0),
    Edge(prod, "rows, kept", ([[1.0, 0.0, 2.0], [3.0, 4.0, 5.0]],), [[1.0], [1.0]], ([[0.0, 2.0, 0.0], [20.0, 15.0, 12.0]],),
         [[0.0], [60.0]], {"axis": 1, "keepdims": True}),
    Edge(prod, "an infinity and a zero", ([np.inf, 2.0, 0.0],), 1.0, ([0.0, np.nan, np.inf],), np.nan),
    Edge(prod, "float16 multiplies in float32", (np.array([256, 256, 0.0625, 0.0625], np.float16),), np.float16(1),
         (np.array([1, 1, 4096, 4096], np.float16),), np.float16(256)),
]  # fmt: skip
