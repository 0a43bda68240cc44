"""Cases of `ops/norm.py`."""

import math

import numpy as np

from ..norm import norm, vector_norm
from .case import Case, Edge, normal
from .reduction import WAYS, spread

INF, NAN = np.inf, np.nan

CASES = [Case(norm, label, normal(shape), statics) for label, (shape, statics) in WAYS.items() if shape]

FACE_CASES = [
    Case(vector_norm, "rows", normal((2, 3)), {"axis": 1}),
    Case(vector_norm, "sum of sizes", normal((2, 3)), {"axis": 0, "ord": 1}),
    Case(vector_norm, "largest size", spread((2, 3)), {"axis": -1, "ord": math.inf, "keepdims": True}),
]

SINGLE = np.float32

EDGES = [
    Edge(norm, "3, 4, 5", ([3.0, -4.0],), 10.0, ([6.0, -8.0],), 5.0),
    Edge(norm, "at 0", ([0.0, 0.0],), 2.0, ([0.0, 0.0],), 0.0),
    Edge(norm, "a row at 0 leaves the other alone", ([[0.0, 0.0], [0.0, 2.0]],), [1.0, 3.0], ([[0.0, 0.0], [0.0, 3.0]],),
         [0.0, 2.0], {"axis": 1}),
    Edge(norm, "an infinite cotangent at 0", ([0.0],), INF, ([0.0],), 0.0),
    Edge(norm, "no square overflows", (np.array([3e30, 4e30], SINGLE),), SINGLE(5), (np.array([3, 4], SINGLE),), SINGLE(5e30)),
    Edge(norm, "no square vanishes", (np.array([3e-30, 4e-30], SINGLE),), SINGLE(5), (np.array([3, 4], SINGLE),), None),
    Edge(norm, "of nothing is 0", (np.zeros((2, 0)),), [1.0, 1.0], (np.zeros((2, 0)),), [0.0, 0.0], {"axis": 1}),
    Edge(norm, "one infinity", ([-INF, 1.0],), 2.0, ([NAN, 0.0],), INF),
    Edge(norm, "NaN stays NaN", ([NAN, 1.0],), 2.0, ([NAN, NAN],), NAN),
    Edge(norm, "float16 sums in float32", (np.full(4096, 64, np.float16),), np.float16(64), (np.ones(4096, np.float16),), np.float16(4096)),
]  # fmt: skip
