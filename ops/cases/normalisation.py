"""Cases of `ops/normalisation.py`."""

import numpy as np

from ..normalisation import layer_norm
from .case import Case, Edge, normal

SINGLE = np.float32

CASES = [
    Case(layer_norm, "rows, scale, bias", normal((3, 5), (5,), (5,))),
    Case(layer_norm, "rows", normal((3, 5))),
    Case(layer_norm, "rows, scale", normal((3, 5), (5,))),
    Case(layer_norm, "rows, bias", lambda rng: (rng.normal(size=(3, 5)), None, rng.normal(size=5))),
    Case(layer_norm, "vector, scale, bias", normal((5,), (5,), (5,)), {"eps": 0.1}),
    Case(layer_norm, "stacked rows, scale, bias", normal((2, 2, 5), (5,), (5,))),
    Case(layer_norm, "no rows", normal((0, 5), (5,), (5,))),
    Case(layer_norm, "off centre", lambda rng: (100 + rng.normal(size=(3, 5)), rng.normal(size=5))),
    Case(layer_norm, "one entry a row", normal((3, 1), (1,), (1,))),
]

EDGES = [
    Edge(layer_norm, "one-pass variance would cancel", (np.array([40000.0, 40001.0, 40002.0, 40003.0], SINGLE),), [1.0, 0.0, 0.0, 0.0],
         ([0.2683303038930342, -0.3577683720252976, -0.08944343463101138, 0.1788815027632748],),
         [-1.3416354199689269, -0.447211806656309, 0.447211806656309, 1.3416354199689269]),
    Edge(layer_norm, "a constant row has slope 1/√ε", (np.full(4, 1234.0, SINGLE),), [1.0, 0.0, 0.0, 0.0],
         ([237.17082451262843, -79.05694150420948, -79.05694150420948, -79.05694150420948],), [0.0, 0.0, 0.0, 0.0]),
    Edge(layer_norm, "a tiny spread about a large mean", (np.array([10000.0, 10000.015625, 10000.0322265625, 10000.0478515625], SINGLE),),
         [1.0, 0.0, 0.0, 0.0], (None,), [-1.3157299700279779, -0.45647774470358415, 0.45647774470358415, 1.3157299700279779]),
    Edge(layer_norm, "an infinity spoils its own row alone", ([[np.inf, 1.0], [3.0, 3.0]],), [[1.0, 0.0], [0.0, 0.0]],
         ([[np.nan, np.nan], [0.0, 0.0]],), [[np.nan, np.nan], [0.0, 0.0]]),
]  # fmt: skip
