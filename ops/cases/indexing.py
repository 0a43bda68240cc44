"""Cases of `ops/indexing.py`."""

import numpy as np

from ..indexing import index, index_transpose, take, take_along_axis, take_along_axis_transpose, take_transpose
from ..keys import IDS
from .case import Case, Edge

NAN = np.nan
ALL = (None, None, None)


def ids_for(n, *shape):
    """Indices of either sign into an axis of n; with more of them than n, some repeat."""
    return lambda rng: rng.integers(-n, n, size=shape)


def lookup(op, label, shape, ids, /, **statics):
    return Case(op, label, lambda rng: (rng.normal(size=shape), ids(rng)), statics)


CASES = [
    lookup(take, "rows", (3, 2), ids_for(3, 5)),
    lookup(take, "a grid of rows", (3, 2), ids_for(3, 2, 4)),
    lookup(take, "one row", (3, 2), ids_for(3)),
    lookup(take, "last axis", (2, 3), ids_for(3, 4), axis=-1),
    lookup(take, "middle axis, grid", (2, 3, 2), ids_for(3, 2, 2), axis=1),
    lookup(take, "no rows", (3, 2), ids_for(3, 0)),
    Case(take, "a Python index", lambda rng: (rng.normal(size=(3, 2)), -1)),
    lookup(take_transpose, "rows", (5, 2), ids_for(3, 5), axis=0, size=3),
    lookup(take_transpose, "middle axis, grid", (2, 3, 4, 2), ids_for(5, 3, 4), axis=1, size=5),
    lookup(take_transpose, "one row", (2,), ids_for(3), axis=0, size=3),
    lookup(take_along_axis, "rows", (3, 4), ids_for(4, 3, 6), axis=1),
    lookup(take_along_axis, "columns", (3, 4), ids_for(3, 2, 4), axis=0),
    lookup(take_along_axis, "negative axis, three axes", (2, 3, 4), ids_for(4, 2, 3, 1), axis=-1),
    lookup(take_along_axis, "ids broadcast", (3, 4), ids_for(4, 1, 2), axis=1),
    lookup(take_along_axis, "x broadcasts", (1, 4), ids_for(4, 3, 2), axis=1),
    lookup(take_along_axis, "vector", (4,), ids_for(4, 6), axis=0),
    lookup(take_along_axis, "no ids", (3, 4), ids_for(4, 3, 0), axis=1),
    lookup(take_along_axis_transpose, "rows", (3, 6), ids_for(4, 3, 6), axis=1, size=4),
    lookup(take_along_axis_transpose, "first axis", (5, 2), ids_for(3, 5, 2), axis=0, size=3),
    lookup(take_along_axis_transpose, "ids broadcast", (3, 2), ids_for(4, 1, 2), axis=1, size=4),
    lookup(index, "one array", (3, 2), ids_for(3, 5), key=(IDS,)),
    lookup(index, "one index", (3, 2), ids_for(3), key=(IDS,)),
    lookup(index, "last axis behind a slice", (4, 3), ids_for(3, 5), key=((1, 3, None), IDS)),
    lookup(index, "two arrays side by side", (3, 3, 2), ids_for(3, 2, 5), key=(IDS, IDS)),
    lookup(index, "two arrays apart: their axes lead", (3, 2, 3), ids_for(3, 2, 5), key=(IDS, ALL, IDS)),
    lookup(index, "a new axis and a step back", (3, 4), ids_for(3, 2, 2), key=(None, IDS, (None, None, -1))),
    lookup(index, "apart by a ... of no axes", (3, 3), ids_for(3, 2, 4), key=(None, IDS, ..., IDS)),
    lookup(index, "a slice alone", (4, 2), lambda rng: None, key=((1, 3, None),)),
    lookup(index, "no ids", (3, 2), ids_for(3, 0), key=(IDS,)),
    lookup(index_transpose, "one array", (5, 2), ids_for(3, 5), key=(IDS,), shape=(3, 2)),
    lookup(index_transpose, "a slice alone", (2, 2), lambda rng: None, key=((1, 3, None),), shape=(4, 2)),
    lookup(index_transpose, "two arrays apart", (5, 2), ids_for(3, 2, 5), key=(IDS, ALL, IDS), shape=(3, 2, 3)),
]

HALF = np.float16

EDGES = [
    Edge(take, "a repeated index adds up", ([0.1], [0, 0]), [0.2, 0.3], ([0.5], None), [0.1, 0.1]),
    Edge(take, "negative indices count from the end", ([1.0, 2.0, 3.0], [-1, 2, -3]),
         [1.0, 10.0, 100.0], ([100.0, 0.0, 11.0], None), [3.0, 3.0, 1.0]),
    Edge(take, "out of range: NaN, and no cotangent", ([1.0, 2.0, 3.0], [3, -4, 1]),
         [1.0, 10.0, 100.0], ([0.0, 100.0, 0.0], None), [NAN, NAN, 2.0]),
    Edge(take, "out of range: the fill", ([1.0, 2.0], [7, 0]),
         [1.0, 10.0], ([10.0, 0.0], None), [0.0, 1.0], {"fill": 0.0}),
    Edge(take, "narrow ids reach a long axis", (np.arange(300.0), np.array([-1, 120], np.int8)),
         [1.0, 2.0], (None, None), [299.0, 120.0]),
    Edge(take, "repeats of float16 add up in float32", (np.zeros(1, HALF), np.zeros(4096, int)),
         np.ones(4096, HALF), (np.array([4096], HALF), None)),
    Edge(take_transpose, "out of range: dropped, and 0 back", ([1.0, 10.0], [5, 0]),
         [3.0, 4.0], ([0.0, 3.0], None), [10.0, 0.0], {"axis": 0, "size": 2}),
    Edge(take_along_axis, "repeats add up row by row", ([[1.0, 2.0], [3.0, 4.0]], [[0, 0, 1], [1, 1, 1]]),
         [[1.0, 2.0, 4.0], [5.0, 5.0, 5.0]], ([[3.0, 4.0], [0.0, 15.0]], None), [[1.0, 1.0, 2.0], [4.0, 4.0, 4.0]], {"axis": 1}),
    Edge(take_along_axis, "out of range: NaN, and no cotangent", ([[1.0, 2.0]], [[2, -3, -1]]),
         [[1.0, 10.0, 100.0]], ([[0.0, 100.0]], None), [[NAN, NAN, 2.0]], {"axis": 1}),
    Edge(take_along_axis_transpose, "out of range: dropped, and 0 back", ([[1.0, 10.0]], [[2, 0]]),
         [[3.0, 4.0]], ([[0.0, 3.0]], None), [[10.0, 0.0]], {"axis": 1, "size": 2}),
    Edge(index, "out of range: NaN, and no cotangent", ([1.0, 2.0, 3.0], [3, -4, -1]),
         [1.0, 10.0, 100.0], ([0.0, 0.0, 100.0], None), [NAN, NAN, 3.0], {"key": (IDS,)}),
    Edge(index_transpose, "out of range: dropped, and 0 back", ([1.0, 10.0], [5, 0]),
         [3.0, 4.0], ([0.0, 3.0], None), [10.0, 0.0], {"key": (IDS,), "shape": (2,)}),
]  # fmt: skip
