"""Cases of `ops/rounding.py`."""

import numpy as np

from ..rounding import ceil, floor, round, sign, trunc
from .arithmetic import apart, single
from .case import Edge

INF, NAN = np.inf, np.nan


def between(rng, shape):
    """Far from whole numbers and halves, and near 0: seen over several steps a staircase has a slope."""
    return rng.choice((-1.0, 1.0), size=shape) * rng.uniform(0.2, 0.4, size=shape)


CASES = [*single(sign, apart), *[case for op in (floor, ceil, round, trunc) for case in single(op, between)]]


def steps(op, label, operand, y):
    """Whatever comes back, nothing goes on."""
    return Edge(op, label, (operand,), [INF] * len(y), ([0.0] * len(y),), y)


EDGES = [
    steps(sign, "at the step, and far out", [-INF, -2.0, 0.0, 3.0, NAN], [-1.0, -1.0, 0.0, 1.0, NAN]),
    steps(floor, "at the steps", [-INF, -1.5, -1.0, 0.0, 2.9, NAN], [-INF, -2.0, -1.0, 0.0, 2.0, NAN]),
    steps(ceil, "at the steps", [-INF, -1.5, -1.0, 0.0, 2.1, NAN], [-INF, -1.0, -1.0, 0.0, 3.0, NAN]),
    steps(round, "halves go to the even side", [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], [-2.0, -2.0, 0.0, 0.0, 2.0, 2.0]),
    steps(round, "far out", [-INF, 1e30, 2.0**52 + 1, NAN], [-INF, 1e30, 2.0**52 + 1, NAN]),
    steps(trunc, "towards 0", [-INF, -1.5, -0.5, 0.5, 1.5, NAN], [-INF, -1.0, 0.0, 0.0, 1.0, NAN]),
]
