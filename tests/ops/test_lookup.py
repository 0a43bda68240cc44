"""NumPy's spelling of indexing: keys, masks, checks of indices, against NumPy itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
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


MASK = X % 3 < 1

MASKED = [
    MASK, MASK[:, 0, 0], (slice(None), MASK[0, :, 0]), (MASK[..., 0], 1), (MASK[..., 0], [0] * int(MASK[..., 0].sum())), (0, MASK[0]),
    (..., MASK[0, 0]), (MASK[:, 0, 0], None, MASK[0, :, 0]), [True, False, True], (0, [False] * 4), True, False, (True, 0), (..., np.True_),
    ([0, 2], None, True), ([0, 1], ..., [1, 2], 0), (None, 0, [1, 2], ..., [1, 2]),
]  # fmt: skip


@pytest.mark.parametrize("key", MASKED, ids=lambda key: str(key)[:40])
def test_masks_and_separations_mean_what_numpy_means(key):
    x = jnp.asarray(X)
    np.testing.assert_array_equal(ops.index(x, key), X[key])
    for y in (7.0, np.arange(np.float32(X[key].size)).reshape(X[key].shape)):
        right = X.copy()
        right[key] = y
        np.testing.assert_array_equal(ops.index_set(x, key, y), right)


def test_a_mask_of_jax_is_taken_where_its_values_are_at_hand():
    np.testing.assert_array_equal(ops.index(jnp.asarray(X), jnp.asarray(MASK)), X[MASK])
    np.testing.assert_array_equal(jax.jit(lambda x: ops.index(x, MASK))(X), X[MASK])


def test_a_tracked_value_is_indexed_by_its_own_mask():
    y, pullback = pb.vjp(lambda x: x[x > 30], jnp.asarray(X))
    np.testing.assert_array_equal(y, X[X > 30])
    np.testing.assert_array_equal(pullback(y)[0], np.where(X > 30, X, 0))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.index(x, 1.0), "an index is float32; expected integers"),
        (lambda x: ops.index(x, (0, 0, 0, 0)), "4 indices for shape"),
        (lambda x: ops.index(x, (..., ...)), "2 times ... in the key"),
        (lambda x: ops.index(x, slice(jnp.int32(1), None, 0.5)), "bounds that are not Python integers"),
        (lambda x: ops.take(x, x), "an index is float32"),
        (lambda x: ops.take(x, 0, 3), "axis 3 of an array with 3 axes"),
        (lambda x: ops.take_along_axis(x, np.zeros((3, 4), int), 1), "x has 3 axes and ids 2"),
        (lambda x: ops.index(x, slice(None, None, 0)), "steps by 0"),
        (lambda x: ops.index(x, {1}), "an index is a set; expected integers"),
        (lambda x: ops.take(x, None), "an index is a NoneType; expected integers"),
        (lambda x: ops.index(x, [[0], [1, 2]]), "a list of indices holds Python's integers, in rows of one length"),
        (lambda x: jax.jit(lambda x, i: ops.index(x, [i, 0]))(x, 1), "for others pass an array"),
        (lambda x: ops.index(x, ([0, 1], [0, 1, 2])), r"index arrays of shapes \(2,\), \(3,\) do not broadcast"),
        (lambda x: ops.index(x, np.ones((4, 3), bool)), r"a mask of shape \(4, 3\) for axes of shape \(3, 4\)"),
        (lambda x: ops.index(x, np.ones((3, 4, 5, 1), bool)), "4 indices for shape"),
        (lambda x: ops.take(x, [True, False]), "an index is bool; expected integers; choose by a mask with where"),
        (lambda x: jax.jit(lambda x: ops.index(x, x > 1))(x), r"a traced mask .* select with where\(mask, x, 0\)"),
        (lambda x: jax.jit(lambda x: ops.index_set(x, x > 1, 0.0))(x), r"index_set: .* masked_fill\(x, mask, 0\)"),
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
