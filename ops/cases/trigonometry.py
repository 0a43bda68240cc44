"""Cases of `ops/trigonometry.py`."""

import numpy as np

from ..trigonometry import arccos, arcsin, arcsinh, arctan, arctanh, cos, cosh, sin, sinh, tan
from .arithmetic import gaussian, single
from .case import Case, Edge

INF, NAN = np.inf, np.nan


def inside(rng, shape):
    """Inside −1 … 1."""
    return rng.uniform(-0.8, 0.8, size=shape)


CASES = [case for op in (sin, cos, tan, arctan, sinh, cosh, arcsinh) for case in single(op, gaussian)]
CASES += [case for op in (arcsin, arccos, arctanh) for case in single(op, inside)]
CASES += [Case(op, "far out", lambda rng: (rng.uniform(5, 20, size=4) * [1, -1, 1, -1],)) for op in (arctan, arcsinh)]

HALF = np.float16

EDGES = [
    Edge(sin, "quarter turns", ([0.0, np.pi / 2, -np.pi],), [2.0, 2.0, 2.0], ([2.0, 0.0, -2.0],), [0.0, 1.0, 0.0]),
    Edge(cos, "quarter turns", ([0.0, np.pi / 2, -np.pi],), [2.0, 2.0, 2.0], ([0.0, -2.0, 0.0],), [1.0, 0.0, -1.0]),
    *[Edge(op, "no limit at ±∞", ([INF, -INF, NAN],), [1.0] * 3, ([NAN] * 3,), [NAN] * 3) for op in (sin, cos, tan)],
    Edge(tan, "at 0 and an eighth", ([0.0, np.pi / 4],), [3.0, 3.0], ([3.0, 6.0],), [0.0, 1.0]),
    Edge(arcsin, "at ±1 the slope is infinite", ([-1.0, 0.0, 1.0],), [2.0, 2.0, -2.0], ([INF, 2.0, -INF],), [-np.pi / 2, 0.0, np.pi / 2]),
    Edge(arcsin, "at 1 a zero cotangent gives NaN; nothing beyond", ([1.0, 2.0],), [0.0, 1.0], ([NAN, NAN],), [np.pi / 2, NAN]),
    Edge(arccos, "at ±1 the slope is infinite", ([-1.0, 0.0, 1.0],), [2.0, 2.0, -2.0], ([-INF, -2.0, INF],), [np.pi, np.pi / 2, 0.0]),
    Edge(arccos, "close to 1", ([1 - 2.0**-40],), [2.0**-20], ([-1 / np.sqrt(2 - 2.0**-40)],)),
    Edge(arctan, "levels off", ([-INF, 0.0, INF],), [2.0, 2.0, 2.0], ([0.0, 2.0, 0.0],), [-np.pi / 2, 0.0, np.pi / 2]),
    Edge(arctan, "float16 squares in float32", (np.array([300.0], HALF),), np.array([60000], HALF), (np.array([60000 / 90001], HALF),)),
    Edge(sinh, "runs off", ([-INF, 0.0, INF],), [2.0, 2.0, 2.0], ([INF, 2.0, INF],), [-INF, 0.0, INF]),
    Edge(cosh, "runs off", ([-INF, 0.0, INF],), [2.0, 2.0, 2.0], ([-INF, 0.0, INF],), [INF, 1.0, INF]),
    Edge(arcsinh, "levels off", ([-INF, 0.0, INF],), [2.0, 2.0, 2.0], ([0.0, 2.0, 0.0],), [-INF, 0.0, INF]),
    Edge(arctanh, "at ±1", ([-1.0, 0.0, 1.0],), [2.0, 2.0, 2.0], ([INF, 2.0, INF],), [-INF, 0.0, INF]),
    Edge(arctanh, "close to −1", ([2.0**-40 - 1],), [2.0**-40], ([1 / (2 - 2.0**-40)],)),
]  # fmt: skip
