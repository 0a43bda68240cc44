"""Cases of `ops/statistics.py`."""

import numpy as np

from ..statistics import std, var
from .case import Case, Edge, normal

NAN = np.nan

WAYS = {  # label: (shape, statics)
    "all": ((2, 3), {}),
    "rows, unbiased": ((2, 4), {"axis": 1, "correction": 1}),
    "middle axis kept": ((2, 3, 2), {"axis": -2, "keepdims": True}),
    "axes apart": ((2, 2, 3), {"axis": (0, -1), "correction": 1}),
    "half a degree": ((4,), {"correction": 0.5}),
    "half a degree left": ((2,), {"correction": 1.5}),
    "no rows": ((0, 3), {"axis": 1}),
}

CASES = [
    *[Case(op, label, normal(shape), statics) for op in (var, std) for label, (shape, statics) in WAYS.items()],
    *[Case(op, "far from 0", lambda rng: (50 + rng.normal(size=(2, 3)),), {"axis": 1}) for op in (var, std)],
    *[Case(op, "integers", lambda rng: (rng.integers(0, 9, size=(2, 3)),), {"axis": 0}) for op in (var, std)],
    Case(var, "scalar", normal(())),
    Case(var, "size one", normal((3, 1)), {"axis": 1}),
]

SINGLE, HALF = np.float32, np.float16
FAR = np.array([[0, 0, 0, 0], [16777216, 16777218, 16777220, 16777222]], SINGLE)  # float32 neighbours beside a row at 0
THREES = np.array([[0, 0, 0, 0], [-3, -1, 1, 3]], SINGLE)
WIDE = np.array([-60000, 60000], HALF)  # their distance is none

EDGES = [
    Edge(var, "1, 3", ([1.0, 3.0],), 3.0, ([-3.0, 3.0],), 1.0),
    Edge(var, "1, 3, unbiased", ([1.0, 3.0],), 3.0, ([-6.0, 6.0],), 2.0, {"correction": 1}),
    Edge(var, "two passes: neighbours far from 0", (FAR,), np.array([0, 2], SINGLE), (THREES,), np.array([0, 5], SINGLE), {"axis": 1}),
    Edge(std, "two passes: neighbours far from 0", (FAR,), np.array([0, np.sqrt(80)], SINGLE), (THREES,), np.array([0, np.sqrt(5)], SINGLE),
         {"axis": 1}),
    Edge(var, "float16 in float32", (WIDE,), HALF(0.25), (np.array([-15000, 15000], HALF),)),
    Edge(std, "float16 in float32", (WIDE,), HALF(4), (np.array([-2, 2], HALF),), HALF(60000)),
    Edge(var, "a constant row gives exactly 0", (np.full(7, 0.1, SINGLE),), SINGLE(2), (np.zeros(7, SINGLE),), SINGLE(0)),
    Edge(var, "nothing left to divide by is NaN", ([2.0],), 1.0, ([NAN],), NAN, {"correction": 1}),
    Edge(var, "of nothing is NaN", (np.zeros((2, 0)),), [1.0, 1.0], (np.zeros((2, 0)),), [NAN, NAN], {"axis": 1}),
    Edge(std, "1, 3", ([1.0, 3.0],), 3.0, ([-1.5, 1.5],), 1.0),
    Edge(std, "1, 5, unbiased", ([1.0, 5.0],), 2.0, ([-np.sqrt(2), np.sqrt(2)],), 2 * np.sqrt(2), {"correction": 1}),
    Edge(std, "a constant row", (np.full(7, 0.1, SINGLE),), SINGLE(2), (np.zeros(7, SINGLE),), SINGLE(0)),
    Edge(std, "of one element", ([2.0],), 3.0, ([0.0],), 0.0),
    Edge(std, "a constant row leaves the other alone", ([[4.0, 4.0], [1.0, 3.0]],), [5.0, 3.0], ([[0.0, 0.0], [-1.5, 1.5]],),
         [0.0, 1.0], {"axis": 1}),
    Edge(std, "an infinite cotangent at a constant row", ([2.0, 2.0],), np.inf, ([0.0, 0.0],), 0.0),
    Edge(std, "no square overflows", (np.array([1e30, 3e30], SINGLE),), SINGLE(3), (np.array([-1.5, 1.5], SINGLE),), SINGLE(1e30)),
    Edge(std, "nothing left to divide by is NaN", ([2.0],), 1.0, (None,), NAN, {"correction": 1}),
]  # fmt: skip
