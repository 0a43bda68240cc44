"""Cases of `ops/sorting.py`."""

import numpy as np

from ..sorting import argsort, sort, top_k
from .case import Case, values
from .reduction import spread

CASES = []

INF, NAN = np.inf, np.nan

EDGES = [
    values(argsort, "ties keep their order", ([2.0, 1.0, 2.0, 1.0],), [1, 3, 0, 2]),
    values(argsort, "ties keep their order, descending", ([2.0, 1.0, 2.0, 1.0],), [0, 2, 1, 3], descending=True),
    values(argsort, "NaN is the largest", ([NAN, INF, -INF],), [2, 1, 0]),
    values(argsort, "first axis", ([[1.0, 0.0], [0.0, 1.0]],), [[1, 0], [0, 1]], axis=0),
    values(argsort, "flattened", ([[1.0, 0.0], [-1.0, 3.0]],), [2, 1, 0, 3], axis=None),
    values(argsort, "of nothing", (np.zeros((2, 0)),), np.zeros((2, 0))),
]

FACE_CASES = [
    Case(sort, "last axis", spread((2, 4))),
    Case(sort, "first axis, descending", spread((3, 2)), {"axis": 0, "descending": True}),
    Case(sort, "middle axis", spread((2, 3, 2)), {"axis": -2}),
    Case(sort, "flattened", spread((2, 3)), {"axis": None}),
    Case(sort, "of nothing", spread((2, 0))),
    Case(top_k, "last axis", spread((2, 5)), {"k": 2}),
    Case(top_k, "smallest of the first axis", spread((4, 2)), {"k": 3, "axis": 0, "largest": False}),
    Case(top_k, "all of a middle axis", spread((2, 3, 2)), {"k": 3, "axis": 1}),
    Case(top_k, "none", spread((3,)), {"k": 0}),
]
