"""Products with zeros in them to every order, running sums and products against NumPy, and the linear recurrence."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.lib.errors import OperandError

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)


def test_a_product_is_right_at_zeros_to_third_order():
    """∂ⁿ/∂x_i∂x_j… of Π x is the product of the others, 0 where an index comes twice."""
    orders = jax.jit(lambda x: [pb.grad(ops.prod)(x), pb.hessian(ops.prod)(x), pb.jacobian(pb.hessian(ops.prod))(x)])
    for zeros in ([], [1], [0, 3], [0, 1, 2, 3]):
        x = np.array([2.0, 3.0, 5.0, 7.0], np.float32)
        x[zeros] = 0.0
        for order, found in enumerate(orders(x), 1):
            for index in itertools.product(range(4), repeat=order):
                others = [x[k] for k in range(4) if k not in index]
                assert found[index] == (math.prod(others) if len(set(index)) == order else 0), f"∂{index} with zeros at {zeros}"


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_running_sums_and_products_are_those_of_numpy(axis):
    for name in ("cumsum", "cumprod"):
        ours, theirs = getattr(ops, name), getattr(np, name)
        np.testing.assert_allclose(ours(X, axis=axis), theirs(X, axis), rtol=1e-5, atol=1e-5)
        ints = np.arange(1, 7, dtype=np.int8).reshape(2, 3)
        if axis != -1:
            np.testing.assert_array_equal(ours(ints, axis=axis), theirs(ints, axis))  # sums of int8 are wider
        backwards = ours(X.reshape(6, 4), axis=0, reverse=True)
        np.testing.assert_allclose(backwards, theirs(X.reshape(6, 4)[::-1], 0)[::-1], rtol=1e-5, atol=1e-5)


def test_the_rule_of_cumprod_survives_what_a_quotient_would_not():
    """Leave-one-out products by brute force, with zeros in several places."""
    x = np.array([1.5, 0.0, -2.0, 0.0, 3.0], np.float32)
    y_bar = np.array([1.0, -2.0, 3.0, 5.0, -7.0], np.float32)
    x_bar = [sum(y_bar[i] * np.prod(np.delete(x[: i + 1], k)) for i in range(k, 5)) for k in range(5)]
    np.testing.assert_allclose(pb.vjp(lambda x: ops.cumprod(x, axis=0), x)[1](y_bar)[0], x_bar, rtol=1e-6)


def test_a_linear_recurrence_is_a_loop():
    a, b = X[0], X[1]
    for axis, reverse in ((0, False), (1, True)):
        rows = range(a.shape[axis])
        h, hs = 0.0, {}
        for k in reversed(rows) if reverse else rows:
            h = np.take(a, k, axis) * h + np.take(b, k, axis)
            hs[k] = h
        np.testing.assert_allclose(
            ops.linear_recurrence(a, b, axis=axis, reverse=reverse), np.stack([hs[k] for k in rows], axis), rtol=1e-5, atol=1e-6
        )


def test_other_dtypes():
    assert ops.prod(jnp.arange(1, 5)) == 24 and ops.prod(jnp.arange(1, 5)).dtype == jnp.int32
    assert ops.prod(np.array([True, False])) == 0
    assert ops.cumsum(np.array([True, True]), axis=0).tolist() == [1, 2]
    for op in (ops.cumsum, ops.cumprod):
        assert op(X.astype(jnp.bfloat16), axis=0).dtype == jnp.bfloat16
    assert ops.linear_recurrence(X.astype(jnp.float16), X.astype(jnp.bfloat16)).dtype == jnp.float32
    assert ops.linear_recurrence(np.ones((2, 2), int), np.ones((2, 2), int)).tolist() == [[1, 2], [1, 2]]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ops.prod(X, axis=3), "prod: axis 3 of an array with 3 axes"),
        (lambda: ops.cumsum(X, axis=-4), "cumsum: axis -4"),
        (lambda: ops.cumprod(X, axis=3), "cumprod: axis 3"),
        (lambda: ops.cumsum(X, 0), "statics such as axis go by keyword"),
        (lambda: ops.linear_recurrence(X, X[0]), r"linear_recurrence: a of shape \(2, 3, 4\), b of shape \(3, 4\); expected one shape"),
        (lambda: ops.linear_recurrence(1.0, 2.0), "expected one shape with an axis"),
        (lambda: ops.linear_recurrence(X, X, axis=3), "linear_recurrence: axis 3"),
    ],
)
def test_what_is_not_taken_says_so(call, text):
    with pytest.raises(OperandError, match=text):
        call()
