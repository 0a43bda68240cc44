"""Cases of `ops/linear.py`."""

import numpy as np

from ..linear import linear
from .case import Case, Edge, normal

HALF = np.float16

CASES = [
    Case(linear, "rows, bias", normal((5, 3), (4, 3), (4,))),
    Case(linear, "rows", normal((5, 3), (4, 3))),
    Case(linear, "square", normal((3, 3), (3, 3), (3,))),
    Case(linear, "vector, bias", normal((3,), (4, 3), (4,))),
    Case(linear, "stack, bias", normal((2, 2, 5, 3), (4, 3), (4,))),
    Case(linear, "no rows", normal((0, 3), (4, 3), (4,))),
    Case(linear, "no inputs", normal((2, 0), (4, 0), (4,))),
]

EDGES = [
    Edge(linear, "the bias's sum hides in the backward: float16 adds up in float32", (np.zeros((4096, 1), HALF), np.ones((1, 1), HALF),
         np.zeros(1, HALF)), np.ones((4096, 1), HALF), (np.ones((4096, 1), HALF), np.zeros((1, 1), HALF), np.full(1, 4096, HALF)),
         np.zeros((4096, 1), HALF)),
]  # fmt: skip
