"""Cases of `ops/solve.py`."""

import numpy as np

from ..solve import det, inv, inverse, slogdet, solve
from .case import Case, Edge
from .linalg import spread, system

INF = np.inf

SHAPES = {"two": (2, 2), "stack": (2, 3, 3), "empty stack": (0, 2, 2)}


def mixed(shape):
    """Well-conditioned matrices, every second one with a negative determinant, with the largest entries off the diagonal."""

    def make(rng):
        a = spread(rng, shape)
        return (np.roll(a, 1, -2) * np.where(np.arange(shape[-1]) == 0, -1.0, 1.0),)

    return make


CASES = [
    Case(solve, "rows exchanged", lambda rng: (*mixed((3, 3))(rng), rng.normal(size=(3, 2)))),
    system(solve, "transposed", (3, 3), (3, 2), transpose=True),
    system(solve, "stack, vector, transposed", (2, 2, 2), (2,), transpose=True),
    system(solve, "stack, matrix", (2, 2, 2), (2, 2)),
    system(solve, "empty stack", (0, 2, 2), (0, 2, 1)),
    *[Case(op, label, mixed(shape)) for op in (inverse, slogdet) for label, shape in SHAPES.items()],
]

FACE_CASES = [
    *[Case(inv, label, mixed(SHAPES[label])) for label in ("two", "stack")],
    *[Case(det, label, mixed(shape)) for label, shape in SHAPES.items()],
]

EDGES = [
    Edge(solve, "of numbers: b/a", ([[2.0]], [3.0]), [4.0], ([[-3.0]], [2.0]), [1.5]),
    Edge(solve, "by nought", ([[0.0]], [1.0]), [1.0], ([[-INF]], [INF]), [INF]),
    Edge(solve, "a singular matrix leaves the others of the stack alone", ([[[0.0]], [[2.0]]], [2.0]), [[1.0], [4.0]],
         ([[[-INF]], [[-2.0]]], None), [[INF], [1.0]]),
    Edge(inverse, "of a number: 1/a", ([[2.0]],), [[4.0]], ([[-1.0]],), [[0.5]]),
    Edge(inverse, "of nought", ([[0.0]],), [[1.0]], ([[-INF]],), [[INF]]),
    Edge(slogdet, "of a number: log |a|", ([[-4.0]],), (5.0, 2.0), ([[-0.5]],), (-1.0, np.log(4))),
    Edge(slogdet, "of nought", ([[0.0]],), (0.0, 1.0), ([[INF]],), (0.0, -INF)),
    Edge(slogdet, "of nothing: log 1", (np.zeros((0, 0)),), (1.0, 1.0), (np.zeros((0, 0)),), (1.0, 0.0)),
]  # fmt: skip
