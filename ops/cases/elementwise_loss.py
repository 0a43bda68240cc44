"""Cases of `ops/elementwise_loss.py`."""

import numpy as np

from ..elementwise_loss import huber_loss, kl_divergence, l1_loss, mean_squared_error
from ..elementwise_loss import sigmoid_binary_cross_entropy as bce
from .case import Case, Edge, normal

INF, NAN, LOG2 = np.inf, np.nan, np.log(2)
HALF = np.float16
SUM, EACH = {"reduction": "sum"}, {"reduction": "none"}


def apart(*shape: int):
    """Pairs whose distances stay away from 0 and from 1."""

    def make(rng: np.random.Generator) -> tuple:
        distance = rng.choice((-1.0, 1.0), size=shape) * rng.choice((0.3, 1.7), size=shape) * rng.uniform(0.8, 1.2, size=shape)
        targets = rng.normal(size=shape)
        return targets + distance, targets

    return make


def logits(*shape: int, weight: tuple[int, ...] | None = None, scale: float = 1.0):
    """Logits, shares between 0 and 1 and, if a shape is given, positive weights of "yes"."""

    def make(rng: np.random.Generator) -> tuple:
        z, t = scale * rng.normal(size=shape), rng.uniform(0.1, 0.9, size=shape)
        return (z, t) if weight is None else (z, t, rng.uniform(0.5, 3, size=weight))

    return make


def probabilities(*shape: int):
    """Logarithms, and probabilities away from 0."""
    return lambda rng: (rng.normal(size=shape), rng.uniform(0.2, 0.9, size=shape))


def of(op, make):
    """The cases of a loss of two sides."""
    return [
        Case(op, "matrix", make(3, 4)),
        Case(op, "vector, sum", make(5), SUM),
        Case(op, "each", make(2, 3), EACH),
        Case(op, "scalar", make()),
        Case(op, "nothing, sum", make(0, 3), SUM),
        Case(op, "nothing", make(0)),
    ]


CASES = [
    *of(mean_squared_error, lambda *shape: normal(shape, shape)),
    Case(mean_squared_error, "whole targets", lambda rng: (rng.normal(size=4), np.arange(4))),
    *of(l1_loss, apart),
    *of(huber_loss, apart),
    Case(huber_loss, "narrow", apart(5), {"delta": 0.1}),
    Case(huber_loss, "wide", apart(5), {"delta": 3.0}),
    *of(bce, logits),
    Case(bce, "a weight", logits(3, 4, weight=())),
    Case(bce, "a weight for each class", logits(3, 4, weight=(4,)), EACH),
    Case(bce, "large", logits(5, scale=30.0)),
    Case(bce, "yes and no", lambda rng: (rng.normal(size=4), np.array([True, False, False, True])), SUM),
    *of(kl_divergence, probabilities),
]

FAR = np.array([60000, 0, 0, 0], HALF)
Z16 = np.array([1.0], HALF)
T16 = np.array([1497 / 2048], HALF)  # sigmoid(1), to half precision
Q16 = np.array([1257 / 4096], HALF)  # 1 + log ½, to half precision

EDGES = [
    Edge(mean_squared_error, "float16 differences that overflow", (FAR, -FAR), 1.0, (FAR, -FAR), 3.6e9),
    Edge(mean_squared_error, "the mean of nothing", (np.zeros(0), np.zeros(0)), 1.0, (np.zeros(0), np.zeros(0)), NAN),
    Edge(l1_loss, "equal sides have slope 0", ([1.0, 2.0, 0.0], [1.0, 1.0, 0.5]), 6.0, ([0.0, 2.0, -2.0], [0.0, -2.0, 2.0]), 0.5),
    Edge(l1_loss, "infinitely far", ([INF, -INF], [0.0, 0.0]), [2.0, 3.0], ([2.0, -3.0], [-2.0, 3.0]), [INF, INF], EACH),
    Edge(huber_loss, "at the joint, equal, infinitely far", ([1.0, -1.0, 0.0, INF], [0.0, 0.0, 0.0, 0.0]), [2.0, 2.0, 2.0, 2.0],
         ([2.0, -2.0, 0.0, 2.0], [-2.0, 2.0, 0.0, -2.0]), [0.5, 0.5, 0.0, INF], EACH),
    Edge(huber_loss, "squares that would overflow", (np.array([1e30], np.float32), np.array([0], np.float32)), 1.0, ([1.0], [-1.0]), 1e30),
    Edge(bce, "logits of ±1000", ([1000.0, -1000.0, 1000.0, -1000.0], [1.0, 0.0, 0.0, 1.0]), [1.0, 2.0, 3.0, 4.0],
         ([0.0, 0.0, 3.0, -4.0], [-1000.0, 2000.0, -3000.0, 4000.0]), [0.0, 0.0, 1000.0, 1000.0], EACH),
    Edge(bce, "0 and −120 in float32", (np.array([0, -120], np.float32), np.array([0, 1], np.float32)), 1.0, ([0.25, -0.5], None),
         60 + LOG2 / 2),
    Edge(bce, "a weight of 1 is none", ([0.0, -120.0], [0.0, 1.0], [1.0, 1.0]), 1.0, ([0.25, -0.5], [0.0, 60.0], [0.0, 60.0]),
         60 + LOG2 / 2),
    Edge(bce, "infinite logits that are right", ([INF, -INF], [1.0, 0.0], [2.0, 2.0]), [1.0, 1.0], ([0.0, 0.0], None, [0.0, 0.0]),
         [0.0, 0.0], EACH),
    Edge(bce, "infinite logits that are wrong", ([INF, -INF], [0.0, 1.0], [2.0, 2.0]), [1.0, 1.0], ([1.0, -2.0], None, [0.0, INF]),
         [INF, INF], EACH),
    Edge(bce, "float16 terms that cancel", (Z16, T16), [1000.0], ([0.10157], None), None, EACH),
    Edge(kl_divergence, "0·log 0 is 0", ([-1.0, -INF, -2.0], [0.0, 0.0, 1.0]), [2.0, 3.0, 4.0], ([0.0, 0.0, -4.0], [0.0, 0.0, 12.0]),
         [0.0, 0.0, 2.0], EACH),
    Edge(kl_divergence, "what was thought impossible", ([-INF], [0.5]), 2.0, ([-1.0], [INF]), INF),
    Edge(kl_divergence, "float16 terms that cancel", (Q16, np.array([0.5], HALF)), [1000.0], (None, [-0.0319]), None, EACH),
]  # fmt: skip
