"""Cases of `ops/dropout.py`."""

import numpy as np

from ..dropout import dropout
from .case import Case, Edge

INF = np.inf
KEY = np.array([7, 42], np.uint32)


def keyed(*shape: int, first=None):
    """Standard normal x of this shape, a key, and the index of its first row in the whole batch."""
    return lambda rng: (rng.normal(size=shape), KEY) if first is None else (rng.normal(size=shape), KEY, first)


CASES = [
    Case(dropout, "rows", keyed(4, 5), {"rate": 0.3}),
    Case(dropout, "stack", keyed(2, 3, 4), {"rate": 0.5}),
    Case(dropout, "vector", keyed(6), {"rate": 0.5}),
    Case(dropout, "later rows", keyed(4, 5, first=1000), {"rate": 0.3}),
    Case(dropout, "rate 0", keyed(2, 3), {"rate": 0.0}),
    Case(dropout, "rate 0, no key", lambda rng: (rng.normal(size=(2, 3)), None), {"rate": 0.0}),
    Case(dropout, "rate 1, no key", lambda rng: (rng.normal(size=(2, 3)), None), {"rate": 1.0}),
    Case(dropout, "a rate too small to drop anything", keyed(2, 3), {"rate": 1e-12}),
    Case(dropout, "no rows", keyed(0, 3), {"rate": 0.3}),
]

EDGES = [
    Edge(dropout, "rate 1 gives zeros", ([1.0, -2.0, INF], KEY), [3.0, INF, 1.0], ([0.0, 0.0, 0.0], None), [0.0, 0.0, 0.0], {"rate": 1.0}),
    Edge(dropout, "rate 0 is the identity", ([1.0, -2.0, INF], KEY), [3.0, INF, 1.0], ([3.0, INF, 1.0], None), [1.0, -2.0, INF],
         {"rate": 0.0}),
]  # fmt: skip
