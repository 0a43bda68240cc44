"""Functions made of exp, each in the form that keeps its digits in both tails: expm1, log1p, sigmoid, softplus, erf, erfc."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..lib.precision import accumulator
from .arithmetic import add, div, exp, mul, neg
from .op import primitive
from .rule import is_float

TWICE_DENSITY = 1.1283791670955126  # 2/√π


@primitive(saves=("x",))
def expm1(x: Float[Array, "..."]):
    """y = eˣ − 1, with all its digits near 0;   x̄ = ȳ·eˣ, for y + 1 has none left far below 0."""
    return jnp.expm1(x)


@expm1.rule
def expm1_backward(res, y_bar):
    return (mul(y_bar, exp(res.x)),)


@primitive(saves=("x",))
def log1p(x: Float[Array, "..."]):
    """y = log(1 + x), with all its digits near 0; −∞ at −1 and NaN below;   x̄ = ȳ/(1 + x), infinite at −1."""
    return jnp.log1p(x)


@log1p.rule
def log1p_backward(res, y_bar):
    return (div(y_bar, add(1.0, res.x)),)


@primitive(saves=("x",))
def sigmoid(x: Float[Array, "..."]):
    """y = 1/(1 + e⁻ˣ);   x̄ = ȳ·y(x)·y(−x).

    y·(1 − y) would be 0 where y rounds to 1; y(−x) is not. Half precision is computed in float32, where e⁻ˣ has room.
    """
    wide = x.astype(accumulator(x.dtype) if is_float(x) else float)
    return lax.logistic(wide).astype(x.dtype if is_float(x) else float)


@sigmoid.rule
def sigmoid_backward(res, y_bar):
    return (mul(y_bar, mul(sigmoid(res.x), sigmoid(neg(res.x)))),)


@primitive(saves=("x",))
def softplus(x: Float[Array, "..."]):
    """y = log(1 + eˣ), as max(x, 0) + log(1 + e^−|x|): no e of anything large;   x̄ = ȳ·sigmoid x."""
    return jnp.logaddexp(x, 0)


@softplus.rule
def softplus_backward(res, y_bar):
    return (mul(y_bar, sigmoid(res.x)),)


@primitive(saves=("x",))
def erf(x: Float[Array, "..."]):
    """y = 2/√π ∫₀ˣ exp(−t²) dt;   x̄ = ȳ·2/√π·exp(−x²)."""
    return lax.erf(jnp.asarray(x) if is_float(x) else jnp.asarray(x, float))


@erf.rule
def erf_backward(res, y_bar):
    return (mul(y_bar, bell(res.x)),)


@primitive(saves=("x",))
def erfc(x: Float[Array, "..."]):
    """y = 1 − erf x, with all its digits in the right tail;   x̄ = −ȳ·2/√π·exp(−x²)."""
    return lax.erfc(jnp.asarray(x) if is_float(x) else jnp.asarray(x, float))


@erfc.rule
def erfc_backward(res, y_bar):
    return (neg(mul(y_bar, bell(res.x))),)


def bell(x):
    """2/√π·exp(−x²). Written in ops."""
    return mul(TWICE_DENSITY, exp(neg(mul(x, x))))
