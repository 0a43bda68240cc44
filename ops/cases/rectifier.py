"""Cases of `ops/rectifier.py`."""

import numpy as np

from ..rectifier import clip, elu, leaky_relu, relu
from .arithmetic import apart, single
from .case import Case, Edge

INF, NAN = np.inf, np.nan


def matrix(rng):
    return (apart(rng, (2, 3)),)


def spread(rng, shape):
    """Below −1, between −1 and 1, and above 1, at least 0.3 from either, as values of x or around them."""
    return rng.choice((-2.0, 0.0, 2.0), size=shape) + rng.uniform(-0.5, 0.5, size=shape)


CASES = [
    *single(relu, apart),
    *single(leaky_relu, apart),
    Case(leaky_relu, "a steeper left side", matrix, {"negative_slope": 1.5}),
    *single(elu, apart),
    Case(elu, "another height", lambda rng: (apart(rng, (4, 4)),), {"alpha": 0.5}),
    Case(clip, "two numbers", lambda rng: (spread(rng, (3, 4)), -1.0, 1.0)),
    Case(clip, "from below", lambda rng: (spread(rng, (2, 3)), -1.0)),
    Case(clip, "from above", lambda rng: (spread(rng, (2, 3)), None, 1)),
    Case(clip, "not at all", lambda rng: (spread(rng, 3),)),
    Case(clip, "scalars", lambda rng: (np.array(3.0), np.array(-1.0), np.array(1.0))),
    Case(clip, "arrays", lambda rng: (spread(rng, (3, 4)), rng.uniform(-1.2, -0.8, size=(3, 4)), rng.uniform(0.8, 1.2, size=(3, 4)))),
    Case(clip, "bounds that broadcast", lambda rng: (spread(rng, (3, 4)), rng.uniform(-1.2, -0.8, size=(3, 1)), rng.uniform(0.8, 1.2, 4))),
    Case(clip, "bounds that widen", lambda rng: (np.array([2.0, -2.0, 0.1]), -rng.uniform(1, 1.2, size=(2, 1)), rng.uniform(1, 1.2, ()))),
    Case(clip, "bounds that cross", lambda rng: (np.array([-2.0, 0.0, 2.0]), np.array(1.0), np.array([-1.0, -1.0, 3.0]))),
    Case(clip, "empty", lambda rng: (np.zeros((0, 3)), np.zeros(3), 1.0)),
]

EDGES = [
    Edge(relu, "the bend gives 0", ([-2.0, 0.0, 3.0],), [INF, INF, 2.0], ([0.0, 0.0, 2.0],), [0.0, 0.0, 3.0]),
    Edge(relu, "far out", ([-INF, INF],), [2.0, 2.0], ([0.0, 2.0],), [0.0, INF]),
    Edge(relu, "NaN stays NaN", ([NAN],), [1.0], (None,), [NAN]),
    Edge(leaky_relu, "the bend has the left slope", ([-2.0, 0.0, 3.0],), [2.0, 2.0, INF], ([0.5, 0.5, INF],), [-0.5, 0.0, 3.0],
         {"negative_slope": 0.25}),
    Edge(leaky_relu, "far out", ([-INF, INF],), [2.0, 2.0], ([0.02, 2.0],), [-INF, INF]),
    Edge(leaky_relu, "NaN stays NaN", ([NAN],), [1.0], (None,), [NAN]),
    Edge(elu, "the bend has the left slope", ([0.0],), [2.0], ([1.0],), [0.0], {"alpha": 0.5}),
    Edge(elu, "no bend", ([0.0],), [2.0], ([2.0],), [0.0]),
    Edge(elu, "far out", ([-INF, -1000.0, 1000.0, INF, NAN],), [2.0] * 5, ([0.0, 0.0, 2.0, 2.0, NAN],), [-1.0, -1.0, 1000.0, INF, NAN]),
    Edge(clip, "passes at both bounds", ([-1.0, 0.0, 3.0, 6.0, 7.0], 0.0, 6.0), [2.0, 3.0, 4.0, 5.0, INF],
         ([0.0, 3.0, 4.0, 5.0, 0.0], None, None), [0.0, 0.0, 3.0, 6.0, 6.0]),
    Edge(clip, "bounds get what they hold", ([-1.0, 0.0, 6.0, 7.0], [0.0], [6.0]), [INF, 3.0, 5.0, 7.0],
         ([0.0, 3.0, 5.0, 0.0], [INF], [7.0]), [0.0, 0.0, 6.0, 6.0]),
    Edge(clip, "where bounds cross, max", ([0.0, 3.0, 9.0], [5.0], [2.0]), [2.0, 4.0, 8.0], ([0.0] * 3, [0.0], [14.0]), [2.0] * 3),
    Edge(clip, "infinities", ([-INF, INF], -1.0, 1.0), [2.0, 2.0], ([0.0, 0.0], None, None), [-1.0, 1.0]),
    Edge(clip, "NaN stays NaN", ([NAN, 2.0], 0.0, 1.0), [2.0, 2.0], (None, None, None), [NAN, 1.0]),
]  # fmt: skip
