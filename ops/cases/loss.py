"""Cases of `ops/loss.py`."""

import numpy as np

from ..loss import softmax_cross_entropy as op
from .case import Case, Edge

INF, NAN = np.inf, np.nan


def rows(*shape: int, classes: int = 5, weighted: bool = False, scale: float = 1.0):
    """Logits (*shape, classes), a label for each row and, if wanted, a positive weight."""

    def make(rng: np.random.Generator) -> tuple:
        logits, labels = scale * rng.normal(size=(*shape, classes)), np.asarray(rng.integers(0, classes, size=shape))
        return (logits, labels, rng.uniform(0.5, 2, size=shape)) if weighted else (logits, labels)

    return make


CASES = [
    Case(op, "rows", rows(4)),
    Case(op, "one row", rows()),
    Case(op, "stack, weights", rows(2, 3, weighted=True)),
    Case(op, "rows kept by a mask", lambda rng: (*rows(4)(rng), np.array([True, False, True, True]))),
    Case(op, "large", rows(4, scale=30.0)),
    Case(op, "one class", rows(3, classes=1)),
    Case(op, "no rows", rows(0)),
]

TWO = [[1.0, 2.0, 3.0], [5.0, 0.0, 0.0]]
FIRST = 0.4076059644443806
FIRST_BAR = [0.09003057317038046, 0.24472847105479764, -0.3347590442251782]

EDGES = [
    Edge(op, "a label left out", (TWO, [2, -100], [True, False]), [1.0, 3.0],
         ([FIRST_BAR, [0.0, 0.0, 0.0]], None, None), [FIRST, 0.0]),
    Edge(op, "nothing of a row left out is looked at", ([[1.0, 2.0, 3.0], [NAN, INF, 0.0]], [2, 7], [1.0, 0.0]), [1.0, NAN],
         ([FIRST_BAR, [0.0, 0.0, 0.0]], None, None), [FIRST, 0.0]),
    Edge(op, "a weight of 0 on a class can still be raised", ([[1.0, 2.0, 3.0]], [2], [0.0]), [2.0],
         ([[0.0, 0.0, 0.0]], None, [2 * FIRST]), [0.0]),
    Edge(op, "−1 is not the last class", (TWO, [2, -1]), [1.0, 3.0], ([FIRST_BAR, [NAN, NAN, NAN]], None), [FIRST, NAN]),
    Edge(op, "there is no class V", (TWO, [2, 3]), [1.0, 3.0], ([FIRST_BAR, [NAN, NAN, NAN]], None), [FIRST, NAN]),
    Edge(op, "far from 0", ([[1000.0, 0.0], [-1000.0, 0.0]], [1, 0]), [2.0, 3.0], ([[2.0, -2.0], [-3.0, 3.0]], None),
         [1000.0, 1000.0]),
    Edge(op, "a class of logit −∞", ([[0.0, -INF, 0.0]], [0]), [2.0], ([[-1.0, 0.0, 1.0]], None), [np.log(2)]),
    Edge(op, "the label has logit −∞", ([[0.0, -INF]], [1]), [2.0], ([[2.0, -2.0]], None), [INF]),
]  # fmt: skip
