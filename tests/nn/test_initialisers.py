"""First values: moments of large draws, and the same draws as jax's own initialisers."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback.lib.errors import ConfigError, UnknownName
from pullback.nn import initialisers

KEY = jax.random.key(7)
FAMILY = ["lecun_normal", "lecun_uniform", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform"]


@pytest.mark.parametrize("name", FAMILY)
def test_same_draws_as_jax_for_weights_that_are_out_in(name):
    theirs = getattr(jax.nn.initializers, name)(in_axis=1, out_axis=0)
    ours = getattr(initialisers, name)()
    for shape in ((96, 40), (8, 6, 3, 2)):  # the fans differ
        np.testing.assert_allclose(ours(KEY, shape), theirs(KEY, shape), rtol=2e-6)


@pytest.mark.parametrize("mode", ["fan_in", "fan_out", "fan_avg"])
@pytest.mark.parametrize("distribution", ["normal", "truncated_normal", "uniform"])
def test_variance_scaling_has_the_variance_that_it_says(mode, distribution):
    out, width, window = 30, 50, 100
    fan = {"fan_in": width, "fan_out": out, "fan_avg": (width + out) / 2}[mode] * window
    x = np.asarray(initialisers.variance_scaling(1.5, mode, distribution)(KEY, (out, width, window)), np.float64)
    std = math.sqrt(1.5 / fan)
    moments_are(x, 0.0, std)
    bound = {"normal": 9.0, "truncated_normal": 2 / 0.8796, "uniform": math.sqrt(3)}[distribution] * std
    assert 0.97 < np.abs(x).max() / bound <= 1.0001 or distribution == "normal"


def moments_are(x, mean: float, std: float):
    """Mean and standard deviation of n draws within 5 of their own standard errors (kurtosis at most 3)."""
    n = x.size
    assert n > 10_000
    assert abs(x.mean() - mean) < 5 * std / math.sqrt(n)
    assert abs(x.std() - std) < 5 * std / math.sqrt(2 * n)


def test_plain_distributions_have_their_moments():
    shape = (200, 1000)
    draw = lambda initialiser: np.asarray(initialiser(KEY, shape), np.float64)
    moments_are(draw(initialisers.normal(0.02)), 0.0, 0.02)
    cut = draw(initialisers.truncated_normal(0.02))
    moments_are(cut, 0.0, 0.02 * initialisers.TRUNCATED_STD)
    assert 0.0399 < np.abs(cut).max() <= 0.04
    one_sided = draw(initialisers.truncated_normal(1.0, 0.0, 9.0))  # half-normal: mean √(2/π), variance 1 − 2/π
    moments_are(one_sided, math.sqrt(2 / math.pi), math.sqrt(1 - 2 / math.pi))
    flat = draw(initialisers.uniform(-1.0, 3.0))
    moments_are(flat, 1.0, 4 / math.sqrt(12))
    assert -1 <= flat.min() < -0.999 and 2.999 < flat.max() <= 3
    assert np.all(draw(initialisers.zeros) == 0) and np.all(draw(initialisers.ones) == 1)


def test_truncated_std_is_jax_s():
    assert initialisers.TRUNCATED_STD == pytest.approx(0.87962566103423978, rel=1e-14)


def test_draws_depend_on_the_key_alone():
    initialiser = initialisers.he_normal()
    first = initialiser(KEY, (6, 5))
    np.testing.assert_array_equal(first, initialiser(jax.random.key(7), [6, 5]))
    assert not np.any(first == initialiser(jax.random.key(8), (6, 5)))
    np.testing.assert_allclose(first, jax.jit(lambda key: initialiser(key, (6, 5)))(KEY), rtol=1e-6)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64])
def test_dtypes(dtype):
    with jax.enable_x64(True):
        for name in FAMILY:
            x = getattr(initialisers, name)()(KEY, (40, 30), dtype)
            assert x.dtype == dtype
            if jnp.finfo(dtype).bits == 16:  # drawn in float32, then rounded
                np.testing.assert_array_equal(x, getattr(initialisers, name)()(KEY, (40, 30)).astype(dtype))
        assert initialisers.normal(1.0)(KEY, ()).dtype == jnp.float32  # the default, whatever is enabled
        assert initialisers.zeros(KEY, (2,), dtype).dtype == initialisers.ones(KEY, (2,), dtype).dtype == dtype


def test_empty_shapes_and_std_0():
    for shape in ((0, 4), (4, 0), (0, 0, 3)):
        assert initialisers.glorot_uniform()(KEY, shape).shape == shape
    assert np.all(initialisers.normal(0.0)(KEY, (3, 3)) == 0)


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda: initialisers.normal(-1.0), ConfigError, "std is -1.0; expected a finite number, 0 or more"),
        (lambda: initialisers.normal("0.02"), ConfigError, "std is '0.02'"),  # type: ignore
        (lambda: initialisers.truncated_normal(float("nan")), ConfigError, "std is nan"),
        (lambda: initialisers.truncated_normal(1.0, 2.0, -2.0), ConfigError, "empty for [2.0, -2.0]"),
        (lambda: initialisers.uniform(1.0, -1.0), ConfigError, "low=1.0, high=-1.0"),
        (lambda: initialisers.uniform(0.0, float("inf")), ConfigError, "high=inf"),
        (lambda: initialisers.variance_scaling(-1.0, "fan_in", "normal"), ConfigError, "scale is -1.0"),
        (lambda: initialisers.variance_scaling(1.0, "fan_inn", "normal"), UnknownName, "no mode 'fan_inn'; did you mean 'fan_in'"),  # type: ignore
        (lambda: initialisers.variance_scaling(1.0, "fan_in", "gauss"), UnknownName, "no distribution 'gauss'; known: normal"),  # type: ignore
        (lambda: initialisers.he_normal()(KEY, (5,)), ConfigError, "a weight of shape (5,)"),
        (lambda: initialisers.normal(1.0)(KEY, (5,), jnp.int32), ConfigError, "asked for int32"),
    ],
)
def test_what_is_refused(make, error, text):
    with pytest.raises(error) as caught:
        make()
    assert text in str(caught.value)
