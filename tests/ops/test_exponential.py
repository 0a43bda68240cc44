"""expm1 and its like: digits that a table with an absolute tolerance cannot ask for, and integers."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import ops

TINY = np.array([1e-300, -1e-20, 1e-12, -1e-5])
FAR = np.array([-700.0, -60.0, -30.0, 30.0, 60.0])


def value_and_slope(op, x):
    y, res = op.evaluate(x)
    return y, op.rules["exact"].program((True,))(res, jnp.ones_like(y))[0]


def one(f, xs):
    return np.array([f(x) for x in xs.tolist()])


def test_no_digit_is_lost_near_0(x64):
    np.testing.assert_allclose(ops.expm1(TINY), one(math.expm1, TINY), rtol=1e-15)
    np.testing.assert_allclose(ops.log1p(TINY), one(math.log1p, TINY), rtol=1e-15)
    np.testing.assert_allclose(ops.erf(TINY), one(math.erf, TINY), rtol=1e-15)
    np.testing.assert_allclose(ops.arcsinh(TINY), one(math.asinh, TINY), rtol=1e-15)
    np.testing.assert_allclose(ops.arctanh(TINY), one(math.atanh, TINY), rtol=1e-15)


def test_both_tails_keep_their_digits(x64):
    small = np.exp(-np.abs(FAR))
    y, slope = value_and_slope(ops.sigmoid, jnp.asarray(FAR))
    np.testing.assert_allclose(y, np.where(FAR < 0, small, 1) / (1 + small), rtol=1e-14)
    np.testing.assert_allclose(slope, small / (1 + small) ** 2, rtol=1e-14)
    y, slope = value_and_slope(ops.softplus, jnp.asarray(FAR))
    np.testing.assert_allclose(y, np.maximum(FAR, 0) + np.log1p(small), rtol=1e-14)
    np.testing.assert_allclose(slope, np.where(FAR < 0, small, 1) / (1 + small), rtol=1e-14)
    x = np.array([3.0, 8.0, 20.0])
    np.testing.assert_allclose(ops.erfc(x), one(math.erfc, x), rtol=1e-13)
    np.testing.assert_allclose(value_and_slope(ops.arcsinh, jnp.array([1e10, -1e200]))[1], [1e-10, 1e-200], rtol=1e-12)


@pytest.mark.parametrize("name", ["silu", "mish", "gelu_erf"])
def test_the_gates_keep_their_digits_below_0(name, x64):
    x = np.array([-30.0, -20.0, -10.0, -5.0])
    phi = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    e = np.exp(x)
    right = {
        "silu": (x * e / (1 + e), e / (1 + e) * (1 + x / (1 + e))),
        "mish": (x * np.tanh(np.log1p(e)), np.tanh(np.log1p(e)) + x * e / (1 + e) / np.cosh(np.log1p(e)) ** 2),
        "gelu_erf": (x * one(below, x), one(below, x) + x * phi),
    }[name]
    y, slope = value_and_slope(ops.REGISTRY[name], jnp.asarray(x))
    np.testing.assert_allclose(y, right[0], rtol=1e-12)
    np.testing.assert_allclose(slope, right[1], rtol=1e-12)


def below(x):
    return math.erfc(-x * math.sqrt(0.5)) / 2


@pytest.mark.parametrize(
    "name", ["sigmoid", "softplus", "erf", "erfc", "expm1", "log1p", "silu", "mish", "gelu_erf", "elu", "sin", "arctan"]
)
def test_integers_and_numbers_give_floats(name):
    op = ops.REGISTRY[name]
    assert jnp.issubdtype(op(jnp.arange(3)).dtype, jnp.floating)
    np.testing.assert_allclose(op(jnp.arange(3)), op(jnp.arange(3.0)), rtol=1e-6)
    np.testing.assert_allclose(op(2), op(jnp.array(2.0)), rtol=1e-6)
    with jax.enable_x64(True):
        np.testing.assert_allclose(op(0.5), op(np.float64(0.5)), rtol=1e-6)
