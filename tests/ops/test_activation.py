"""GELU: its surrogates, and values beyond the table's."""

import jax
import jax.numpy as jnp
import numpy as np

from pullback import ops

X = np.linspace(-6, 6, 241)


def slope(rule):
    with jax.enable_x64(True):
        x = jnp.asarray(X)
        _, res = ops.gelu.evaluate(x, rule=rule)
        return np.asarray(ops.gelu.rules[rule].program((True,))(res, jnp.ones_like(x))[0])


def test_erf_slope_is_the_slope_of_the_erf_form():
    with jax.enable_x64(True):
        theirs = jax.vmap(jax.grad(lambda x: jax.nn.gelu(x, approximate=False)))(jnp.asarray(X))
        np.testing.assert_allclose(slope("erf_slope"), theirs, rtol=1e-12, atol=1e-15)


def test_erf_slope_is_as_far_off_as_it_says():
    gap = np.abs(slope("erf_slope") - slope("exact")).max()
    assert 8.6e-4 < gap < 8.7e-4


def test_erf_slope_has_limits():
    x = jnp.array([-np.inf, np.inf, -100.0, 100.0])
    _, res = ops.gelu.evaluate(x, rule="erf_slope")
    np.testing.assert_array_equal(ops.gelu.rules["erf_slope"].program((True,))(res, 2 + jnp.zeros(4))[0], [0, 2, 0, 2])


def test_straight_through_keeps_nothing():
    y, res = ops.gelu.evaluate(jnp.asarray(X), rule="straight_through")
    assert not jax.tree.leaves(res)
    y_bar = jnp.asarray(np.random.default_rng(0).normal(size=y.shape), y.dtype)
    np.testing.assert_array_equal(ops.gelu.rules["straight_through"].program((True,))(res, y_bar)[0], y_bar)


def test_integers_give_floats():
    np.testing.assert_allclose(ops.gelu(jnp.arange(3)), ops.gelu(jnp.arange(3.0)))
