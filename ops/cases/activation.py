"""Cases of `ops/activation.py`."""

import numpy as np

from ..activation import gelu
from .case import Case, Edge, normal

INF, NAN, HALF = np.inf, np.nan, np.float16

CASES = [
    Case(gelu, "matrix", normal((3, 4))),
    Case(gelu, "scalar", normal(())),
    Case(gelu, "nothing", normal((0, 3))),
    Case(gelu, "tails", lambda rng: (rng.choice((-1.0, 1.0), size=8) * rng.uniform(3, 6, size=8),)),
]

EDGES = [
    Edge(gelu, "infinities are limits", ([-INF, INF, 0.0],), [2.0, 2.0, 2.0], ([0.0, 2.0, 1.0],), [0.0, INF, 0.0]),
    Edge(gelu, "cubes that overflow", ([-1e30, 1e30, -30.0, 30.0],), [2.0] * 4, ([0.0, 2.0, 0.0, 2.0],), [0.0, 1e30, 0.0, 30.0]),
    Edge(gelu, "in the tail of float16 1 + t is not lost", (np.array([-4.0], HALF),), np.array([1e3], HALF),
         (np.array([-0.33512320], HALF),)),
    Edge(gelu, "NaN stays NaN", ([NAN, 0.0],), [2.0, 2.0], ([NAN, 1.0],), [NAN, 0.0]),
]  # fmt: skip
