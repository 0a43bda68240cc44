"""Dropout's mask belongs to the example: no split, dtype, rerun or flag changes it, and the backward uses the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import ops
from pullback.lib.errors import KeyIdentityError, OperandError

KEY = jax.random.key(3)


def mask(shape, first=None, key=KEY, rate=0.4, dtype="float32"):
    return np.asarray(ops.dropout(jnp.ones(shape, dtype), key, first, rate=rate)) != 0


WHOLE = mask((6, 50))


def test_another_split_draws_the_same_mask():
    np.testing.assert_array_equal(np.concatenate([mask((1, 50)), mask((3, 50), 1), mask((2, 50), jnp.int32(4))]), WHOLE)


def test_dtype_flag_and_kind_of_key_do_not_matter():
    np.testing.assert_array_equal(mask((6, 50), dtype="bfloat16"), WHOLE)
    np.testing.assert_array_equal(mask((6, 50), key=jax.random.key_data(KEY)), WHOLE)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(mask((6, 50), dtype="float64"), WHOLE)


def test_examples_and_keys_differ():
    assert len({row.tobytes() for row in WHOLE}) == 6
    assert (mask((6, 50), key=jax.random.key(4)) != WHOLE).any()


def test_backward_uses_the_forwards_mask_and_keeps_no_mask():
    rng = np.random.default_rng(0)
    x, y_bar = (jnp.asarray(rng.normal(size=(6, 50)), jnp.float32) for _ in range(2))
    y, res = ops.dropout.evaluate(x, KEY, 0, rate=0.4)
    x_bar, *_ = ops.dropout.rules["exact"].program((True, False, False))(res, y_bar, rate=0.4)
    np.testing.assert_array_equal(np.asarray(y) != 0, WHOLE)
    np.testing.assert_allclose(x_bar, np.where(WHOLE, y_bar / 0.6, 0), rtol=1e-6)
    assert len(jax.tree.leaves(res)) == 2, "a key and a number"


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
def test_keeps_as_many_as_it_says(rate):
    n = 200_000
    kept = mask((4, n // 4), rate=rate).mean()
    assert abs(kept - (1 - rate)) < 5 * np.sqrt(rate * (1 - rate) / n)


@pytest.mark.parametrize(
    "x, key, rate, error, text",
    [
        (np.zeros(3), KEY, 1.5, OperandError, "rate 1.5; expected a probability"),
        (np.zeros(3), None, 0.5, KeyIdentityError, "no key"),
        (np.zeros(()), KEY, 0.5, OperandError, "scalar"),
    ],
)
def test_bad_calls(x, key, rate, error, text):
    with pytest.raises(error, match=text):
        ops.dropout(jnp.asarray(x), key, rate=rate)
