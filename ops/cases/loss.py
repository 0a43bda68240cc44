"""Cases of `ops/loss.py`."""

import numpy as np

from ..loss import softmax_cross_entropy as op
from .case import Case, Edge

INF, NAN = np.inf, np.nan


def rows(*shape: int, classes: int = 5, weighted: bool = False, by_class: bool = False, scale: float = 1.0):
    """Logits (*shape, classes), a label for each row and, if wanted, a positive weight for each row and class."""

    def make(rng: np.random.Generator) -> tuple:
        logits, labels = scale * rng.normal(size=(*shape, classes)), np.asarray(rng.integers(0, classes, size=shape))
        weights, class_weights = rng.uniform(0.5, 2, size=shape), rng.uniform(0.5, 2, size=classes)
        return logits, labels, weights if weighted else None, class_weights if by_class else None

    return make


def ignoring(label: int, **options):
    """As `rows`, every other label replaced by one that is ignored."""

    def make(rng: np.random.Generator) -> tuple:
        logits, labels, *rest = rows(6, **options)(rng)
        return logits, np.where(np.arange(6) % 2, label, labels), *rest

    return make


ALL = {"label_smoothing": 0.2, "z_loss": 0.1}

CASES = [
    Case(op, "rows", rows(4)),
    Case(op, "one row", rows()),
    Case(op, "stack, weights", rows(2, 3, weighted=True)),
    Case(op, "rows kept by a mask", lambda rng: (*rows(4)(rng)[:2], np.array([True, False, True, True]))),
    Case(op, "large", rows(4, scale=30.0)),
    Case(op, "one class", rows(3, classes=1)),
    Case(op, "no rows", rows(0)),
    Case(op, "class weights", rows(4, by_class=True)),
    Case(op, "smoothed", rows(4), {"label_smoothing": 0.2, "reduction": "sum"}),
    Case(op, "z-loss, weights", rows(4, weighted=True), {"z_loss": 0.1}),
    Case(op, "everything", rows(2, 3, weighted=True, by_class=True), {**ALL, "reduction": "mean"}),
    Case(op, "everything, each row by itself", rows(4, weighted=True, by_class=True), ALL),
    Case(op, "mean", rows(4), {"reduction": "mean"}),
    Case(op, "mean of no rows", rows(0, by_class=True), {"reduction": "mean"}),
    Case(op, "mean over the rows that are not ignored", ignoring(-100), {"ignore_index": -100, "reduction": "mean"}),
    Case(op, "a class that is ignored, everything", ignoring(3, weighted=True, by_class=True),
         {"ignore_index": 3, "reduction": "mean", **ALL}),
    Case(op, "a class that is ignored, weights", ignoring(0, weighted=True), {"ignore_index": 0, "reduction": "sum"}),
]  # fmt: skip

TWO = [[1.0, 2.0, 3.0], [5.0, 0.0, 0.0]]
FIRST = 0.4076059644443806
FIRST_BAR = [0.09003057317038046, 0.24472847105479764, -0.3347590442251782]

EDGES = [
    Edge(op, "a label left out", (TWO, [2, -100], [True, False]), [1.0, 3.0],
         ([FIRST_BAR, [0.0, 0.0, 0.0]], None, None), [FIRST, 0.0]),
    Edge(op, "nothing of a row left out is looked at", ([[1.0, 2.0, 3.0], [NAN, INF, 0.0]], [2, 7], [1.0, 0.0], [1.0, 1.0, 1.0]),
         [1.0, NAN], ([FIRST_BAR, [0.0, 0.0, 0.0]], None, None, [0.0, 0.0, FIRST]), [FIRST, 0.0]),
    Edge(op, "no class has no slope of a weight of 0", (TWO, [2, 7], [1.0, 0.0]), [1.0, 1.0], (None, None, [FIRST, 0.0]), [FIRST, 0.0]),
    Edge(op, "a weight of 0 on a class can still be raised", ([[1.0, 2.0, 3.0]], [2], [0.0]), [2.0],
         ([[0.0, 0.0, 0.0]], None, [2 * FIRST]), [0.0]),
    Edge(op, "−1 is not the last class", (TWO, [2, -1]), [1.0, 3.0], ([FIRST_BAR, [NAN, NAN, NAN]], None), [FIRST, NAN]),
    Edge(op, "there is no class V", (TWO, [2, 3]), [1.0, 3.0], ([FIRST_BAR, [NAN, NAN, NAN]], None), [FIRST, NAN]),
    Edge(op, "far from 0", ([[1000.0, 0.0], [-1000.0, 0.0]], [1, 0]), [2.0, 3.0], ([[2.0, -2.0], [-3.0, 3.0]], None),
         [1000.0, 1000.0]),
    Edge(op, "a class of logit −∞", ([[0.0, -INF, 0.0]], [0], [1.0], [1.0, 1.0, 1.0]), [2.0],
         ([[-1.0, 0.0, 1.0]], None, [2 * np.log(2)], [2 * np.log(2), 0.0, 0.0]), [np.log(2)]),
    Edge(op, "the label has logit −∞", ([[0.0, -INF]], [1]), [2.0], ([[2.0, -2.0]], None), [INF]),
    Edge(op, "mean over the one row that is kept", (TWO, [2, -100]), 1.0, ([FIRST_BAR, [0.0, 0.0, 0.0]], None), FIRST,
         {"ignore_index": -100, "reduction": "mean"}),
    Edge(op, "nothing is kept", (TWO, [-100, -100]), 1.0, ([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], None), 0.0,
         {"ignore_index": -100, "reduction": "mean"}),
    Edge(op, "weights that are all 0 can still be raised", ([[1.0, 2.0, 3.0]], [2], [0.0]), 2.0, ([[0.0, 0.0, 0.0]], None, [2 * FIRST]),
         0.0, {"reduction": "mean"}),
    Edge(op, "a mean of NaN has no slope", (TWO, [2, -1], [1.0, 1.0]), 1.0, (None, None, [NAN, NAN]), NAN, {"reduction": "mean"}),
    Edge(op, "the mean looks at nothing of a row left out",
         ([[1.0, 2.0, 3.0], [NAN, INF, 0.0]], [2, 0], [1.0, 0.0], [1.0, 1.0, 1.0]), 1.0,
         ([FIRST_BAR, [0.0, 0.0, 0.0]], None, [0.0, NAN], [0.0, 0.0, 0.0]), FIRST, {"reduction": "mean"}),
    Edge(op, "float16 class weights add up in float32", ([[0.0, 0.0]] * 3, [0, 1, 0], None, np.array([30000, 30000], np.float16)), 6.0,
         ([[-1.0, 1.0], [1.0, -1.0], [-1.0, 1.0]], None, None, None), np.log(2), {"reduction": "mean"}),
    Edge(op, "neither a class nor ignored", (TWO, [2, -1]), [1.0, 1.0], ([FIRST_BAR, [NAN, NAN, NAN]], None), [FIRST, NAN],
         {"ignore_index": -100}),
    Edge(op, "float16 logits far from 0", (np.array([[60000, -60000]], np.float16), [1]), [1.0], (np.array([[1, -1]], np.float16), None),
         [120000.0]),
]  # fmt: skip
