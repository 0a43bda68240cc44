"""Softmax beyond its cases."""

import jax.numpy as jnp
import numpy as np
import pytest

from pullback import ops
from pullback.lib.errors import OperandError


def test_rows_sum_to_one_in_bfloat16():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 3000)), jnp.bfloat16)
    total = np.asarray(ops.softmax(x), np.float64).sum(-1)
    np.testing.assert_allclose(total, 1, rtol=2e-3)  # each entry is rounded; sums in bfloat16 would be off by a factor


def test_axis_that_is_not_there():
    with pytest.raises(OperandError, match="softmax: axis 2 of an array with 2 axes"):
        ops.softmax(jnp.zeros((2, 3)), axis=2)


def test_integers_give_floats():
    np.testing.assert_allclose(ops.softmax(jnp.arange(3)), ops.softmax(jnp.arange(3.0)))
