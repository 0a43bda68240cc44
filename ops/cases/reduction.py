"""Cases of `ops/reduction.py`."""

import numpy as np

from ..reduction import all, any, argmax, argmin, count, count_nonzero, logsumexp, max, mean, min, sum
from .case import Case, Edge, normal

INF, NAN = np.inf, np.nan

WAYS = {  # label: (shape, statics)
    "all": ((2, 3), {}),
    "axis": ((2, 3, 4), {"axis": 1}),
    "negative axis kept": ((2, 3), {"axis": -1, "keepdims": True}),
    "two axes": ((2, 3, 4), {"axis": (0, -1)}),
    "two axes kept": ((2, 3, 4), {"axis": (2, 0), "keepdims": True}),
    "scalar": ((), {}),
    "size one": ((3, 1), {"axis": 1}),
    "no axis": ((2, 3), {"axis": ()}),
    "no rows": ((0, 3), {"axis": 1}),
}


def spread(shape):
    """Distinct values, far apart: no two trade places under a small step."""
    n = int(np.prod(shape))
    return lambda rng: ((rng.permutation(n) - n / 2 + rng.uniform(-0.2, 0.2, size=n)).reshape(shape),)


CASES = [
    *[Case(op, label, normal(shape), statics) for op in (sum, mean, logsumexp) for label, (shape, statics) in WAYS.items()],
    *[Case(op, label, spread(shape), statics) for op in (max, min) for label, (shape, statics) in WAYS.items()],
    Case(sum, "of nothing", normal((0, 3)), {"axis": 0}),
    Case(mean, "integers", lambda rng: (rng.integers(0, 9, size=(2, 3)),), {"axis": 0}),
    Case(logsumexp, "large", lambda rng: (500 + rng.normal(size=(2, 3)),), {"axis": -1}),
]

HALF = np.float16

EDGES = [
    Edge(sum, "of nothing is 0", (np.zeros(0),), 2.0, (np.zeros(0),), 0.0),
    Edge(sum, "float16 sums in float32", (np.ones(4096, HALF),), HALF(2), (np.full(4096, 2, HALF),), HALF(4096)),
    Edge(mean, "of nothing is NaN", (np.zeros(0),), 2.0, (np.zeros(0),), NAN),
    Edge(mean, "float16 sums in float32", (np.full(4096, 16, HALF),), HALF(2), (None,), HALF(16)),
    Edge(max, "two ties share", ([0.6, 0.6, 0.3],), 1.0, ([0.5, 0.5, 0.0],), 0.6),
    Edge(max, "ties row by row", ([[1.0, 1.0], [2.0, 3.0]],), [1.0, 1.0], ([[0.5, 0.5], [0.0, 1.0]],), [1.0, 3.0], {"axis": 1}),
    Edge(min, "three ties share", ([[4.0, 4.0, 4.0, 9.0]],), [[3.0]], ([[1.0, 1.0, 1.0, 0.0]],), [[4.0]], {"axis": 1, "keepdims": True}),
    Edge(max, "an infinite cotangent goes to the largest alone", ([1.0, 2.0],), INF, ([0.0, INF],), 2.0),
    Edge(min, "an infinite cotangent goes to the smallest alone", ([1.0, 2.0],), INF, ([INF, 0.0],), 1.0),
    Edge(max, "of infinities", ([-INF, -INF],), 2.0, ([1.0, 1.0],), -INF),
    Edge(logsumexp, "nothing but −∞", ([-INF, -INF],), 2.0, ([0.0, 0.0],), -INF),
    Edge(logsumexp, "one −∞", ([-INF, 1.0],), 2.0, ([0.0, 2.0],), 1.0),
    Edge(logsumexp, "far from 0", ([1000.0, 1000.0],), 2.0, ([1.0, 1.0],), 1000 + np.log(2)),
    Edge(logsumexp, "one +∞", ([INF, 1.0],), 2.0, ([2.0, 0.0],), INF),
    Edge(logsumexp, "two +∞ and a −∞", ([INF, INF, -INF],), 2.0, ([1.0, 1.0, 0.0],), INF),
    Edge(logsumexp, "float16 sums in float32", (np.zeros(70000, HALF),), HALF(35000), (np.full(70000, 0.5, HALF),), HALF(np.log(70000))),
    Edge(logsumexp, "one row of −∞ leaves the other alone", ([[-INF, -INF], [0.0, 0.0]],), [2.0, 2.0],
         ([[0.0, 0.0], [1.0, 1.0]],), [-INF, np.log(2)], {"axis": 1}),
    Edge(logsumexp, "NaN stays NaN", ([NAN, 1.0],), 2.0, ([NAN, NAN],), NAN),
    *[Edge(op, "rows", ([[0.0, NAN, 2.0], [0.0, 0.0, 0.0]],), None, (None,), [2, 0], {"axis": 1}) for op in (count_nonzero, count)],
    *[Edge(op, "all, kept", ([[0.0, 1.0], [3.0, 4.0]],), None, (None,), [[3]], {"keepdims": True}) for op in (count_nonzero, count)],
    *[Edge(op, "of nothing", (np.zeros(0),), None, (None,), 0) for op in (count_nonzero, count)],
    Edge(any, "rows", ([[0.0, NAN], [0.0, 0.0]],), None, (None,), [True, False], {"axis": 1}),
    Edge(any, "of nothing is false", (np.zeros((2, 0)),), None, (None,), [[False], [False]], {"axis": -1, "keepdims": True}),
    Edge(all, "columns", ([[1.0, 0.0], [NAN, 2.0]],), None, (None,), [True, False], {"axis": 0}),
    Edge(all, "of nothing is true", (np.zeros((2, 0)),), None, (None,), True),
    Edge(argmax, "the first of those that tie", ([[1.0, 2.0, 2.0], [5.0, 4.0, 5.0]],), None, (None,), [1, 0], {"axis": 1}),
    Edge(argmax, "of the flattened array", ([[1.0, 2.0], [INF, 0.0]],), None, (None,), 2),
    Edge(argmin, "the first of those that tie", ([[1.0, 1.0], [5.0, 4.0]],), None, (None,), [[0], [1]], {"axis": 1, "keepdims": True}),
    Edge(argmin, "of the flattened array", ([[1.0, 2.0], [0.0, -INF]],), None, (None,), 3),
    Edge(logsumexp, "of nothing is −∞", (np.zeros((2, 0)),), [1.0, 1.0], (np.zeros((2, 0)),), [-INF, -INF], {"axis": 1}),
]  # fmt: skip
