"""Cases of `ops/swiglu.py`."""

import numpy as np

from ..swiglu import swiglu
from .case import Case, Edge, normal

INF, NAN = np.inf, np.nan
HALF = np.float16

CASES = [
    Case(swiglu, "matrix", normal((3, 4), (3, 4))),
    Case(swiglu, "scalar", normal((), ())),
    Case(swiglu, "nothing", normal((0, 3), (0, 3))),
    Case(swiglu, "tails", lambda rng: (rng.choice((-1.0, 1.0), size=6) * rng.uniform(3, 8, size=6), rng.normal(size=6))),
]

EDGES = [
    Edge(swiglu, "infinities of the gate", ([-INF, INF, 0.0], [3.0, 3.0, 3.0]), [2.0, 2.0, 2.0], ([0.0, 6.0, 3.0], [0.0, INF, 0.0]),
         [0.0, INF, 0.0]),
    Edge(swiglu, "a gate far open or shut", ([1000.0, -1000.0], [3.0, 3.0]), [2.0, 2.0], ([6.0, 0.0], [2000.0, 0.0]), [3000.0, 0.0]),
    Edge(swiglu, "NaN stays in its place", ([NAN, 0.0], [1.0, NAN]), [2.0, 2.0], ([NAN, NAN], [NAN, 0.0]), [NAN, NAN]),
    Edge(swiglu, "float16 products that would overflow", (np.array([0], HALF), np.array([300], HALF)), np.array([300], HALF),
         (np.array([45000], HALF), np.array([0], HALF)), np.array([0], HALF)),
]  # fmt: skip
