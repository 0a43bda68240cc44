"""Variance, standard deviation, norms and counts against NumPy; second derivatives at their kinks; what is refused."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.lib.errors import OperandError

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
WAYS = [(None, False, 1), (0, True, 1.5), (-1, False, 1), ((0, 2), True, 0), ((), False, 0)]  # axis, keepdims, correction


@pytest.mark.parametrize(("axis", "keepdims", "correction"), WAYS)
def test_they_are_those_of_numpy(axis, keepdims, correction):
    statics = {"axis": axis, "keepdims": keepdims}
    for name in ("var", "std"):
        theirs = getattr(np, name)(X, ddof=correction, **statics)
        np.testing.assert_allclose(getattr(ops, name)(X, correction=correction, **statics), theirs, rtol=1e-5, atol=1e-6)
    sizes = np.abs(X)
    norms = {1: np.sum(sizes, **statics), 2: np.sqrt(np.sum(X * X, **statics)), math.inf: np.max(sizes, **statics)}
    for ord, theirs in norms.items():
        np.testing.assert_allclose(ops.vector_norm(X, ord=ord, **statics), theirs, rtol=1e-5)
    marks = np.round(X)
    for name in ("any", "all", "count_nonzero"):
        np.testing.assert_array_equal(getattr(ops, name)(marks, **statics), getattr(np, name)(marks, **statics))
    np.testing.assert_array_equal(ops.count(marks > 0, **statics), np.count_nonzero(marks > 0, **statics))


def test_integers_and_narrow_floats():
    ints = np.arange(6).reshape(2, 3)
    np.testing.assert_allclose(ops.var(ints, axis=1), np.var(ints, axis=1), rtol=1e-6)
    np.testing.assert_allclose(ops.std(ints), np.std(ints), rtol=1e-6)
    np.testing.assert_allclose(ops.norm(ints), np.linalg.norm(ints), rtol=1e-6)
    for op in (ops.var, ops.std, ops.norm):
        assert op(X.astype(jnp.bfloat16)).dtype == jnp.bfloat16
        assert op(ints).dtype == jnp.float32
    with jax.enable_x64(True):
        for op in (ops.var, ops.std, ops.norm):
            assert op(X.astype(np.float64)).dtype == np.float64


@pytest.mark.parametrize("f", [ops.norm, ops.std, lambda x: ops.norm(x, axis=0) + ops.std(x, axis=0)])
def test_no_order_of_derivative_is_nan_at_the_kink(f):
    """There is none there; 0 is given, so that a row at 0 spoils nothing beside it."""
    for x in (jnp.zeros(3), jnp.full(3, 0.1)) if f is ops.std else (jnp.zeros(3),):
        assert not np.asarray(pb.grad(f)(x)).any()
        assert not np.asarray(jax.jit(pb.hessian(f))(x)).any()


def test_a_constant_far_from_0_has_no_variance():
    for value in (0.1, 1e4 + 0.3, 1e30):
        assert ops.var(np.full(7, value, np.float32)) == 0
        assert ops.std(np.full(7, value, np.float32), correction=1) == 0


def test_large_and_small_numbers_have_a_norm():
    for size in (1e30, 1e-30):
        x = np.array([3, 4], np.float32) * np.float32(size)
        np.testing.assert_allclose(ops.norm(x), 5 * np.float32(size), rtol=1e-6)
        np.testing.assert_allclose(pb.grad(ops.norm)(x), [0.6, 0.8], rtol=1e-6)
        np.testing.assert_allclose(ops.std(x - x[0]), np.float32(size) / 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ops.var(X, axis=3), "var: axis 3 of an array with 3 axes"),
        (lambda: ops.std(X, axis=(0, -3)), "std: axis .* names an axis twice"),
        (lambda: ops.norm(X, axis=3), "norm: axis 3"),
        (lambda: ops.vector_norm(X, ord=3), "vector_norm: ord 3; expected 1, 2 or math.inf"),
        (lambda: ops.count_nonzero(X, axis=3), "count_nonzero: axis 3"),
        (lambda: ops.any(X, axis=3), "any: axis 3"),
        (lambda: ops.all(X, axis=3), "all: axis 3"),
        (lambda: ops.var(X, ddof=1), "var has no static 'ddof'"),
    ],
)
def test_what_is_not_taken_says_so(call, text):
    with pytest.raises(OperandError, match=text):
        call()
