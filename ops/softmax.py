"""Softmax and its logarithm along one axis."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..lib.precision import accumulator
from . import reduction
from .arithmetic import div, exp, sub
from .identity import stop_gradient
from .op import fused
from .rule import is_float
from .selection import equal, where
from .shape import axes_of


@fused(saves=("out",))
def softmax(x: Float[Array, "..."], *, axis: int = -1):
    """y = exp(x − m)/Σ exp(x − m) along the axis, m = max x;   x̄ = y·(ȳ − Σ ȳ·y).

    Saves y, no residuals; sums are held in `accumulator(dtype)`. An entry of −∞ gives y = 0 and x̄ = 0, whatever its ȳ; a
    row of nothing but −∞ gives zeros and passes zeros back (a mask that lets nothing through). +∞ and NaN give NaN.
    """
    axes_of(axis, jnp.ndim(x), "softmax")
    below, z = scores(x, axis)
    y = jnp.exp(below) / jnp.where(z == 0, 1, z)
    return y.astype(x.dtype) if is_float(x) else y


def scores(x, axis: int):
    """(x − m, Σ exp(x − m)) in the accumulator's dtype, m = max x."""
    wide = x.astype(accumulator(x.dtype))
    below = wide - top(wide, axis)
    return below, jnp.sum(jnp.exp(below), axis, keepdims=True)


def top(x, axis: int):
    """max x; the lowest finite number where that is −∞, so that exp(x − top) is 0 there and not NaN."""
    return jnp.maximum(jnp.max(x, axis, keepdims=True, initial=-jnp.inf), jnp.finfo(x.dtype).min)


@softmax.rule
def softmax_backward(res, y_bar, *, axis):
    # y = e/Σe, so dy = y·(dx − Σ y·dx), and the matrix behind it is symmetric
    y = res.out
    y_bar = jnp.where(y == 0, y, y_bar.astype(accumulator(y.dtype)))
    return (y * (y_bar - jnp.sum(y_bar * y, axis, keepdims=True)),)


@softmax.composite
def softmax_composite(x, *, axis=-1):
    e = exp(sub(x, top(stop_gradient(x), axis)))  # any shift gives the same y, so nothing flows through it
    z = reduction.sum(e, axis=axis, keepdims=True)
    return div(e, where(equal(z, 0), 1.0, z))


@fused(saves=("x",))
def log_softmax(x: Float[Array, "..."], *, axis: int = -1):
    """y = x − m − log Σ exp(x − m) along the axis, m = max x;   x̄ = ȳ − p·Σ ȳ,   p = softmax x.

    Saves x, no residuals: p is computed again from x, for exp(y) would lose as many digits as y has before the point. An entry
    of −∞ gives y = −∞ and has p = 0; so has every entry of a row of nothing but −∞, where `softmax` has no share to give
    either. +∞ and NaN give NaN.
    """
    axes_of(axis, jnp.ndim(x), "log_softmax")
    below, z = scores(x, axis)
    y = jnp.where(below == -jnp.inf, below, below - jnp.log(z))
    return y.astype(x.dtype) if is_float(x) else y


@log_softmax.rule
def log_softmax_backward(res, y_bar, *, axis):
    # y = x − lse, and d lse = Σ p·dx
    below, z = scores(res.x, axis)
    p = jnp.where(below == -jnp.inf, 0, jnp.exp(below) / z)
    y_bar = y_bar.astype(p.dtype)
    return (y_bar - p * jnp.sum(y_bar, axis, keepdims=True),)


@log_softmax.composite
def log_softmax_composite(x, *, axis=-1):
    return sub(x, reduction.logsumexp(x, axis=axis, keepdims=True))
