"""Order: ties, NaN and odd shapes, against NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.lib.errors import OperandError

NAN, INF = np.nan, np.inf


def x_bar(f, x, y_bar):
    return pb.vjp(f, jnp.asarray(x))[1](jnp.asarray(y_bar, jnp.float32))[0]


def test_ties_each_send_their_cotangent_to_one_place():
    np.testing.assert_array_equal(x_bar(ops.sort, [2.0, 1.0, 2.0, 1.0], [1, 2, 3, 4]), [3, 1, 4, 2])
    np.testing.assert_array_equal(x_bar(lambda x: ops.sort(x, descending=True), [2.0, 1.0, 2.0, 1.0], [1, 2, 3, 4]), [1, 3, 2, 4])
    np.testing.assert_array_equal(x_bar(lambda x: ops.top_k(x, 2).values, [1.0, 3.0, 3.0, 2.0], [10, 20]), [0, 10, 20, 0])
    np.testing.assert_array_equal(x_bar(lambda x: ops.top_k(x, 2, largest=False).values, [3.0, 1.0, 1.0, 1.0], [10, 20]), [0, 10, 20, 0])


def test_an_infinite_cotangent_reaches_one_value():
    np.testing.assert_array_equal(x_bar(lambda x: ops.top_k(x, 1)[0], [1.0, 2.0], [INF]), [0, INF])


def test_nan_is_the_largest():
    x = np.array([1.0, NAN, INF, -INF, 0.0], np.float32)
    np.testing.assert_array_equal(ops.sort(x), np.sort(x))
    np.testing.assert_array_equal(ops.argsort(x), np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(ops.sort(x, descending=True), np.sort(x)[::-1])
    np.testing.assert_array_equal(ops.top_k(x, 2).indices, [1, 2])
    np.testing.assert_array_equal(ops.top_k(x, 2, largest=False).indices, [3, 4])


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float16", "bool"])
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_every_dtype_and_axis(dtype, axis):
    x = np.random.default_rng(0).integers(0, 5, size=(4, 6)).astype(dtype)
    np.testing.assert_array_equal(ops.sort(x, axis), np.sort(x, axis, kind="stable"))
    np.testing.assert_array_equal(ops.argsort(x, axis=axis), np.argsort(x, axis, kind="stable"))
    if axis is not None:
        for largest, order in ((True, np.flip(np.sort(x, axis), axis)), (False, np.sort(x, axis))):
            values, ids = ops.top_k(x, 3, axis, largest=largest)
            np.testing.assert_array_equal(values, np.take(order, range(3), axis))
            np.testing.assert_array_equal(values, np.take_along_axis(x, np.asarray(ids), axis))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.sort(x, 2), "sort: axis 2 of an array with 2 axes"),
        (lambda x: ops.sort(x[0, 0]), "sort: axis -1 of an array with 0 axes; a scalar has none"),
        (lambda x: ops.argsort(x, axis=-3), "argsort: axis -3 of an array with 2 axes"),
        (lambda x: ops.top_k(x, 4), "top_k: k = 4 of an axis of 3; expected 0 to 3"),
        (lambda x: ops.top_k(x, -1), "k = -1"),
    ],
)
def test_what_is_not_taken_says_so(call, text):
    with pytest.raises(OperandError, match=text):
        call(jnp.ones((2, 3)))


def test_methods():
    x = pb.tensor([2.0, 3.0, 1.0])
    ops.sum(x.sort() * jnp.array([1.0, 10.0, 100.0])).backward()
    np.testing.assert_array_equal(x.grad, [10, 100, 1])
    np.testing.assert_array_equal(x.argsort(), [2, 0, 1])
    np.testing.assert_array_equal(x.masked_fill(x > 2, 0.0).detach(), [2, 0, 1])
