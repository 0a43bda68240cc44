"""Cross-entropy against optax, weights that are learnt, wide losses of narrow logits, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pullback import ops
from pullback.lib.errors import OperandError

RNG = np.random.default_rng(0)
LOGITS, LABELS, WEIGHTS = 3 * RNG.normal(size=(6, 11)), RNG.integers(0, 11, size=6), RNG.uniform(0.5, 2, size=6)


def test_equals_optax():
    ours = ops.softmax_cross_entropy(jnp.float32(LOGITS), LABELS)
    np.testing.assert_allclose(ours, optax.softmax_cross_entropy_with_integer_labels(jnp.float32(LOGITS), LABELS), rtol=1e-5)


def test_narrow_logits_have_a_wide_loss_and_wide_sums():
    z = jnp.zeros((2, 4096), jnp.bfloat16)
    y, res = ops.softmax_cross_entropy.evaluate(z, jnp.array([0, 4095]))
    assert y.dtype == res.lse.dtype == jnp.float32
    np.testing.assert_allclose(y, np.log(4096), rtol=1e-6)
    z_bar, *_ = ops.softmax_cross_entropy.rules["exact"].program((True, False, False))(res, jnp.array([1.0, 2.0]))
    assert z_bar.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(z_bar, np.float64).sum(-1), 0, atol=2e-2)


def test_cotangent_of_weights_where_some_are_0():
    """Weights that start at 0 can be learnt: their slope is the loss of their row."""
    with jax.enable_x64(True):
        weights = jnp.asarray(np.where(np.arange(6) % 2, WEIGHTS, 0))
        y_bar = jnp.asarray(RNG.normal(size=6))
        _, res = ops.softmax_cross_entropy.evaluate(jnp.asarray(LOGITS), LABELS, weights)
        *_, weights_bar = ops.softmax_cross_entropy.rules["exact"].program((False, False, True))(res, y_bar)
        rows = optax.softmax_cross_entropy_with_integer_labels(jnp.asarray(LOGITS), LABELS)
        np.testing.assert_allclose(weights_bar, y_bar * rows, rtol=1e-12)


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
