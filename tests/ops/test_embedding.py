"""Tables: padding rows, bags, classes; what cases cannot say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.lib.errors import OperandError, OutOfRange

W = np.arange(1.0, 9.0, dtype=np.float32).reshape(4, 2)
IDS = np.array([[0, 1, 1], [3, -4, 2]])
PADDING = np.array([[True, False, False], [False, True, False]])
Y_BAR = np.random.default_rng(0).normal(size=(2, 3, 2)).astype(np.float32)


def w_bar(f, y_bar, *more):
    return pb.vjp(f, jnp.asarray(W), *map(jnp.asarray, more))[1](jnp.asarray(y_bar))


@pytest.mark.parametrize("padding_idx", [0, -4])
@pytest.mark.parametrize("ids", [IDS, jnp.asarray(IDS)], ids=["numpy", "jax"])
def test_a_padding_row_is_looked_up_and_has_no_cotangent(ids, padding_idx):
    f = lambda w: ops.embedding(w, ids, padding_idx=padding_idx)
    np.testing.assert_array_equal(f(W), W[IDS])
    right = np.zeros_like(W)
    np.add.at(right, IDS, np.where(PADDING[..., None], 0, Y_BAR))
    np.testing.assert_allclose(w_bar(f, Y_BAR)[0], right, rtol=1e-6)


def test_a_cotangent_at_padding_is_not_multiplied_away():
    y_bar = np.where(PADDING[..., None], np.inf, Y_BAR)
    np.testing.assert_array_equal(w_bar(lambda w: ops.embedding(w, IDS, padding_idx=0), y_bar)[0][0], [0, 0])


def test_padding_counts_in_no_bag():
    kept = ~PADDING[..., None]
    total, count = (W[IDS] * kept).sum(1), kept.sum(1)
    np.testing.assert_allclose(ops.embedding_bag(W, IDS, padding_idx=0), total)
    np.testing.assert_allclose(ops.embedding_bag(W, IDS, mode="mean", padding_idx=0), total / count)
    np.testing.assert_array_equal(ops.embedding_bag(W, np.zeros((1, 2), int), mode="mean", padding_idx=0), [[0, 0]])
    y_bar = Y_BAR[:, 0]
    for mode, share in (("sum", np.ones((2, 1), np.float32)), ("mean", 1 / count.astype(np.float32))):
        right = np.zeros_like(W)
        np.add.at(right, IDS, kept * (y_bar * share)[:, None])
        f = lambda w, mode=mode: ops.embedding_bag(w, IDS, mode=mode, padding_idx=0)
        np.testing.assert_allclose(w_bar(f, y_bar)[0], right, rtol=1e-6)


def test_weights_of_padding_have_no_cotangent():
    y_bar, weights = Y_BAR[:, 0], Y_BAR[..., 1]
    _, bar = w_bar(lambda w, weights: ops.embedding_bag(w, IDS, weights, padding_idx=0), y_bar, weights)
    np.testing.assert_allclose(bar, np.where(PADDING, 0, np.einsum("bd,bnd->bn", y_bar, W[IDS])), rtol=1e-5)


def test_a_narrow_bag_is_added_up_wide():
    ones = np.ones((1, 1), np.float16)
    np.testing.assert_array_equal(ops.embedding_bag(ones, np.zeros((1, 4096), int)), [[4096]])


def test_one_hot_is_a_comparison():
    np.testing.assert_array_equal(ops.one_hot([[2, 0]], 3), np.eye(3, dtype=np.float32)[[[2, 0]]])
    np.testing.assert_array_equal(ops.one_hot(jnp.array([3, -1, 1]), 3), [[0, 0, 0], [0, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(ops.one_hot(1, 2, dtype=bool), [False, True])
    assert ops.one_hot(1, 2, dtype=jnp.bfloat16).dtype == jnp.bfloat16
    assert "scatter" not in jax.jit(lambda ids: ops.one_hot(ids, 3)).lower(jnp.arange(3)).as_text()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ops.embedding(W, [4]), OutOfRange, "embedding: index 4 for an axis of 4"),
        (lambda: ops.embedding(W, [0], padding_idx=4), OutOfRange, "padding_idx 4 of a table of 4 rows; expected -4 to 3"),
        (lambda: ops.embedding_bag(W, [[0, 4]]), OutOfRange, "embedding_bag: indices from 0 to 4"),
        (lambda: ops.embedding_bag(W, IDS, mode="max"), OperandError, "mode 'max'; expected 'sum' or 'mean'"),
        (lambda: ops.embedding_bag(W, IDS, Y_BAR[..., 0], mode="mean"), OperandError, "weights go with mode 'sum' only"),
        (lambda: ops.embedding_bag(W, IDS, Y_BAR), OperandError, r"ids of shape \(2, 3\) with weights of shape \(2, 3, 2\)"),
        (lambda: ops.embedding_bag(W, 1), OperandError, r"ids of shape \(\); expected bags along the last axis"),
        (lambda: ops.one_hot([0, 3], 3), OutOfRange, "one_hot: indices from 0 to 3 for an axis of 3; expected 0 to 2"),
        (lambda: ops.one_hot(-1, 3), OutOfRange, "one_hot: index -1"),
        (lambda: ops.one_hot(1.0, 3), OperandError, "an index is float32"),
    ],
)
def test_what_is_not_taken_says_so(call, error, text):
    with pytest.raises(error, match=text):
        call()
