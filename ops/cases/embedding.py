"""Cases of `ops/embedding.py`. A padding row has no cotangent on purpose, so no case looks it up; `tests/ops` does."""

import numpy as np

from ..embedding import embedding, embedding_bag, one_hot
from .case import Case, values

CASES = []

EDGES = [
    values(one_hot, "what is no class has zeros", ([2, 3, -1],), [[0, 0, 1], [0, 0, 0], [0, 0, 0]], num_classes=3),
    values(one_hot, "one id", (0,), [True, False], num_classes=2, dtype="bool"),
    values(one_hot, "no ids", (np.zeros(0, int),), np.zeros((0, 2)), num_classes=2),
]

TABLE, GRID = (4, 2), (2, 3)


def ids(rng, low=-4):
    return rng.integers(low, 4, size=GRID)


FACE_CASES = [
    Case(embedding, "a grid of ids", lambda rng: (rng.normal(size=TABLE), ids(rng))),
    Case(embedding, "one id", lambda rng: (rng.normal(size=TABLE), np.array(-1))),
    Case(embedding, "no ids", lambda rng: (rng.normal(size=TABLE), np.zeros(0, int))),
    Case(embedding, "padding that is not there", lambda rng: (rng.normal(size=TABLE), ids(rng, 1)), {"padding_idx": 0}),
    Case(embedding_bag, "sum", lambda rng: (rng.normal(size=TABLE), ids(rng))),
    Case(embedding_bag, "weighted sum", lambda rng: (rng.normal(size=TABLE), ids(rng), rng.normal(size=GRID))),
    Case(embedding_bag, "mean", lambda rng: (rng.normal(size=TABLE), ids(rng)), {"mode": "mean"}),
    Case(embedding_bag, "one bag", lambda rng: (rng.normal(size=TABLE), np.array([1, 1, 3]))),
    Case(embedding_bag, "empty bags", lambda rng: (rng.normal(size=TABLE), np.zeros((2, 0), int)), {"mode": "mean"}),
]
