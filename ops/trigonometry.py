"""Circular and hyperbolic functions and their inverses, element by element."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..lib.precision import accumulator
from .arithmetic import add, div, mul, neg, sqrt, sub
from .identity import cast
from .op import primitive


@primitive(saves=("x",))
def sin(x: Float[Array, "..."]):
    """y = sin x;   x̄ = ȳ·cos x. NaN at ±∞, as `cos` and `tan`."""
    return jnp.sin(x)


@sin.rule
def sin_backward(res, y_bar):
    return (mul(y_bar, cos(res.x)),)


@primitive(saves=("x",))
def cos(x: Float[Array, "..."]):
    """y = cos x;   x̄ = −ȳ·sin x."""
    return jnp.cos(x)


@cos.rule
def cos_backward(res, y_bar):
    return (neg(mul(y_bar, sin(res.x))),)


@primitive(saves=("out",))
def tan(x: Float[Array, "..."]):
    """y = tan x;   x̄ = ȳ·(1 + y²)."""
    return jnp.tan(x)


@tan.rule
def tan_backward(res, y_bar):
    return (mul(y_bar, add(1.0, mul(res.out, res.out))),)


@primitive(saves=("x",))
def arcsin(x: Float[Array, "..."]):
    """y in [−π/2, π/2] with sin y = x, NaN beyond ±1;   x̄ = ȳ/√(1 − x²).

    The slope at ±1 is infinite: x̄ = ±∞ there, and NaN where ȳ = 0, as that of `sqrt` at 0.
    """
    return jnp.arcsin(x)


@arcsin.rule
def arcsin_backward(res, y_bar):
    return (div(y_bar, beside(res.x)),)


@primitive(saves=("x",))
def arccos(x: Float[Array, "..."]):
    """y in [0, π] with cos y = x, NaN beyond ±1;   x̄ = −ȳ/√(1 − x²), infinite at ±1 as that of `arcsin`."""
    return jnp.arccos(x)


@arccos.rule
def arccos_backward(res, y_bar):
    return (neg(div(y_bar, beside(res.x))),)


def beside(x):
    """√(1 − x²), the other side of the triangle. As a product it keeps its digits where x is near ±1. Written in ops."""
    return sqrt(mul(sub(1.0, x), add(1.0, x)))


@primitive(saves=("x",))
def arctan(x: Float[Array, "..."]):
    """y in [−π/2, π/2] with tan y = x;   x̄ = ȳ/(1 + x²), computed in `accumulator(dtype)`: half precision has no 300²."""
    return jnp.arctan(x)


@arctan.rule
def arctan_backward(res, y_bar):
    x = cast(res.x, dtype=accumulator(res.x.dtype).name)
    return (div(y_bar, add(1.0, mul(x, x))),)


@primitive(saves=("x",))
def sinh(x: Float[Array, "..."]):
    """y = (eˣ − e⁻ˣ)/2;   x̄ = ȳ·cosh x."""
    return jnp.sinh(x)


@sinh.rule
def sinh_backward(res, y_bar):
    return (mul(y_bar, cosh(res.x)),)


@primitive(saves=("x",))
def cosh(x: Float[Array, "..."]):
    """y = (eˣ + e⁻ˣ)/2;   x̄ = ȳ·sinh x."""
    return jnp.cosh(x)


@cosh.rule
def cosh_backward(res, y_bar):
    return (mul(y_bar, sinh(res.x)),)


@primitive(saves=("out",))
def arcsinh(x: Float[Array, "..."]):
    """y with sinh y = x;   x̄ = ȳ/cosh y, which is ȳ/√(1 + x²) without a square that overflows."""
    return jnp.arcsinh(x)


@arcsinh.rule
def arcsinh_backward(res, y_bar):
    return (div(y_bar, cosh(res.out)),)


@primitive(saves=("x",))
def arctanh(x: Float[Array, "..."]):
    """y with tanh y = x, ±∞ at ±1 and NaN beyond;   x̄ = ȳ/((1 − x)·(1 + x)), infinite at ±1."""
    return jnp.arctanh(x)


@arctanh.rule
def arctanh_backward(res, y_bar):
    return (div(y_bar, mul(sub(1.0, res.x), add(1.0, res.x))),)
