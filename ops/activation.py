"""Activation functions."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..lib.precision import accumulator
from .arithmetic import abs as absolute
from .arithmetic import add, mul, tanh
from .gate import erf_slope, gelu_erf
from .identity import identity
from .op import fused
from .rule import is_float
from .selection import less, where

SLOPE = 0.7978845608028654  # √(2/π)
CUBIC = 0.044715
FLAT = 10.0  # tanh u is ±1 to the last bit of float64 beyond |x| = 10, so x³ need never overflow


@fused(saves=("x",))
def gelu(x: Float[Array, "*shape"]):
    """GELU, tanh form:  y = x·(1 + t)/2,   t = tanh u,   u = √(2/π)·(x + 0.044715·x³).

    x̄ = ȳ·½·(1 + t + x·(1 − t²)·du/dx),   du/dx = √(2/π)·(1 + 3·0.044715·x²).   No residuals: t is recomputed, and y for who needs it.
    Smooth everywhere; y(−∞) = 0 and y(∞) = ∞ with slopes 0 and 1.        Hendrycks & Gimpel 2016, arXiv 1606.08415, section 2

    Variants: `erf_slope`, the slope of the erf form under the tanh form (at most 8.7e-4 off); `straight_through`, slope 1.
    """
    wide = x.astype(accumulator(x.dtype))
    t, _ = inner(wide)
    y = 0.5 * jnp.maximum(wide, -FLAT) * (1 + t)  # −FLAT stands for all below it, −∞ included: 1 + t is 0 there
    return y.astype(x.dtype if is_float(x) else y.dtype)


def inner(x):
    """(tanh u, du/dx) at x, held to where tanh u still moves."""
    x = jnp.clip(x, -FLAT, FLAT)
    return jnp.tanh(SLOPE * x * (1 + CUBIC * x * x)), SLOPE * (1 + 3 * CUBIC * x * x)


@gelu.recomputed
def gelu_again(res):
    return gelu.fn(res.x)


@gelu.rule
def gelu_backward(res, y_bar):
    # y = x·(1 + t)/2, so dy/dx = (1 + t)/2 + (x/2)·dt/dx with dt/dx = (1 − t²)·du/dx
    x = res.x.astype(accumulator(res.x.dtype))
    t, du = inner(x)
    return (y_bar * (0.5 * (1 + t) + 0.5 * jnp.clip(x, -FLAT, FLAT) * (1 - t * t) * du),)


@gelu.rule("erf_slope", contract="surrogate", of=gelu_erf)
def gelu_erf_slope(res, y_bar):
    """x̄ = ȳ·(Φ(x) + x·φ(x)), with Φ and φ the distribution and density of N(0, 1): the slope of x·Φ(x), `gelu_erf`."""
    return (y_bar * erf_slope(res.x),)


@gelu.rule("straight_through", contract="surrogate", saves=(), order2=lambda operands, y_bar: (y_bar,), of=identity)
def gelu_straight_through(res, y_bar):
    """x̄ = ȳ."""
    return (y_bar,)


@gelu.composite
def gelu_composite(x):
    curved = less(absolute(x), FLAT)
    z = where(curved, x, 0.0)
    u = mul(mul(z, SLOPE), add(1.0, mul(CUBIC, mul(z, z))))
    return where(curved, mul(mul(0.5, z), add(1.0, tanh(u))), where(less(x, 0.0), 0.0, x))
