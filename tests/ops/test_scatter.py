"""Writing at indices: what cases cannot say. NumPy is the judge of the forward."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.lib.errors import OperandError, OutOfRange

X = np.arange(12.0, dtype=np.float32).reshape(3, 4)


def test_traced_indices_write_like_those_of_numpy():
    ids, y = np.array([1, 1, -3, 2, -1]), np.arange(20.0, dtype=np.float32).reshape(5, 4)
    right_set, right_add = X.copy(), X.copy()
    right_set[ids] = y
    np.add.at(right_add, ids, y)
    np.testing.assert_array_equal(jax.jit(ops.index_set)(X, ids, y), right_set)
    np.testing.assert_array_equal(jax.jit(ops.index_add)(X, ids, y), right_add)


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_known_fault_a41_the_last_of_several_writers_stays(kind):
    """Known fault A41: x[[0, 0]] = [5, 7] is 7, and 5 has no cotangent: op by op and compiled, on every device."""
    try:
        device = jax.devices(kind)[0]
    except RuntimeError:
        pytest.skip(f"no {kind} on this machine")

    def walked(x, ids, y, z_bar):
        z, pullback = pb.vjp(lambda x, y: ops.index_set(x, ids, y), x, y)
        return z, *pullback(z_bar)

    with jax.default_device(device):
        x, z_bar, y = jnp.array([1.0, 2.0, 3.0]), jnp.array([10.0, 20.0, 30.0]), jnp.array([5.0, 7.0])
        many, ys = jnp.zeros(5000, int), jnp.arange(5000.0)  # so many that a device has them written at once
        for run in (walked, jax.jit(walked)):
            z, x_bar, y_bar = run(x, jnp.array([0, 0]), y, z_bar)
            assert (z.tolist(), x_bar.tolist(), y_bar.tolist()) == ([7.0, 2.0, 3.0], [0.0, 20.0, 30.0], [0.0, 10.0])
            z, _, y_bar = run(x, many, ys, z_bar)
            assert z[0] == 4999 and y_bar[-1] == 10 and not y_bar[:-1].any()


def test_integers_stay_integers():
    x = np.arange(4, dtype=np.uint8)
    for y in (ops.index_set(x, [0, 0], np.array([7, 9], np.uint8)), ops.index_add(x, 0, 9), ops.index_fill(x, slice(1), 9)):
        assert y.dtype == np.uint8 and y[0] == 9


def test_what_is_written_takes_the_dtype_of_x_and_keeps_its_own_in_the_cotangent():
    y = jnp.ones(4, jnp.bfloat16)
    z, pullback = pb.vjp(lambda x, y: ops.index_add(x, 1, y), jnp.asarray(X), y)
    x_bar, y_bar = pullback(jnp.asarray(X))
    assert (z.dtype, x_bar.dtype, y_bar.dtype) == ("float32", "float32", "bfloat16")
    np.testing.assert_array_equal(y_bar, X[1])


def test_nothing_is_owed_by_a_number():
    z, pullback = pb.vjp(lambda x: ops.index_fill(x, (0, [1, 2]), 5.0), jnp.asarray(X))
    right = X.copy()
    right[0, 1:3] = 5
    np.testing.assert_array_equal(z, right)
    right[0, 1:3] = 0
    np.testing.assert_array_equal(pullback(jnp.asarray(X))[0], right)


def test_a_tracked_scalar_may_be_the_fill():
    _, pullback = pb.vjp(lambda value: ops.index_fill(X, [0, 2], value), jnp.float32(1))
    assert pullback(jnp.asarray(X))[0] == X[[0, 2]].sum()


def test_segments():
    ids = np.array([2, 0, 2])
    right = np.stack([X[1], 0 * X[0], X[0] + X[2], 0 * X[0]])
    np.testing.assert_array_equal(ops.segment_sum(X, ids, 4), right)
    traced = jax.jit(lambda x, ids: ops.segment_sum(x, ids, 2))
    np.testing.assert_array_equal(traced(X, np.array([-1, 1, 2])), [0 * X[0], X[1]])
    _, pullback = pb.vjp(lambda x: ops.segment_sum(x, jnp.array([-1, 1, 2]), 2), jnp.asarray(X))
    np.testing.assert_array_equal(pullback(jnp.asarray(X[:2]))[0], [0 * X[0], X[1], 0 * X[0]])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: ops.index_set(x, 3, 0.0), OutOfRange, "index_set: index 3 for an axis of 3"),
        (lambda x: ops.index_add(x, (0, [4]), 0.0), OutOfRange, "index_add: index 4 for an axis of 4"),
        (lambda x: ops.segment_sum(x, [0, 1, 2], 2), OutOfRange, "segment_sum: indices from 0 to 2 .* expected 0 to 1"),
        (lambda x: ops.segment_sum(x, [0, -1, 1], 2), OutOfRange, "indices from -1 to 1"),
        (lambda x: ops.segment_sum(x, [0, 1], 2), OperandError, r"x has shape \(3, 4\) and ids \(2,\)"),
        (
            lambda x: ops.index_set(x, 0, np.zeros(3)),
            OperandError,
            r"y of shape \(3,\) does not broadcast to the place, which has shape \(4,\)",
        ),
        (lambda x: ops.index_add(x, 0, np.zeros((1, 4))), OperandError, "does not broadcast to the place"),
        (lambda x: ops.index_set(x.astype(int), 0, 0.5), OperandError, "y is float32, which x, of int32, cannot hold"),
        (lambda x: ops.index_fill(x, 0, np.zeros(4)), OperandError, r"a value of shape \(4,\); expected a number"),
    ],
)
def test_what_is_not_taken_says_so(call, error, text):
    with pytest.raises(error, match=text):
        call(jnp.asarray(X))
