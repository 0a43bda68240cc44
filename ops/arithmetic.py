"""Elementwise arithmetic: the four operations, powers and roots, exp, log and tanh, abs, maximum and minimum.

Two operands broadcast as in NumPy and promote as in jax.numpy; each cotangent is summed back to its operand's shape.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from .identity import cast
from .logic import logical_and
from .op import primitive
from .rule import is_float
from .selection import equal, greater, greater_equal, less, where
from .shape import unbroadcast


@primitive()
def add(x: Float[Array, "..."], y: Float[Array, "..."]):
    """z = x + y;   x̄ = z̄,  ȳ = z̄."""
    return jnp.add(x, y)


@add.rule
def add_backward(res, z_bar):
    return unbroadcast(z_bar, res.x), unbroadcast(z_bar, res.y)


@primitive()
def sub(x: Float[Array, "..."], y: Float[Array, "..."]):
    """z = x − y;   x̄ = z̄,  ȳ = −z̄."""
    return jnp.subtract(x, y)


@sub.rule
def sub_backward(res, z_bar):
    return unbroadcast(z_bar, res.x), neg(unbroadcast(z_bar, res.y))


@primitive(saves=("x", "y"))
def mul(x: Float[Array, "..."], y: Float[Array, "..."]):
    """z = x·y;   x̄ = z̄·y,  ȳ = z̄·x."""
    return jnp.multiply(x, y)


@mul.rule
def mul_backward(res, z_bar):
    return unbroadcast(mul(z_bar, res.y), res.x), unbroadcast(mul(z_bar, res.x), res.y)


@primitive(saves=("y", "out"))
def div(x: Float[Array, "..."], y: Float[Array, "..."]):
    """z = x/y;   x̄ = z̄/y,  ȳ = −(z̄/y)·z."""
    return jnp.divide(x, y)


@div.rule
def div_backward(res, z_bar):
    x_bar = div(z_bar, res.y)
    return unbroadcast(x_bar, res.x), unbroadcast(neg(mul(x_bar, res.out)), res.y)


@primitive()
def neg(x: Float[Array, "..."]):
    """y = −x;   x̄ = −ȳ."""
    return jnp.negative(x)


@neg.rule
def neg_backward(res, y_bar):
    return (neg(y_bar),)


@primitive(saves=("x",))
def pow_constant(x: Float[Array, "..."], *, exponent: int | float):
    """y = x^p for a number p;   x̄ = ȳ·p·x^(p−1), and 0 everywhere for p = 0.

    At 0 the slope is infinite for p < 1 (p ≠ 0), as that of `sqrt`. An exponent that changes from call to call, or that
    is owed a cotangent, is `power`'s.
    """
    return jnp.power(x, exponent)


@pow_constant.rule
def pow_constant_backward(res, y_bar, *, exponent):
    if exponent == 0:
        return (jnp.zeros(res.x.shape, res.x.dtype),)
    if exponent == 1:
        return (y_bar,)
    return (mul(y_bar, mul(exponent, pow_constant(res.x, exponent=exponent - 1))),)


@primitive(saves=("x", "y", "out"))
def power(x: Float[Array, "..."], y: Float[Array, "..."]):
    """z = x^y;   x̄ = z̄·y·x^(y−1);   ȳ = z̄·z·log x, and 0 at x = 0 for y ≥ 0.   At x = y = 0 x̄ is 0 too.

    The two sides never mix: a negative x has a right x̄ while its ȳ is NaN. At x = 0 the limit of ȳ is 0 for y > 0 and −∞ for
    y < 0; at y = 0 it would be −∞ as well, and 0 is given, as PyTorch does.
    """
    return jnp.power(x, y)


@power.rule
def power_backward(res, z_bar):
    x, y = (cast(v, dtype=res.out.dtype.name) for v in (res.x, res.y))  # y − 1 and log x are rounded as z is
    nought = equal(x, 0)
    x_bar = mul(z_bar, mul(y, power(x, sub(y, where(logical_and(nought, equal(y, 0)), 0.0, 1.0)))))  # 0·0⁰, for 0·0⁻¹ is NaN
    y_bar = mul(z_bar, mul(res.out, log(where(logical_and(nought, greater_equal(y, 0)), 1.0, x))))
    return unbroadcast(x_bar, res.x), unbroadcast(y_bar, res.y)


@primitive(saves=("out",))
def exp(x: Float[Array, "..."]):
    """y = eˣ;   x̄ = ȳ·y."""
    return jnp.exp(x)


@exp.rule
def exp_backward(res, y_bar):
    return (mul(y_bar, res.out),)


@primitive(saves=("x",))
def log(x: Float[Array, "..."]):
    """y = log x;   x̄ = ȳ/x."""
    return jnp.log(x)


@log.rule
def log_backward(res, y_bar):
    return (div(y_bar, res.x),)


@primitive(saves=("out",))
def sqrt(x: Float[Array, "..."]):
    """y = √x;   x̄ = ȳ/(2y).

    The slope at 0 is infinite: x̄ = ±∞ there, and NaN where ȳ = 0. To leave 0 out, guard the operand as `where` says.
    """
    return jnp.sqrt(x)


@sqrt.rule
def sqrt_backward(res, y_bar):
    return (div(mul(y_bar, 0.5), res.out),)


@primitive(saves=("out",))
def rsqrt(x: Float[Array, "..."]):
    """y = 1/√x;   x̄ = −ȳ·y³/2."""
    return lax.rsqrt(jnp.asarray(x) if is_float(x) else jnp.asarray(x, float))


@rsqrt.rule
def rsqrt_backward(res, y_bar):
    y = res.out
    return (mul(mul(y_bar, -0.5), mul(y, mul(y, y))),)


@primitive(saves=("out",))
def tanh(x: Float[Array, "..."]):
    """y = tanh x;   x̄ = ȳ·(1 − y)·(1 + y), which keeps its digits where y is near ±1."""
    return jnp.tanh(x)


@tanh.rule
def tanh_backward(res, y_bar):
    y = res.out
    return (mul(y_bar, mul(sub(1.0, y), add(1.0, y))),)


@primitive(saves=("x",))
def abs(x: Float[Array, "..."]):
    """y = |x|;   x̄ = ȳ where x > 0, −ȳ where x < 0, and 0 at 0."""
    return jnp.abs(x)


@abs.rule
def abs_backward(res, y_bar):
    return (where(greater(res.x, 0), y_bar, where(less(res.x, 0), neg(y_bar), 0.0)),)


@primitive(saves=("x", "y"))
def maximum(x: Float[Array, "..."], y: Float[Array, "..."]):
    """z = the larger of x and y; NaN if either is.   x̄ = z̄ where x > y, z̄/2 where they tie, else 0;  ȳ likewise."""
    return jnp.maximum(x, y)


@maximum.rule
def maximum_backward(res, z_bar):
    x_bar, y_bar = shared(z_bar, greater(res.x, res.y), less(res.x, res.y), equal(res.x, res.y))
    return unbroadcast(x_bar, res.x), unbroadcast(y_bar, res.y)


@primitive(saves=("x", "y"))
def minimum(x: Float[Array, "..."], y: Float[Array, "..."]):
    """z = the smaller of x and y; NaN if either is.   x̄ = z̄ where x < y, z̄/2 where they tie, else 0;  ȳ likewise."""
    return jnp.minimum(x, y)


@minimum.rule
def minimum_backward(res, z_bar):
    x_bar, y_bar = shared(z_bar, less(res.x, res.y), greater(res.x, res.y), equal(res.x, res.y))
    return unbroadcast(x_bar, res.x), unbroadcast(y_bar, res.y)


def shared(z_bar, first, second, tied):
    """z̄ to the operand that was taken, half to each where they tie: (x̄, ȳ). Written in ops."""
    half = where(tied, mul(z_bar, 0.5), 0.0)
    return where(first, z_bar, half), where(second, z_bar, half)
