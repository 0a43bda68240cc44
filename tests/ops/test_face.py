"""NumPy's spelling: keys, sequences, checks of indices, against NumPy itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import ops
from pullback.lib.errors import OperandError, OutOfRange

X = np.arange(60.0, dtype=np.float32).reshape(3, 4, 5)

KEYS = [
    0, -1, slice(None), slice(1, None), slice(None, None, -1), slice(-1, None, -2), slice(3, 1), ..., None,
    (0, 1), (0, ..., -1), (..., None), (None, 1, None, slice(0, 2)), (slice(None), 2), (slice(None, None, 2), slice(1, 3), 4), (),
    [0, 2], [[0, 1], [2, 0]], (0, [1, 3]), ([0, 2], 0), ([0, 1], [2, 3]), ([0, 2], slice(None), [1, 4]), (0, slice(None), [1, 4]),
    (slice(None), [0, -1], slice(1, 4)), (..., [0, -5]), ([[0], [1]], [[1, 2]]), (None, [1], None),
    np.int64(2), np.array(1), np.array([], int),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_index_means_what_numpy_means(key):
    np.testing.assert_array_equal(ops.index(jnp.asarray(X), key), X[key])


def test_index_takes_indices_that_are_only_known_later():
    get = jax.jit(lambda x, i: ops.index(x, (i, slice(None), i)))
    np.testing.assert_array_equal(get(X, jnp.array([1, -1])), X[[1, -1], :, [1, -1]])


def test_python_indices_do_not_compile_a_program_each():
    ops.index(jnp.asarray(X), (0, 0))
    before = ops.REGISTRY["index"].forward.program._cache_size()
    for i in range(4):
        ops.index(jnp.asarray(X), (1, i))
    assert ops.REGISTRY["index"].forward.program._cache_size() == before


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.index(x, 3), "index 3 for an axis of 3; expected -3 to 2"),
        (lambda x: ops.index(x, (0, -5)), "index -5 for an axis of 4"),
        (lambda x: ops.index(x, [0, 3]), "indices from 0 to 3 for an axis of 3"),
        (lambda x: ops.take(x, 5, 2), "index 5 for an axis of 5"),
        (lambda x: ops.take(x, np.array([-4])), "index -4 for an axis of 3"),
        (lambda x: ops.take(x[:0], 0), "for an axis that is empty"),
        (lambda x: ops.take_along_axis(x, np.full((3, 4, 1), 5), 2), "index 5 for an axis of 5"),
    ],
)
def test_an_index_beyond_the_end_is_an_error(call, text):
    with pytest.raises(OutOfRange, match=text):
        call(jnp.asarray(X))
    with pytest.raises(IndexError):
        call(jnp.asarray(X))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.index(x, x > 1), "an index is bool; expected integers; choose by a mask with where"),
        (lambda x: ops.index(x, True), "an index is bool"),
        (lambda x: ops.index(x, 1.0), "an index is float32; expected integers"),
        (lambda x: ops.index(x, (0, 0, 0, 0)), "4 indices for shape"),
        (lambda x: ops.index(x, (..., ...)), "2 times ... in the key"),
        (lambda x: ops.index(x, slice(jnp.int32(1), None, 0.5)), "bounds that are not Python integers"),
        (lambda x: ops.take(x, x), "an index is float32"),
        (lambda x: ops.take(x, 0, 3), "axis 3 of an array with 3 axes"),
        (lambda x: ops.take_along_axis(x, np.zeros((3, 4), int), 1), "x has 3 axes and ids 2"),
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


def test_one_rule_for_an_index_out_of_range():
    """However it is looked up: NaN forward, or the fill, and no cotangent back."""
    x, ids = jnp.array([1.0, 2.0, 3.0]), jnp.array([3, -4, -1])
    for y in (ops.take(x, ids), ops.index(x, ids), ops.take_along_axis(x, ids, 0)):
        np.testing.assert_array_equal(y, [np.nan, np.nan, 3.0])
    for y in (ops.take(x, ids, fill=0.5), ops.index(x, ids, fill=0.5), ops.take_along_axis(x, ids, 0, fill=0.5)):
        np.testing.assert_array_equal(y, [0.5, 0.5, 3.0])


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


def test_embedding_is_a_table_of_rows():
    ids = np.array([[1, 1], [0, 2]])
    np.testing.assert_array_equal(ops.embedding(X[0], ids), X[0][ids])


def test_the_matrix_product_follows_the_policy(monkeypatch):
    """The precision in force when a program is traced is the one that it has, and switching finds another program."""
    from pullback.lib.precision import precision

    x = jnp.ones((2, 2))
    text = lambda: ops.matmul.forward.program.lower(x, x).as_text()
    assert "HIGHEST" in text()
    with precision("tf32"):
        assert "HIGHEST" not in text()
    assert "HIGHEST" in text()
