"""Cases of `ops/selection.py`."""

import numpy as np

from ..selection import where
from .case import Case, Edge

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
]  # fmt: skip
