"""Extrapolated differences and their error bars: right where the slope is known, wide where they cannot tell."""

import jax.numpy as jnp
import numpy as np
import pytest

from pullback.autograd import differences
from pullback.autograd.differences import POINTS, along, extrapolated

pytestmark = pytest.mark.usefixtures("x64")

KNOWN = {  # φ and φ'(0)
    "sine": (np.sin, 1.0),
    "exponential": (lambda t: np.exp(2 * t), 2.0),
    "cubic": (lambda t: t**3 - 5 * t, -5.0),
    "pole beside": (lambda t: 1 / (0.3 + t), -1 / 0.09),
    "leaves its domain": (lambda t: np.log(np.where(t > -0.1, 0.1 + t, np.nan)), 10.0),
}


@pytest.mark.parametrize("name", KNOWN)
def test_slope_is_within_a_few_bars_and_the_bar_is_narrow(name):
    phi, right = KNOWN[name]
    slope, bar = extrapolated(phi(POINTS)[None], np.finfo(float).eps * abs(phi(np.zeros(1))[0]))
    assert abs(slope[0] - right) < 20 * bar[0]
    assert bar[0] < 1e-9 * abs(right)


def test_rows_do_not_mix():
    rows = np.stack([np.sin(POINTS), np.cos(POINTS) + 3 * POINTS, POINTS**2])
    slope, bar = extrapolated(rows, 1e-16)
    alone = [extrapolated(row[None], 1e-16) for row in rows]
    np.testing.assert_array_equal(slope, [s[0] for s, _ in alone])
    np.testing.assert_array_equal(bar, [b[0] for _, b in alone])


def test_a_kink_beside_the_point_widens_the_bar():
    """|t − 1e-4|: large steps see another slope than small ones."""
    slope, bar = extrapolated(np.abs(POINTS - 1e-4)[None], 1e-16)
    assert abs(slope[0] + 1) < 100 * bar[0]


def test_a_constant_needs_the_floor():
    """Noise of one unit at 1e3 that the close points do not show: without a floor the bar would be nothing."""
    phi = np.zeros_like(POINTS)
    phi[3] = np.spacing(1e3)
    slope, bar = extrapolated(phi[None], np.finfo(float).eps * 1e3)
    assert abs(slope[0]) < 10 * bar[0]


def test_noise_is_measured():
    """A function rounded to float32 has bars that say so."""
    _, narrow = extrapolated(np.sin(POINTS).astype(np.float32).astype(float)[None], 1e-16)
    _, wide = extrapolated(np.sin(POINTS)[None], 1e-16)
    assert narrow[0] > 1e4 * wide[0]


def test_nothing_finite_is_not_measurable():
    slope, bar = extrapolated(np.full((1, len(POINTS)), np.nan))
    assert np.isnan(slope[0]) and np.isinf(bar[0])


def test_along_weighs_outputs_and_moves_every_operand():
    """f(x, y) = (x·y, Σx): the slope along (v, w) is ⟨ȳ₀, v·y + x·w⟩ + ȳ₁·Σv."""
    x, y, v, w, y_bar = np.random.default_rng(0).normal(size=(5, 3))
    f = lambda xs: (xs[0] * xs[1], jnp.sum(xs[0]))
    slope, bar, _ = along(f, (jnp.asarray(x), jnp.asarray(y)), (jnp.asarray(y_bar), jnp.asarray(2.0)), (v[None], w[None]))
    assert abs(slope[0] - (y_bar @ (v * y + x * w) + 2 * v.sum())) < 20 * bar[0]


KINKS = {  # φ with φ(0) = 0, and φ'(0+) − φ'(0−)
    "ramp": (lambda t: np.maximum(t, 0), 1.0),
    "corner of a curve": (lambda t: np.where(t > 0, np.expm1(3 * t), np.sin(t)), 2.0),
    "small corner": (lambda t: np.sin(5 * t) + 1e-4 * np.abs(t), 2e-4),
    "line": (lambda t: 3 * t, 0.0),
    "parabola": (lambda t: 100 * t**2, 0.0),
    "corner beside": (lambda t: np.maximum(t - 1e-5, 0), 0.0),
    "cusp": (lambda t: np.abs(t) ** 1.5, 0.0),
    "steps": (lambda t: np.round(64 * t) / 64, 0.0),
    "noise": (lambda t: t + 1e-12 * np.random.default_rng(0).normal(size=t.shape), 0.0),
}


@pytest.mark.parametrize("name", KINKS)
def test_a_kink_at_the_point_is_told_from_what_is_none(name):
    phi, right = KINKS[name]
    assert differences.jumps(phi(POINTS)[None], 1e-16)[0] == pytest.approx(right, rel=1e-4)


def test_directions_and_elements_have_the_size_of_each_element_but_not_less_than_the_median():
    xs = (np.array([[1e3, 1.0], [2.0, 0.0]]), np.zeros(3), np.zeros((0, 2)), np.array([np.inf, 2.0, 2.0]))
    a, b, c, d = differences.signs(np.random.default_rng(0), xs, 4)
    np.testing.assert_array_equal(np.abs(a), np.broadcast_to([[1e3, 1.5], [2.0, 1.5]], (4, 2, 2)))
    assert set(np.abs(b).ravel()) == {1.0} and c.shape == (4, 0, 2) and set(np.abs(d).ravel()) == {2.0}
    e, zero, *_ = differences.elements(xs, 0)
    np.testing.assert_array_equal(e.reshape(4, 4), np.diag([1e3, 1.5, 2.0, 1.5]))
    assert not zero.any()


def test_one_program_for_one_function():
    traces = []

    def f(xs):
        traces.append(1)
        return (xs[0] * 2.0,)

    for _ in range(3):
        along(f, (jnp.ones(2),), (jnp.ones(2),), (np.ones((1, 2)),))
    assert len(traces) == 2, "once for f(x) and once for f(x + t·v)"
