"""Cases of `ops/rotary.py`."""

import numpy as np

from ..rotary import rotary
from .case import Case, Edge, normal

INTERLEAVED = {"pairs": "interleaved"}


def placed(*positions: int, batch: tuple[int, ...] = (2,)):
    """x for these positions, which are the same for every example."""
    return lambda rng: (rng.normal(size=(*batch, len(positions), 2, 4)), np.array(positions))


CASES = [
    Case(rotary, "halves", normal((2, 3, 2, 4))),
    Case(rotary, "interleaved", normal((2, 3, 2, 4)), INTERLEAVED),
    Case(rotary, "after a cache, another base", normal((1, 2, 1, 6)), {"offset": 5, "base": 100.0}),
    Case(rotary, "positions", placed(7, 0, 3)),
    Case(rotary, "positions of each example", lambda rng: (rng.normal(size=(2, 2, 1, 4)), np.array([[0, 1], [5, 9]])), INTERLEAVED),
    Case(rotary, "positions, no batch", placed(2, 9, batch=()), {"offset": 1}),
    Case(rotary, "one pair", normal((2, 3, 1, 2))),
    Case(rotary, "no time", normal((2, 0, 2, 4))),
]

QUARTER = {"offset": 1, "base": (np.pi / 2) ** -2.0}  # with it the second of two pairs turns by a right angle at position 1
COS, SIN = np.cos(1.0), np.sin(1.0)


def row(*numbers: float) -> np.ndarray:
    """One head at one time."""
    return np.array(numbers)[None, None, :]


EDGES = [
    Edge(rotary, "halves: i and i + K/2", (row(1.0, 2.0, 3.0, 4.0),), row(1.0, 0.0, 0.0, 5.0), (row(COS, 5.0, -SIN, 0.0),),
         row(COS - 3 * SIN, -4.0, SIN + 3 * COS, 2.0), QUARTER),
    Edge(rotary, "interleaved: 2i and 2i + 1", (row(1.0, 3.0, 2.0, 4.0),), row(1.0, 0.0, 0.0, 5.0), (row(COS, -SIN, 5.0, 0.0),),
         row(COS - 3 * SIN, SIN + 3 * COS, -4.0, 2.0), {**QUARTER, **INTERLEAVED}),
    Edge(rotary, "positions of one byte", (row(1.0, 0.0), np.array([250], np.uint8)), row(1.0, 0.0), (row(np.cos(260), -np.sin(260)), None),
         row(np.cos(260), np.sin(260)), {"offset": 10}),
    Edge(rotary, "position 0 stays", (row(1.0, 2.0, 3.0, 4.0),), row(5.0, 6.0, 7.0, 8.0), (row(5.0, 6.0, 7.0, 8.0),),
         row(1.0, 2.0, 3.0, 4.0)),
]  # fmt: skip
