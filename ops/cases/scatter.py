"""Cases of `ops/scatter.py`, and of the faces of `ops/lookup.py` that stand on it."""

import numpy as np

from ..keys import IDS
from ..lookup import index_fill
from ..scatter import index_add, index_set, segment_sum
from .case import Case, Edge

ALL = (None, None, None)


def ids_for(n, *shape):
    """Indices of either sign into an axis of n; with more of them than n, some repeat."""
    return lambda rng: rng.integers(-n, n, size=shape)


def nothing(rng):
    return None


PLACES = {  # label: (shape of x, ids, shape of y, key)
    "rows, some twice": ((3, 2), ids_for(3, 6), (6, 2), (IDS,)),
    "a grid of ids": ((3,), ids_for(3, 2, 3), (2, 3), (IDS,)),
    "one index": ((3, 2), ids_for(3), (2,), (IDS,)),
    "y broadcasts": ((3, 2), ids_for(3, 4), (4, 1), (IDS,)),
    "y is a scalar": ((4,), ids_for(4, 3), (), (IDS,)),
    "last axis behind a slice": ((4, 3), ids_for(3, 4), (2, 4), ((1, 3, None), IDS)),
    "two arrays apart: their axes lead": ((2, 2, 3), ids_for(2, 2, 5), (5, 2), (IDS, ALL, IDS)),
    "a new axis and a step back": ((3, 4), ids_for(3, 2), (1, 2, 4), (None, IDS, (None, None, -1))),
    "a slice, y broadcasts": ((3, 2), nothing, (2,), ((None, None, -2),)),
    "all of it": ((), nothing, (), ()),
    "no ids": ((3, 2), ids_for(3, 0), (0, 2), (IDS,)),
}


def written(op, label, shape, ids, part, key):
    return Case(op, label, lambda rng: (rng.normal(size=shape), ids(rng), rng.normal(size=part)), {"key": key})


CASES = [
    *[written(index_set, label, *place) for label, place in PLACES.items()],
    *[written(index_add, label, *place) for label, place in PLACES.items() if label not in ("one index", "y is a scalar")],
    *[Case(op, "a number", lambda rng: (rng.normal(size=(3, 2)), np.array([2, 0]), 0.5), {"key": (IDS,)}) for op in (index_set, index_add)],
]

INF, HALF = np.inf, np.float16
KEY = {"key": (IDS,)}

EDGES = [
    Edge(index_set, "the last of several writers stays, and has the cotangent", ([1.0, 2.0, 3.0], [0, 0, -3, 2], [10.0, 20.0, 30.0, 40.0]),
         [5.0, 6.0, 7.0], ([0.0, 6.0, 0.0], None, [0.0, 0.0, 5.0, 7.0]), [30.0, 2.0, 40.0], KEY),
    Edge(index_set, "the last of several pairs", ([[1.0, 2.0], [3.0, 4.0]], [[0, 1, -2, 0], [1, 1, -1, 0]], [10.0, 20.0, 30.0, 40.0]),
         [[5.0, 6.0], [7.0, 8.0]], ([[0.0, 0.0], [7.0, 0.0]], None, [0.0, 8.0, 6.0, 5.0]), [[40.0, 30.0], [3.0, 20.0]],
         {"key": (IDS, IDS)}),
    Edge(index_set, "out of range: nothing is written, and no cotangent", ([1.0, 2.0, 3.0], [0, 3, -4, 2], [10.0, 20.0, 30.0, 40.0]),
         [5.0, 6.0, 7.0], ([0.0, 6.0, 0.0], None, [5.0, 0.0, 0.0, 7.0]), [10.0, 2.0, 40.0], KEY),
    Edge(index_set, "an infinite cotangent stays where the value came from", ([1.0, 2.0], [0], [3.0]),
         [INF, 1.0], ([0.0, 1.0], None, [INF]), [3.0, 2.0], KEY),
    Edge(index_set, "narrow ids reach a long axis", (np.zeros(300), np.array([-1, 120], np.int8), [1.0, 2.0]),
         np.arange(300.0), (None, None, [299.0, 120.0]), None, KEY),
    Edge(index_add, "every writer adds, and has the cotangent", ([1.0, 2.0, 3.0], [0, 0, -3, 2], [10.0, 20.0, 30.0, 40.0]),
         [5.0, 6.0, 7.0], ([5.0, 6.0, 7.0], None, [5.0, 5.0, 5.0, 7.0]), [61.0, 2.0, 43.0], KEY),
    Edge(index_add, "out of range: nothing is added, and no cotangent", ([1.0, 2.0, 3.0], [0, 3, -4, 2], [10.0, 20.0, 30.0, 40.0]),
         [5.0, 6.0, 7.0], ([5.0, 6.0, 7.0], None, [5.0, 0.0, 0.0, 7.0]), [11.0, 2.0, 43.0], KEY),
    Edge(index_add, "float16 adds up in float32", (np.zeros(1, HALF), np.zeros(4096, int), HALF(1)),
         np.array([2.0], HALF), (None, None, HALF(8192)), np.array([4096.0], HALF), KEY),
]  # fmt: skip

FACE_CASES = [
    Case(segment_sum, "rows", lambda rng: (rng.normal(size=(5, 2)), np.array([2, 0, 2, 2, 0])), {"num_segments": 3}),
    Case(segment_sum, "a grid of ids", lambda rng: (rng.normal(size=(2, 3)), rng.integers(0, 4, size=(2, 3))), {"num_segments": 4}),
    Case(segment_sum, "of nothing", lambda rng: (rng.normal(size=(0, 2)), np.zeros(0, int)), {"num_segments": 2}),
    Case(index_fill, "rows", lambda rng: (rng.normal(size=(4, 2)),), {"key": [0, -1, 0], "value": 0.5}),
    Case(index_fill, "a slice", lambda rng: (rng.normal(size=(4,)),), {"key": slice(1, 3), "value": -1.0}),
]
