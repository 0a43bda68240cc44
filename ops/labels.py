"""The losses that take labels, as they are called: labels that Python or NumPy holds are checked before anything runs.

Labels that are JAX arrays are not looked at, which would wait for the device: there a label out of range gives NaN.
"""

import numpy as np

from ..lib.errors import OutOfRange
from . import likelihood, loss


def softmax_cross_entropy(logits, labels, weights=None, class_weights=None, **statics):
    """The loss of each row of logits (..., V), or their mean; see `pullback.ops.loss.softmax_cross_entropy`, whose statics these are."""
    labels = classes_at_hand("softmax_cross_entropy", labels, logits.shape[-1:], statics.get("ignore_index"))
    return loss.softmax_cross_entropy(logits, labels, weights, class_weights, **statics)


def nll_of_probabilities(probabilities, labels, **statics):
    """−log of the labels' probabilities; see `pullback.ops.likelihood.nll_of_probabilities`, whose statics these are."""
    labels = classes_at_hand("nll_of_probabilities", labels, probabilities.shape[-1:], None)
    return likelihood.nll_of_probabilities(probabilities, labels, **statics)


def classes_at_hand(op: str, labels, classes: tuple[int, ...], ignored: int | None):
    """The labels; OutOfRange if one that can be seen is neither a class nor ignored."""
    if isinstance(labels, (list, tuple)):
        labels = np.asarray(labels)
    if isinstance(labels, (np.ndarray, np.integer)) and classes:
        wrong = np.asarray((labels < 0) | (labels >= classes[0])) & np.asarray(labels != ignored)
        if wrong.any():
            came = np.asarray(labels)[wrong].flat[0]
            hint = "" if ignored is None else f" or {ignored}, which is ignored"
            raise OutOfRange(f"{op}: label {came} for {classes[0]} classes; expected 0 to {classes[0] - 1}{hint}")
    return labels
