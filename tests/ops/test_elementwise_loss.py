"""Elementwise losses against optax; wide losses of narrow operands; integer targets; errors."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pullback import ops
from pullback.lib.errors import OperandError

RNG = np.random.default_rng(0)
X, T = jnp.asarray(2 * RNG.normal(size=(3, 4)), jnp.float32), jnp.asarray(RNG.uniform(0, 1, size=(3, 4)), jnp.float32)
EACH = {"reduction": "none"}


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (ops.mean_squared_error(X, T, **EACH), optax.squared_error(X, T)),
        (ops.l1_loss(X, T, **EACH), jnp.abs(X - T)),
        (ops.huber_loss(X, T, delta=0.7, **EACH), optax.huber_loss(X, T, delta=0.7)),
        (ops.sigmoid_binary_cross_entropy(X, T, **EACH), optax.sigmoid_binary_cross_entropy(X, T)),
        (jnp.sum(ops.kl_divergence(X, T, **EACH), -1), optax.kl_divergence(X, T)),
    ],
)
def test_equals_optax(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


LOSSES = [ops.mean_squared_error, ops.l1_loss, ops.huber_loss, ops.sigmoid_binary_cross_entropy, ops.kl_divergence]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_reductions_and_dtypes(loss):
    x, t = X.astype(jnp.bfloat16), T.astype(jnp.bfloat16)
    each = loss(x, t, **EACH)
    assert each.dtype == jnp.float32 and each.shape == x.shape
    np.testing.assert_allclose(loss(x, t), np.mean(each), rtol=1e-6)
    np.testing.assert_allclose(loss(x, t, reduction="sum"), np.sum(each), rtol=1e-6)
    np.testing.assert_array_equal(loss(x, jnp.ones((3, 4), int)), loss(x, jnp.ones((3, 4), jnp.bfloat16)))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_operands_that_do_not_fit(loss):
    with pytest.raises(OperandError, match=r"shapes \(3, 4\) and \(3, 1\); expected the same shape"):
        loss(X, T[:, :1])
    with pytest.raises(OperandError, match="reduction 'avg'; known: mean, none, sum"):
        loss(X, T, reduction="avg")


def test_statics_and_weights_that_do_not_fit():
    with pytest.raises(OperandError, match="delta 0.0"):
        ops.huber_loss(X, T, delta=0.0)
    with pytest.raises(OperandError, match=r"pos_weight of shape \(3,\) does not broadcast to logits \(3, 4\)"):
        ops.sigmoid_binary_cross_entropy(X, T, jnp.ones(3))
