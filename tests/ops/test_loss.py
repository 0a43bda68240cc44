"""Cross-entropy against optax, weights that are learnt, wide losses of narrow logits, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pullback import ops
from pullback.lib.errors import OperandError
from pullback.ops import loss

RNG = np.random.default_rng(0)
LOGITS, LABELS, WEIGHTS = 3 * RNG.normal(size=(6, 11)), RNG.integers(0, 11, size=6), RNG.uniform(0.5, 2, size=6)


def test_equals_optax():
    ours = ops.softmax_cross_entropy(jnp.float32(LOGITS), LABELS)
    np.testing.assert_allclose(ours, optax.softmax_cross_entropy_with_integer_labels(jnp.float32(LOGITS), LABELS), rtol=1e-5)


def test_narrow_logits_have_a_wide_loss_and_wide_sums():
    z = jnp.zeros((2, 4096), jnp.bfloat16)
    y, res = loss.softmax_cross_entropy.evaluate(z, jnp.array([0, 4095]))
    assert y.dtype == res.lse.dtype == jnp.float32
    np.testing.assert_allclose(y, np.log(4096), rtol=1e-6)
    z_bar, *_ = loss.softmax_cross_entropy.rules["exact"].program((True, False, False, False))(res, jnp.array([1.0, 2.0]))
    assert z_bar.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(z_bar, np.float64).sum(-1), 0, atol=2e-2)


def test_cotangent_of_weights_where_some_are_0():
    """Weights that start at 0 can be learnt: their slope is the loss of their row."""
    with jax.enable_x64(True):
        weights = jnp.asarray(np.where(np.arange(6) % 2, WEIGHTS, 0))
        y_bar = jnp.asarray(RNG.normal(size=6))
        _, res = loss.softmax_cross_entropy.evaluate(jnp.asarray(LOGITS), LABELS, weights)
        _, _, weights_bar, _ = loss.softmax_cross_entropy.rules["exact"].program((False, False, True, False))(res, y_bar)
        rows = optax.softmax_cross_entropy_with_integer_labels(jnp.asarray(LOGITS), LABELS)
        np.testing.assert_allclose(weights_bar, y_bar * rows, rtol=1e-12)


def test_smoothed_labels_equal_optax():
    smooth = optax.smooth_labels(jnp.asarray(np.eye(11)[LABELS], jnp.float32), 0.1)
    theirs = optax.softmax_cross_entropy(jnp.float32(LOGITS), smooth)
    np.testing.assert_allclose(ops.softmax_cross_entropy(jnp.float32(LOGITS), LABELS, label_smoothing=0.1), theirs, rtol=1e-5)


def test_mean_over_the_rows_that_count_by_their_classes():
    """The definition, row by row, in NumPy."""
    classes, labels = RNG.uniform(0.5, 2, size=11), np.where(np.arange(6) == 2, -100, LABELS)
    surprise = np.log(np.exp(LOGITS).sum(-1, keepdims=True)) - LOGITS
    losses = [0.9 * classes[n] * row[n] + 0.1 / 11 * classes @ row for row, n in zip(surprise, labels) if n >= 0]
    mean = sum(losses) / classes[labels[labels >= 0]].sum()
    statics = {"ignore_index": -100, "label_smoothing": 0.1, "reduction": "mean"}
    ours = ops.softmax_cross_entropy(jnp.float32(LOGITS), labels, None, jnp.float32(classes), **statics)
    np.testing.assert_allclose(ours, mean, rtol=1e-5)


@pytest.mark.parametrize(
    "labels, weights, text",
    [
        (LABELS[:5], None, r"labels of shape \(5,\) for rows of shape \(6, 11\); expected \(6,\)"),
        (LABELS, WEIGHTS[:, None], r"weights of shape \(6, 1\)"),
        (LABELS.astype(float), None, "labels are float32; expected integers"),
    ],
)
def test_operands_that_do_not_fit(labels, weights, text):
    with pytest.raises(OperandError, match=text):
        ops.softmax_cross_entropy(jnp.asarray(LOGITS), labels, weights)


def test_classes_and_statics_that_do_not_fit():
    logits = jnp.asarray(LOGITS)
    with pytest.raises(OperandError, match=r"class_weights of shape \(6,\) for logits \(6, 11\); expected \(11,\)"):
        ops.softmax_cross_entropy(logits, LABELS, None, WEIGHTS)
    with pytest.raises(OperandError, match="label_smoothing 1.5"):
        ops.softmax_cross_entropy(logits, LABELS, label_smoothing=1.5)
    with pytest.raises(OperandError, match="did you mean 'mean'"):
        ops.softmax_cross_entropy(logits, LABELS, reduction="means")
    with pytest.raises(OperandError, match="labels of shape"):
        ops.nll_of_probabilities(logits, LABELS[:2])


@pytest.mark.parametrize("wrong", [-1, 11, -12])
def test_a_label_out_of_range_is_refused_where_it_can_be_seen(wrong):
    labels = np.array(LABELS)
    labels[2] = wrong
    for call in (ops.softmax_cross_entropy, ops.nll_of_probabilities):
        with pytest.raises(OperandError, match=f"label {wrong} for 11 classes; expected 0 to 10"):
            call(jnp.asarray(LOGITS), labels)
        with pytest.raises(OperandError, match=f"label {wrong} for 11 classes"):
            call(jnp.asarray(LOGITS), labels.tolist())
    kept = ops.softmax_cross_entropy(jnp.asarray(LOGITS), labels, ignore_index=wrong)
    assert np.isfinite(kept).all() and kept[2] == 0
    assert np.isnan(ops.softmax_cross_entropy(jnp.asarray(LOGITS), jnp.asarray(labels))[2]), "a JAX array is not looked at"
