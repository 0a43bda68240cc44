"""Cases of `ops/normalisation.py`."""

import numpy as np

from ..normalisation import group_norm, layer_norm, rms_norm
from .case import Case, Edge, normal

SINGLE, HALF = np.float32, np.float16

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
    Case(rms_norm, "rows, scale", normal((3, 5), (5,))),
    Case(rms_norm, "rows off centre", lambda rng: (1 + rng.normal(size=(3, 5)),)),
    Case(rms_norm, "vector, scale", normal((5,), (5,)), {"eps": 0.1}),
    Case(rms_norm, "stacked rows, scale", normal((2, 2, 5), (5,))),
    Case(rms_norm, "no rows", normal((0, 5), (5,))),
    Case(rms_norm, "one entry a row", normal((3, 1), (1,)), {"eps": 0.5}),
    Case(group_norm, "an image, scale, bias", normal((2, 2, 2, 6), (6,), (6,)), {"groups": 2}),
    Case(group_norm, "one axis of positions", normal((2, 3, 6)), {"groups": 3}),
    Case(group_norm, "no positions, scale", normal((3, 6), (6,)), {"groups": 2, "eps": 0.1}),
    Case(group_norm, "one group, bias", lambda rng: (rng.normal(size=(2, 3, 4)), None, rng.normal(size=4)), {"groups": 1}),
    Case(group_norm, "a group for each channel, scale, bias", normal((2, 4, 3), (3,), (3,)), {"groups": 3}),
    Case(group_norm, "off centre", lambda rng: (100 + rng.normal(size=(2, 3, 4)), rng.normal(size=4)), {"groups": 2}),
    Case(group_norm, "no examples", normal((0, 3, 4), (4,), (4,)), {"groups": 2}),
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
    Edge(layer_norm, "differences that overflow float16", (np.array([-60000, -60000, 60000, 60000], HALF),), np.array([1.0, 0, 0, 0], HALF),
         (np.zeros(4, HALF),), np.array([-1, -1, 1, 1], HALF)),
    Edge(layer_norm, "products that overflow float16", (np.array([1, 1, -1, -1], HALF), np.full(4, 300, HALF)),
         np.array([300, 0, 0, 0], HALF), (np.array([45000, -45000, 0, 0], HALF), np.array([300, 0, 0, 0], HALF)),
         np.array([300, 300, -300, -300], HALF), {"eps": 1e-8}),
    Edge(rms_norm, "zeros have slope 1/√ε", ([[0.0, 0.0], [3.0, 4.0]],), [[2.0, 1.0], [0.0, 0.0]], ([[200.0, 100.0], [0.0, 0.0]],),
         [[0.0, 0.0], [3 / 12.5001**0.5, 4 / 12.5001**0.5]], {"eps": 1e-4}),
    Edge(rms_norm, "squares that overflow float16", (np.array([60000, -60000], HALF),), np.array([1, 1], HALF),
         (np.zeros(2, HALF),), np.array([1, -1], HALF)),
    Edge(rms_norm, "products that overflow float16", (np.array([1, 1], HALF), np.array([300, 300], HALF)), np.array([300, 0], HALF),
         (np.array([45000, -45000], HALF), np.array([300, 0], HALF)), np.array([300, 300], HALF)),
    Edge(rms_norm, "an infinity spoils its own row alone", ([[np.inf, 1.0], [3.0, 3.0]],), [[1.0, 0.0], [0.0, 0.0]],
         ([[np.nan, np.nan], [0.0, 0.0]],), [[np.nan, 0.0], [1.0, 1.0]], {"eps": 1e-20}),
    Edge(group_norm, "one-pass variance would cancel",
         (np.array([[[40000, 5], [40001, 5], [40002, 5], [40003, 5]]], SINGLE),), [[[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]],
         ([[[0.2683303038930342, 0.0], [-0.3577683720252976, 0.0], [-0.08944343463101138, 0.0], [0.1788815027632748, 0.0]]],),
         [[[-1.3416354199689269, 0.0], [-0.447211806656309, 0.0], [0.447211806656309, 0.0], [1.3416354199689269, 0.0]]], {"groups": 2}),
    Edge(group_norm, "a constant group has slope 1/√ε", (np.full((1, 4, 1), 1234, SINGLE),), [[[1.0], [0.0], [0.0], [0.0]]],
         ([[[237.17082451262843], [-79.05694150420948], [-79.05694150420948], [-79.05694150420948]]],), np.zeros((1, 4, 1)), {"groups": 1}),
    Edge(group_norm, "differences that overflow float16", (np.array([[-60000, -60000, 60000, 60000]], HALF),),
         np.array([[1.0, 0, 0, 0]], HALF), (np.zeros((1, 4), HALF),), np.array([[-1, -1, 1, 1]], HALF), {"groups": 1}),
    Edge(group_norm, "products that overflow float16", (np.array([[1, 1, -1, -1]], HALF), np.full(4, 300, HALF)),
         np.array([[300, 0, 0, 0]], HALF), (np.array([[45000, -45000, 0, 0]], HALF), np.array([300, 0, 0, 0], HALF)),
         np.array([[300, 300, -300, -300]], HALF), {"groups": 1, "eps": 1e-8}),
    Edge(group_norm, "an infinity spoils its own group alone", ([[np.inf, 1.0, 3.0, 3.0]],), [[1.0, 0.0, 0.0, 0.0]],
         ([[np.nan, np.nan, 0.0, 0.0]],), [[np.nan, np.nan, 0.0, 0.0]], {"groups": 2}),
]  # fmt: skip
