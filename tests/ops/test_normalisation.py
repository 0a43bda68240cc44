"""Layer, root-mean-square and group norm in float32 and below against float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import ops
from pullback.lib.errors import OperandError

RNG = np.random.default_rng(0)


def normalised(x, eps=1e-5):
    x = np.asarray(x, np.float64)
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d**2).mean(-1, keepdims=True) + eps)


@pytest.mark.parametrize("offset, spread", [(0, 1), (1e4, 1), (1e5, 0.5), (0, 1e-3), (0, 1e6)])
def test_float32_follows_float64(offset, spread):
    x = jnp.asarray(offset + spread * np.random.default_rng(0).normal(size=(8, 64)), jnp.float32)
    np.testing.assert_allclose(ops.layer_norm(x), normalised(x), rtol=2e-6, atol=4e-6)


def test_first_entry_far_from_the_rest():
    x = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)
    x[:, 0] = 1e6
    np.testing.assert_allclose(ops.layer_norm(x), normalised(x), rtol=1e-4, atol=1e-6)


def test_statistics_of_bfloat16_are_float32():
    x = jnp.asarray(3 + np.random.default_rng(0).normal(size=(4, 1000)), jnp.bfloat16)
    y, res = ops.layer_norm.evaluate(x, jnp.ones(1000, jnp.bfloat16))
    assert y.dtype == jnp.bfloat16 and res.mean.dtype == res.rstd.dtype == jnp.float32
    np.testing.assert_allclose(np.asarray(y, np.float64), normalised(x), rtol=2**-8, atol=1e-5)


def test_beside_its_operands_it_keeps_two_numbers_a_row():
    _, res = ops.layer_norm.evaluate(jnp.zeros((3, 4, 8)), jnp.zeros(8), jnp.zeros(8))
    assert sorted(leaf.shape for leaf in jax.tree.leaves(res)) == [(3, 4, 1), (3, 4, 1), (3, 4, 8), (8,), (8,)]


def test_shapes_that_do_not_fit():
    with pytest.raises(OperandError, match=r"layer_norm: bias of shape \(3,\) for x of shape \(2, 4\); expected \(4,\)"):
        ops.layer_norm(jnp.zeros((2, 4)), None, jnp.zeros(3))
    with pytest.raises(OperandError, match="scalar"):
        ops.layer_norm(jnp.zeros(()))


def test_rms_norm_follows_float64_and_keeps_one_number_a_row():
    x = RNG.normal(size=(3, 4, 64))
    right = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    for dtype, rtol in (("float32", 2e-6), ("bfloat16", 2**-6)):
        y, res = ops.rms_norm.evaluate(jnp.asarray(x, dtype), jnp.ones(64, dtype))
        assert y.dtype == dtype and res.rrms.shape == (3, 4, 1) and res.rrms.dtype == jnp.float32
        np.testing.assert_allclose(np.asarray(y, np.float64), right, rtol=rtol, atol=1e-6)


def test_group_norm_is_layer_norm_of_each_group():
    x = jnp.asarray(5 + RNG.normal(size=(2, 3, 3, 8)), jnp.float32)
    parts = [ops.layer_norm(x[..., i : i + 4].reshape(2, 36)).reshape(2, 3, 3, 4) for i in (0, 4)]
    np.testing.assert_allclose(ops.group_norm(x, groups=2), jnp.concatenate(parts, -1), rtol=1e-5, atol=1e-6)


def test_groups_that_do_not_fit():
    for groups, shape in ((3, (2, 4)), (0, (2, 4)), (1, (4,))):
        with pytest.raises(OperandError, match=f"group_norm: {groups} groups for x"):
            ops.group_norm(jnp.zeros(shape), groups=groups)
    with pytest.raises(OperandError, match=r"rms_norm: scale of shape \(3,\) for x of shape \(2, 4\); expected \(4,\)"):
        ops.rms_norm(jnp.zeros((2, 4)), jnp.zeros(3))
