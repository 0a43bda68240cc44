"""Smooth gates y = x·g(x) with g from 0 to 1: silu, mish and the erf form of GELU.

No residuals: g is computed again in the backward, and y for who needs it. Half precision is computed in float32. Beyond
|x| = 800 a gate is at its limit to the last bit of float64, so there x is held where it would meet a 0.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..lib.precision import accumulator
from .arithmetic import abs as absolute
from .arithmetic import mul, tanh
from .exponential import erfc, sigmoid, softplus
from .op import fused
from .rectifier import relu
from .rule import is_float
from .selection import less, where

LIMIT = 800.0
OPEN = 40.0  # mish: g is 1 to the last bit beyond, and e²ˣ still has room in float32
ROOT_HALF = 0.7071067811865476  # √½
PEAK = 0.3989422804014327  # 1/√(2π), the density of N(0, 1) at 0


def widened(x):
    return x.astype(accumulator(x.dtype))


def narrowed(y, x):
    """y in the dtype of the operand; an integer operand gives what it was computed in."""
    return y.astype(x.dtype) if is_float(x) else y


def gated(x, gate):
    """x·gate(x), and its limits relu x where |x| is large: an infinite x meets no product. Written in ops."""
    moving = less(absolute(x), LIMIT)
    z = where(moving, x, 0.0)
    return where(moving, mul(z, gate(z)), relu(x))


@fused(saves=("x",))
def silu(x: Float[Array, "*shape"]):
    """SiLU, or swish:  y = x·σ,  σ = 1/(1 + e⁻ˣ);   x̄ = ȳ·σ·(1 + x·(1 − σ)).

    y(−∞) = 0 and y(∞) = ∞ with slopes 0 and 1.        Elfwing et al. 2017, arXiv 1702.03118; Ramachandran et al. 2017, arXiv 1710.05941
    """
    wide = widened(x)
    return narrowed(jnp.maximum(wide, -LIMIT) * lax.logistic(wide), x)


@silu.recomputed
def silu_again(res):
    return silu.fn(res.x)


@silu.rule
def silu_backward(res, y_bar):
    # y = x·σ, so dy/dx = σ + x·dσ/dx with dσ/dx = σ·(1 − σ)
    x = jnp.clip(widened(res.x), -LIMIT, LIMIT)
    s = lax.logistic(x)
    return (y_bar * s * (1 + x * (1 - s)),)


@silu.composite
def silu_composite(x):
    return gated(x, sigmoid)


@fused(saves=("x",))
def mish(x: Float[Array, "*shape"]):
    """Mish:  y = x·w,  w = tanh log(1 + eˣ) = n/(n + 2) with e = eˣ, n = e·(e + 2).

    x̄ = ȳ·(w + x·dw/dx),   dw/dx = 4·e·(1 + e)/(n + 2)².
    y(−∞) = 0 and y(∞) = ∞ with slopes 0 and 1.        Misra 2019, arXiv 1908.08681
    """
    wide = widened(x)
    _, n = grown(jnp.minimum(wide, OPEN))
    return narrowed(jnp.maximum(wide, -LIMIT) * (n / (n + 2)), x)


def grown(x):
    """(e, n) = (eˣ, eˣ·(eˣ + 2))."""
    e = jnp.exp(x)
    return e, e * (e + 2)


@mish.recomputed
def mish_again(res):
    return mish.fn(res.x)


@mish.rule
def mish_backward(res, y_bar):
    # y = x·w with w = n/(n + 2), so dy/dx = w + x·dw/dx with dw/dx = 2·(dn/dx)/(n + 2)² and dn/dx = 2·e·(1 + e)
    x = jnp.clip(widened(res.x), -LIMIT, OPEN)
    e, n = grown(x)
    steep = 4 * e * (1 + e) / (n + 2)
    return (y_bar * (n + x * steep) / (n + 2),)


@mish.composite
def mish_composite(x):
    return gated(x, lambda z: tanh(softplus(z)))


@fused(saves=("x",))
def gelu_erf(x: Float[Array, "*shape"]):
    """GELU as it was defined:  y = x·Φ(x),  x̄ = ȳ·(Φ(x) + x·φ(x)), with Φ and φ the distribution and density of N(0, 1).

    Φ(x) = erfc(−x/√2)/2, which keeps its digits far below 0. y(−∞) = 0 and y(∞) = ∞ with slopes 0 and 1.
    `gelu` is the tanh form.        Hendrycks & Gimpel 2016, arXiv 1606.08415, section 2
    """
    wide = widened(x)
    return narrowed(jnp.maximum(wide, -LIMIT) * below(wide), x)


def below(x):
    """Φ(x)."""
    return 0.5 * lax.erfc(-ROOT_HALF * x)


@gelu_erf.recomputed
def gelu_erf_again(res):
    return gelu_erf.fn(res.x)


@gelu_erf.rule
def gelu_erf_backward(res, y_bar):
    return (y_bar * erf_slope(res.x),)


def erf_slope(x):
    """dy/dx = Φ(x) + x·φ(x), for y = x·Φ(x)."""
    x = jnp.clip(widened(x), -LIMIT, LIMIT)
    return below(x) + x * (PEAK * jnp.exp(-0.5 * x * x))


@gelu_erf.composite
def gelu_erf_composite(x):
    return gated(x, lambda z: mul(0.5, erfc(mul(-ROOT_HALF, z))))
