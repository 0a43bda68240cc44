"""Cases of `ops/selection.py`."""

import numpy as np

from ..selection import equal, greater, greater_equal, isfinite, isinf, less, less_equal, masked_fill, not_equal, where
from .case import Case, Edge, values

INF, NAN = np.inf, np.nan

PAIRS = {
    "equal": ((2, 3), (2, 3), (2, 3)),
    "row and column": ((3,), (2, 1), (2, 3)),
    "condition widens": ((4, 1, 1), (2, 1), ()),
    "scalars": ((), (), ()),
    "empty": ((0, 1), (3,), (0, 3)),
}

CASES = [
    *[
        Case(where, name, lambda rng, c=c, a=a, b=b: (rng.random(size=c) < 0.5, rng.normal(size=a), rng.normal(size=b)))
        for name, (c, a, b) in PAIRS.items()
    ],
    Case(where, "number", lambda rng: (rng.random(size=(2, 3)) < 0.5, rng.normal(size=(2, 3)), 0.0)),
]

EDGES = [
    Edge(where, "selects: no product with 0", ([True, False], [1.0, NAN], [INF, 2.0]),
         [3.0, INF], (None, [3.0, 0.0], [0.0, INF]), [1.0, 2.0]),
    Edge(where, "a NaN cotangent reaches one side", ([True, False], [1.0, 1.0], [2.0, 2.0]),
         [NAN, 5.0], (None, [NAN, 0.0], [0.0, 5.0])),
    values(equal, "NaN equals nothing", ([1.0, 2.0, NAN], [1.0, 3.0, NAN]), [True, False, False]),
    values(not_equal, "NaN equals nothing", ([1.0, 2.0, NAN], [1.0, 3.0, NAN]), [False, True, True]),
    values(less, "broadcast, a tie, NaN", ([[1.0], [NAN]], [0.0, 1.0, 2.0]), [[False, False, True], [False, False, False]]),
    values(less_equal, "broadcast, a tie, NaN", ([[1.0], [NAN]], [0.0, 1.0, 2.0]), [[False, True, True], [False, False, False]]),
    values(greater, "broadcast, a tie, NaN", ([[1.0], [NAN]], [0.0, 1.0, 2.0]), [[True, False, False], [False, False, False]]),
    values(greater_equal, "broadcast, a tie, NaN", ([[1.0], [NAN]], [0.0, 1.0, 2.0]), [[True, True, False], [False, False, False]]),
    values(isfinite, "of infinities and NaN", ([0.0, INF, -INF, NAN],), [True, False, False, False]),
    values(isinf, "of infinities and NaN", ([0.0, INF, -INF, NAN],), [False, True, True, False]),
]  # fmt: skip

FACE_CASES = [
    Case(masked_fill, "a number", lambda rng: (rng.normal(size=(2, 3)), rng.random(size=(2, 3)) < 0.5), {"value": -1.0}),
    Case(masked_fill, "a mask for every row", lambda rng: (rng.normal(size=(2, 3)), np.array([True, False, True])), {"value": 0.0}),
    Case(masked_fill, "a value of its own", lambda rng: (rng.normal(size=(3,)), np.array([True, False, True]), rng.normal(size=()))),
]
