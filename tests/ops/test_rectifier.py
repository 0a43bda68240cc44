"""clip in NumPy's spellings, steps in NumPy's values, powers of numbers, integers that stay integers, and bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.lib.errors import OperandError

X = np.array([-3.0, -1.0, -0.25, 0.0, 0.5, 2.0, 7.0])


def test_clip_takes_bounds_as_numpy_does(x64):
    for bounds in ((-1, 2), (None, 2.0), (-1.0, None), (X[::-1] - 1, 2)):
        ours = ops.clip(X, *bounds)
        np.testing.assert_array_equal(ours, np.clip(X, *bounds))
        np.testing.assert_array_equal(ops.clip(X, min=bounds[0], max=bounds[1]), ours)
        assert ours.dtype == X.dtype
    np.testing.assert_array_equal(ops.clip(X, max=1), np.minimum(X, 1))
    np.testing.assert_array_equal(ops.clip(X), X)


def test_clip_by_method_and_its_gradient():
    f = lambda x, low: ops.sum(ops.clip(x, low, max=2) * jnp.arange(7.0))
    x_bar, low_bar = pb.grad(f, argnums=(0, 1))(jnp.asarray(X, jnp.float32), jnp.float32(-1))
    np.testing.assert_array_equal(x_bar, [0, 1, 2, 3, 4, 5, 0])
    assert low_bar == 0
    np.testing.assert_array_equal(pb.grad(lambda x: ops.sum(x.clip(-1, max=2) * jnp.arange(7.0)))(jnp.asarray(X, jnp.float32)), x_bar)
    assert pb.grad(f, argnums=1)(jnp.asarray(X, jnp.float32), jnp.float32(0.25)) == 0 + 1 + 2 + 3


@pytest.mark.parametrize("name", ["relu", "sign", "floor", "ceil", "round", "trunc", "square"])
def test_integers_stay_integers(name):
    x = jnp.array([-2, 0, 3], jnp.int32)
    y = getattr(ops, name)(x)
    assert y.dtype == jnp.int32
    np.testing.assert_array_equal(y, np.maximum(x, 0) if name == "relu" else getattr(np, name)(np.asarray(x)))
    assert ops.clip(x, 0, 1).dtype == jnp.int32


@pytest.mark.parametrize("name", ["sign", "floor", "ceil", "round", "trunc"])
def test_steps_have_numpys_values_in_every_dtype(name):
    for dtype in ("float32", "float16", "bfloat16"):
        x = jnp.asarray([-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5, 3.75], dtype)
        y = getattr(ops, name)(x)
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y.astype("float32"), getattr(np, name)(np.asarray(x, "float32")))


def test_a_step_teaches_nothing_but_straight_through_does():
    f = lambda x: ops.sum(ops.round(x * 3.0) * jnp.arange(7.0))
    x = jnp.asarray(X, jnp.float32)
    np.testing.assert_array_equal(pb.grad(f)(x), np.zeros(7))
    with pb.rules({"round": "straight_through"}):
        np.testing.assert_array_equal(pb.grad(f)(x), 3 * np.arange(7))


def test_pow_compiles_a_number_in_and_takes_an_array_as_an_operand(x64):
    x = np.array([0.5, 1.5, 2.0])
    x_bar, y_bar = pb.grad(lambda x, y: ops.sum(ops.pow(x, y)), argnums=(0, 1))(x, jnp.array(3.0))
    np.testing.assert_allclose(x_bar, 3 * x**2)
    np.testing.assert_allclose(y_bar, np.sum(x**3 * np.log(x)))
    np.testing.assert_allclose(pb.grad(lambda x: ops.sum(x**3 + 2**x))(x), 3 * x**2 + 2**x * np.log(2))
    assert "pow_constant" in str(jax.make_jaxpr(lambda x: ops.pow(x, 3))(x))
    np.testing.assert_array_equal(ops.pow(jnp.array([2, 3]), 2), [4, 9])
    with pytest.raises(OperandError, match=r"pow: int\d\d to the power -1; expected a float array, or the power as a float \(-1\.0\)"):
        ops.pow(jnp.array([2, 3]), -1)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: ops.clip(X, [0.0, 1.0]), "clip: operand 1 is a list; pass an array"),
        (lambda: ops.clip(X, np.zeros(2)), r"clip: shapes \(7,\), \(2,\) do not broadcast"),
        (lambda: ops.relu(X.astype(complex)), "relu: operand 0 is complex64; Pullback is for real numbers"),
        (
            lambda: ops.leaky_relu(X, 0.1),
            r"leaky_relu\(x, \*, negative_slope\) was called with 2 operands; statics such as axis go by keyword",
        ),
        (lambda: ops.leaky_relu(X, slope=0.1), "leaky_relu has no static 'slope'; did you mean 'negative_slope'"),
        (lambda: ops.elu(X, alpha=np.ones(2)), "elu: static alpha is a ndarray; pass something hashable"),
    ],
)
def test_bad_input_is_named(call, text):
    with pytest.raises(OperandError, match=text):
        call()
