"""Cases of `ops/exponential.py`. What only relative digits show stands in the tests of the family."""

import numpy as np

from ..exponential import erf, erfc, expm1, log1p, sigmoid, softplus
from .arithmetic import gaussian, positive, single
from .case import Case, Edge

INF, NAN = np.inf, np.nan
HALF = np.float16


def tails(rng):
    """Far on both sides of 0."""
    return (rng.uniform(3, 8, size=6) * np.array([1, -1] * 3),)


CASES = [case for op in (expm1, sigmoid, softplus, erf, erfc) for case in single(op, gaussian)]
CASES += [*single(log1p, positive), Case(log1p, "below 0", lambda rng: (-rng.uniform(0.2, 0.8, size=4),))]
CASES += [Case(op, "tails", tails) for op in (sigmoid, softplus)]

EDGES = [
    Edge(expm1, "at both ends", ([-INF, 0.0, INF],), [2.0, 2.0, 2.0], ([0.0, 2.0, INF],), [-1.0, 0.0, INF]),
    Edge(expm1, "far below 0 the slope keeps its digits", ([-60.0],), [np.exp(60.0)], ([1.0],), [-1.0]),
    Edge(log1p, "at −1, 0 and ∞", ([-1.0, 0.0, INF],), [2.0, 2.0, 2.0], ([INF, 2.0, 0.0],), [-INF, 0.0, INF]),
    Edge(log1p, "close to −1", ([2.0**-50 - 1],), [2.0**-50], ([1.0],), [-50 * np.log(2)]),
    Edge(sigmoid, "saturated", ([-INF, -1000.0, 0.0, 1000.0, INF],), [4.0] * 5, ([0.0, 0.0, 1.0, 0.0, 0.0],), [0.0, 0.0, 0.5, 1.0, 1.0]),
    Edge(sigmoid, "the slope keeps its digits on both sides", ([-60.0, 60.0],), [np.exp(60.0)] * 2, ([1.0, 1.0],), [0.0, 1.0]),
    Edge(sigmoid, "float16 has its tails", (np.array([-12.0, 12.0], HALF),), np.array([5e4, 5e4], HALF),
         (np.array([5e4 * np.exp(-12)] * 2, HALF),), np.array([np.exp(-12), 1], HALF)),
    Edge(softplus, "far out", ([-INF, -1000.0, 0.0, 1000.0, INF],), [2.0] * 5, ([0.0, 0.0, 1.0, 2.0, 2.0],),
         [0.0, 0.0, np.log(2), 1000.0, INF]),
    Edge(softplus, "far below 0 the slope keeps its digits", ([-60.0],), [np.exp(60.0)], ([1.0],)),
    Edge(erf, "at both ends", ([-INF, -1e30, 0.0, INF],), [1.0] * 4, ([0.0, 0.0, 2 / np.sqrt(np.pi), 0.0],), [-1.0, -1.0, 0.0, 1.0]),
    Edge(erfc, "at both ends", ([-INF, 0.0, 1e30, INF],), [1.0] * 4, ([0.0, -2 / np.sqrt(np.pi), 0.0, 0.0],), [2.0, 1.0, 0.0, 0.0]),
    *[Edge(op, "NaN stays NaN", ([NAN, 0.0],), [1.0, 0.0], ([NAN, 0.0],)) for op in (expm1, log1p, sigmoid, softplus, erf, erfc)],
]  # fmt: skip
