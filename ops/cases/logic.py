"""Cases of `ops/logic.py`: nothing flows back, so values alone."""

import numpy as np

from ..logic import isnan, logical_and, logical_not, logical_or, logical_xor
from .case import values

CASES: list = []

LEFT, RIGHT = np.array([[False], [True]]), np.array([False, True])

EDGES = [
    values(logical_and, "table", (LEFT, RIGHT), [[False, False], [False, True]]),
    values(logical_or, "table", (LEFT, RIGHT), [[False, True], [True, True]]),
    values(logical_xor, "table", (LEFT, RIGHT), [[False, True], [True, False]]),
    values(logical_not, "table", (RIGHT,), [True, False]),
    values(logical_not, "numbers", ([0.0, 0.5, np.nan],), [True, False, False]),
    values(isnan, "among infinities", ([np.nan, np.inf, -np.inf, 0.0],), [True, False, False, False]),
]
