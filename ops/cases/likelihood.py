"""Cases of `ops/likelihood.py`."""

import numpy as np

from ..likelihood import nll_of_probabilities as nll
from .case import Case, Edge

INF, NAN = np.inf, np.nan


def shares(*shape: int, classes: int = 5):
    """Probabilities (*shape, classes), well away from 0, and a label for each row."""
    return lambda rng: (rng.uniform(0.2, 0.9, size=(*shape, classes)), np.asarray(rng.integers(0, classes, size=shape)))


CASES = [
    Case(nll, "rows", shares(4)),
    Case(nll, "one row", shares(), {"reduction": "sum"}),
    Case(nll, "stack", shares(2, 3), {"reduction": "none"}),
    Case(nll, "one class", shares(3, classes=1)),
    Case(nll, "no rows", shares(0), {"reduction": "sum"}),
]

EDGES = [
    Edge(nll, "a label of probability 0", ([[1.0, 0.0], [0.5, 0.5]], [1, 0]), 2.0, ([[0.0, -INF], [-2.0, 0.0]], None), INF),
    Edge(nll, "−1 is not the last class", ([[0.5, 0.5], [0.5, 0.5]], [-1, 0]), [1.0, 1.0], ([[NAN, NAN], [-2.0, 0.0]], None),
         [NAN, np.log(2)], {"reduction": "none"}),
    Edge(nll, "there is no class V", ([[0.5, 0.5], [0.5, 0.5]], [2, 0]), [1.0, 1.0], ([[NAN, NAN], [-2.0, 0.0]], None),
         [NAN, np.log(2)], {"reduction": "none"}),
]  # fmt: skip
