"""Cases of `ops/head.py`."""

import numpy as np

from ..head import linear_softmax_cross_entropy as op
from .case import Case, Edge

INF, NAN = np.inf, np.nan


def head(*shape: int, width: int = 3, classes: int = 5, weighted: bool = False):
    """x (*shape, width), weight (classes, width), a label for each row and, if wanted, a positive weight."""

    def make(rng: np.random.Generator) -> tuple:
        x, weight = rng.normal(size=(*shape, width)), rng.normal(size=(classes, width))
        labels = np.asarray(rng.integers(0, classes, size=shape))
        return (x, weight, labels, rng.uniform(0.5, 2, size=shape)) if weighted else (x, weight, labels)

    return make


CASES = [
    Case(op, "one chunk", head(4)),
    Case(op, "one row", head()),
    Case(op, "chunks that do not divide, weights", head(7, weighted=True), {"chunk": 3}),
    Case(op, "chunks of one row", head(3), {"chunk": 1}),
    Case(op, "stack, weights", head(2, 3, weighted=True)),
    Case(op, "rows kept by a mask", lambda rng: (*head(4)(rng), np.array([True, False, True, True])), {"chunk": 2}),
    Case(op, "no rows", head(0)),
]

# With the identity as weight the logits are x.
X, EYE = [[1.0, 2.0, 3.0], [5.0, 0.0, 0.0]], np.eye(3)
LOSS = 0.4076059644443806
D = [0.09003057317038046, 0.24472847105479764, -0.3347590442251782]
NOTHING = [[0.0, 0.0, 0.0]] * 3
OUTER = np.outer(D, [1.0, 2.0, 3.0])

EDGES = [
    Edge(op, "mean over the one row that counts", (X, EYE, [2, -100], [True, False]), 2.0,
         ([2 * np.array(D), [0.0, 0.0, 0.0]], 2 * OUTER, None, None), LOSS),
    Edge(op, "no row counts", (X, EYE, [-100, -100], [False, False]), 2.0,
         ([[0.0, 0.0, 0.0]] * 2, NOTHING, None, None), 0.0),
    Edge(op, "nothing of a row left out is looked at", ([[1.0, 2.0, 3.0], [NAN, INF, 0.0]], EYE, [2, 7], [1.0, 0.0]),
         2.0, ([2 * np.array(D), [0.0, 0.0, 0.0]], 2 * OUTER, None, None), LOSS, {"chunk": 1}),
    Edge(op, "−1 is not the last class", (X, EYE, [2, -1]), 2.0,
         ([D, [NAN, NAN, NAN]], np.full((3, 3), NAN), None), NAN),
    Edge(op, "there is no class V", (X, EYE, [2, 3]), 2.0, ([D, [NAN, NAN, NAN]], np.full((3, 3), NAN), None), NAN),
    Edge(op, "far from 0", ([[1000.0, 0.0]], np.eye(2), [1]), 2.0, ([[2.0, -2.0]], [[2000.0, 0.0], [-2000.0, 0.0]],
         None), 1000.0),
]  # fmt: skip
