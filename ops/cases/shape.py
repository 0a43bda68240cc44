"""Cases of `ops/shape.py`."""

import numpy as np

from ..shape import broadcast_to, reshape, sum_to, transpose
from .case import Case, Edge, normal


def case(op, label, whole, /, **statics):
    return Case(op, label, normal(whole), statics)


CASES = [
    case(reshape, "flat", (2, 3), shape=(6,)),
    case(reshape, "a number for a shape", (2, 3), shape=6),
    case(reshape, "one entry left open", (2, 3, 2), shape=(3, -1)),
    case(reshape, "to a scalar", (1, 1), shape=()),
    case(reshape, "from a scalar", (), shape=(1, 1)),
    case(reshape, "empty", (0, 4), shape=(2, 0)),
    case(transpose, "reversed", (2, 3, 4)),
    case(transpose, "cycle", (2, 3, 4), axes=(1, 2, 0)),
    case(transpose, "negative axes", (2, 3, 4), axes=(0, -1, 1)),
    case(transpose, "scalar", (), axes=()),
    case(transpose, "empty", (0, 3)),
    case(broadcast_to, "new axis", (3,), shape=(2, 3)),
    case(broadcast_to, "size one", (2, 1), shape=(2, 3)),
    case(broadcast_to, "both", (2, 1), shape=(4, 2, 3)),
    case(broadcast_to, "scalar", (), shape=(2, 2)),
    case(broadcast_to, "to nothing", (1, 3), shape=(0, 3)),
    case(broadcast_to, "same", (2, 3), shape=(2, 3)),
    case(sum_to, "lead", (4, 2, 3), shape=(2, 3)),
    case(sum_to, "size one", (2, 3), shape=(2, 1)),
    case(sum_to, "both", (4, 2, 3), shape=(1, 3)),
    case(sum_to, "scalar", (2, 3), shape=()),
    case(sum_to, "ones to a scalar", (1, 1), shape=()),
    case(sum_to, "same", (2, 3), shape=(2, 3)),
    case(sum_to, "of nothing", (0, 3), shape=(1, 3)),
]

EDGES = [
    Edge(sum_to, "float16 sums in float32", (np.ones((4096, 2), np.float16),), np.array([2.0, 3.0], np.float16), (None,),
         np.array([4096.0, 4096.0], np.float16), {"shape": (2,)}),
    Edge(broadcast_to, "float16 cotangents sum in float32", (np.zeros((1,), np.float16),), np.ones((4096, 1), np.float16),
         (np.array([4096.0], np.float16),), None, {"shape": (4096, 1)}),
]  # fmt: skip
