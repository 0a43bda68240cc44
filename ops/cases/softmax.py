"""Cases of `ops/softmax.py`."""

import jax.numpy as jnp
import numpy as np

from ..softmax import log_softmax, softmax
from .case import Case, Edge, normal

INF, NAN, LOG2 = np.inf, np.nan, np.log(2)
HALF = np.float16

CASES = [
    Case(softmax, "vector", normal((4,))),
    Case(softmax, "rows", normal((2, 3))),
    Case(softmax, "first axis", normal((3, 2)), {"axis": 0}),
    Case(softmax, "middle axis", normal((2, 3, 4)), {"axis": 1}),
    Case(softmax, "one entry", normal((3, 1))),
    Case(softmax, "no rows", normal((0, 3))),
    Case(softmax, "nothing to choose from", normal((2, 0))),
    Case(softmax, "large", lambda rng: (500 + rng.normal(size=(2, 3)),)),
    Case(log_softmax, "vector", normal((4,))),
    Case(log_softmax, "rows", normal((2, 3))),
    Case(log_softmax, "first axis", normal((3, 2)), {"axis": 0}),
    Case(log_softmax, "middle axis", normal((2, 3, 4)), {"axis": 1}),
    Case(log_softmax, "one entry", normal((3, 1))),
    Case(log_softmax, "no rows", normal((0, 3))),
    Case(log_softmax, "nothing to choose from", normal((2, 0))),
    Case(log_softmax, "large", lambda rng: (500 + rng.normal(size=(2, 3)),)),
]

EDGES = [
    Edge(softmax, "−∞ has no share and takes no cotangent", ([0.0, -INF, 0.0],), [3.0, INF, 1.0], ([0.5, 0.0, -0.5],), [0.5, 0.0, 0.5]),
    Edge(softmax, "nothing but −∞ gives zeros, and the other row is its own", ([[-INF, -INF], [0.0, 0.0]],), [[1.0, 2.0], [3.0, 1.0]],
         ([[0.0, 0.0], [0.5, -0.5]],), [[0.0, 0.0], [0.5, 0.5]]),
    Edge(softmax, "far from 0", ([1000.0, 1000.0, -1000.0],), [3.0, 1.0, 5.0], ([0.5, -0.5, 0.0],), [0.5, 0.5, 0.0]),
    Edge(softmax, "NaN stays in its row", ([[NAN, 1.0], [0.0, 0.0]],), [[1.0, 2.0], [3.0, 1.0]],
         ([[NAN, NAN], [0.5, -0.5]],), [[NAN, NAN], [0.5, 0.5]]),
    Edge(softmax, "float16 sums in float32", (np.zeros(4096, HALF),), np.zeros(4096, HALF), (np.zeros(4096, HALF),),
         np.full(4096, 2.0**-12, HALF)),
    Edge(softmax, "bfloat16 sums in float32", (np.zeros(512, jnp.bfloat16),), np.zeros(512, jnp.bfloat16),
         (np.zeros(512, jnp.bfloat16),), np.full(512, 2.0**-9, jnp.bfloat16)),
    Edge(softmax, "float16 cotangents that cancel", (np.zeros(4, HALF),), np.array([4100, 4096, 4096, 4096], HALF),
         (np.array([0.75, -0.25, -0.25, -0.25], HALF),), None),
    Edge(log_softmax, "−∞ has no share", ([0.0, -INF, 0.0],), [3.0, 4.0, 1.0], ([-1.0, 4.0, -3.0],), [-LOG2, -INF, -LOG2]),
    Edge(log_softmax, "nothing but −∞, and the other row is its own", ([[-INF, -INF], [0.0, 0.0]],), [[1.0, 2.0], [3.0, 1.0]],
         ([[1.0, 2.0], [1.0, -1.0]],), [[-INF, -INF], [-LOG2, -LOG2]]),
    Edge(log_softmax, "far from 0", ([1000.0, 1000.0, -1000.0],), [3.0, 1.0, 5.0], ([-1.5, -3.5, 5.0],),
         [-LOG2, -LOG2, -2000 - LOG2]),
    Edge(log_softmax, "NaN stays in its row", ([[NAN, 1.0], [0.0, 0.0]],), [[1.0, 2.0], [3.0, 1.0]],
         ([[NAN, NAN], [1.0, -1.0]],), [[NAN, NAN], [-LOG2, -LOG2]]),
    Edge(log_softmax, "float16 sums in float32", (np.zeros(3, HALF),), np.full(3, 30000, HALF), (np.zeros(3, HALF),),
         np.full(3, -np.log(3), HALF)),
]  # fmt: skip
