"""Cases of `ops/joining.py`."""

from ..joining import concatenate, split, stack, unstack
from .case import Case, normal

CASES = [
    Case(concatenate, "rows", normal((2, 3), (1, 3), (0, 3))),
    Case(concatenate, "last axis", normal((2, 3), (2, 1)), {"axis": -1}),
    Case(concatenate, "middle axis", normal((2, 1, 3), (2, 2, 3)), {"axis": 1}),
    Case(concatenate, "one", normal((4,))),
    Case(concatenate, "with integers", lambda rng: (rng.normal(size=2), rng.integers(0, 5, size=3))),
    Case(split, "rows", normal((5, 2)), {"sizes": (2, 0, 3)}),
    Case(split, "last axis", normal((2, 6)), {"sizes": (2, 2, 2), "axis": -1}),
    Case(split, "one piece", normal((3,)), {"sizes": (3,)}),
    Case(split, "empty", normal((0, 2)), {"sizes": (0, 0)}),
    Case(stack, "first", normal((2, 3), (2, 3), (2, 3))),
    Case(stack, "last", normal((2, 3), (2, 3)), {"axis": -1}),
    Case(stack, "scalars", normal((), ())),
    Case(stack, "one empty", normal((0, 2)), {"axis": 1}),
    Case(unstack, "first", normal((3, 2))),
    Case(unstack, "last", normal((3, 2)), {"axis": -1}),
    Case(unstack, "vector", normal((2,))),
    Case(unstack, "into nothing", normal((0, 2))),
]

EDGES = []
