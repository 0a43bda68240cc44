"""NumPy's spelling: sequences and counts, against NumPy itself."""

import jax.numpy as jnp
import numpy as np
import pytest

from pullback import ops
from pullback.lib.errors import OperandError

X = np.arange(60.0, dtype=np.float32).reshape(3, 4, 5)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.split(x, 2), "does not fall into 2 equal pieces"),
        (lambda x: ops.split(x, (1, 1)), "add up to 2; axis 0 of shape .* has 3"),
        (lambda x: ops.concatenate([x, x[:, :2]]), "differ outside axis 0"),
        (lambda x: ops.concatenate([]), "expected one or more arrays"),
        (lambda x: ops.stack([x, x[0]]), "expected one or more arrays of one shape"),
        (lambda x: ops.stack([]), "nothing; expected"),
        (lambda x: ops.squeeze(x, 0), "not of size 1"),
    ],
)
def test_what_is_not_taken_says_so(call, text):
    with pytest.raises(OperandError, match=text):
        call(jnp.asarray(X))


def test_sequences_and_counts():
    np.testing.assert_array_equal(ops.concatenate([X, X], -1), np.concatenate([X, X], -1))
    np.testing.assert_array_equal(ops.stack([X, X], 1), np.stack([X, X], 1))
    for ours, theirs in zip(ops.unstack(X, 1), np.moveaxis(X, 1, 0), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(ops.split(X, 2, 1), np.split(X, 2, 1), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(ops.split(X, [1, 3], -2), np.split(X, [1], 1), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_axes_come_and_go():
    for axis in (0, -1, 2, (0, 2), (-1, 1)):
        np.testing.assert_array_equal(ops.expand_dims(X, axis), np.expand_dims(X, axis))
    y = X[:1, :, None]
    for axis in (None, 0, 2, (0, 2), -2):
        np.testing.assert_array_equal(ops.squeeze(y, axis), np.squeeze(y, axis))
    np.testing.assert_array_equal(ops.swapaxes(X, 0, -1), np.swapaxes(X, 0, -1))
    np.testing.assert_array_equal(ops.swapaxes(X, 1, 1), X)


def test_astype_picks_the_op_by_the_dtype():
    assert ops.astype(X, jnp.bfloat16).dtype == jnp.bfloat16
    np.testing.assert_array_equal(ops.astype(X, int), X.astype(int))
    assert ops.astype(X, "bool").dtype == bool
    assert ops.astype(jnp.arange(3), "float32").dtype == jnp.float32


def test_the_matrix_product_follows_the_policy(monkeypatch):
    """The precision in force when a program is traced is the one that it has, and switching finds another program."""
    from pullback.lib.precision import precision

    x = jnp.ones((2, 2))
    text = lambda: ops.matmul.forward.program.lower(x, x).as_text()
    assert "HIGHEST" in text()
    with precision("tf32"):
        assert "HIGHEST" not in text()
    assert "HIGHEST" in text()
