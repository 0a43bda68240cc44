"""Cases of `ops/matmul.py`."""

import numpy as np

from ..matmul import matmul
from .case import Case, Edge, normal

SHAPES = {
    "matrices": ((2, 3), (3, 4)),
    "square matrix, vector": ((3, 3), (3,)),
    "vector, matrix": ((2,), (2, 3)),
    "vectors": ((3,), (3,)),
    "stack, matrix": ((2, 5, 3), (3, 4)),
    "deep stack, matrix": ((2, 2, 5, 3), (3, 4)),
    "matrix, stack": ((5, 3), (2, 3, 4)),
    "stacks": ((2, 5, 3), (2, 3, 4)),
    "stacks that broadcast": ((2, 1, 5, 3), (4, 3, 2)),
    "a stack of one": ((1, 5, 3), (6, 3, 2)),
    "stack, vector": ((2, 5, 3), (3,)),
    "vector, stack": ((3,), (2, 3, 4)),
    "one by one": ((1, 1), (1, 1)),
    "no rows": ((0, 3), (3, 2)),
    "nothing to sum": ((2, 0), (0, 3)),
    "empty stack": ((0, 2, 3), (3, 4)),
}

CASES = [
    *[Case(matmul, label, normal(*shapes)) for label, shapes in SHAPES.items()],
    Case(matmul, "integers", lambda rng: (rng.normal(size=(2, 3)), rng.integers(-3, 4, size=(3, 2)))),
]

EDGES = [
    Edge(matmul, "float16 adds up in float32", (np.ones((1, 4096), np.float16), np.ones((4096, 1), np.float16)),
         np.ones((1, 1), np.float16), (np.ones((1, 4096), np.float16), np.ones((4096, 1), np.float16)), np.array([[4096.0]], np.float16)),
    Edge(matmul, "one row for 4096: the sum hides in the backward", (np.ones((4096, 1), np.float16), np.ones((1, 1), np.float16)),
         np.ones((4096, 1), np.float16), (None, np.array([[4096.0]], np.float16))),
]  # fmt: skip
