"""Softmax along one axis."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..lib.precision import accumulator
from . import reduction
from .arithmetic import div, exp, sub
from .identity import stop_gradient
from .op import fused, is_float
from .selection import equal, where
from .shape import axes_of


@fused(saves=("out",))
def softmax(x: Float[Array, "..."], *, axis: int = -1):
    """y = exp(x − m)/Σ exp(x − m) along the axis, m = max x;   x̄ = y·(ȳ − Σ ȳ·y).

    Saves y, no residuals; sums are held in `accumulator(dtype)`. An entry of −∞ gives y = 0 and x̄ = 0, whatever its ȳ; a
    row of nothing but −∞ gives zeros and passes zeros back (a mask that lets nothing through). +∞ and NaN give NaN.
    """
    axes_of(axis, jnp.ndim(x), "softmax")
    wide = x.astype(accumulator(x.dtype))
    e = jnp.exp(wide - top(wide, axis))
    z = jnp.sum(e, axis, keepdims=True)
    y = e / jnp.where(z == 0, 1, z)
    return y.astype(x.dtype) if is_float(x) else y


def top(x, axis: int):
    """max x; the lowest finite number where that is −∞, so that exp(x − top) is 0 there and not NaN."""
    return jnp.maximum(jnp.max(x, axis, keepdims=True, initial=-jnp.inf), jnp.finfo(x.dtype).min)


@softmax.rule
def softmax_backward(res, y_bar, *, axis):
    # y = e/Σe, so dy = y·(dx − Σ y·dx), and the matrix behind it is symmetric
    dtype = accumulator(res.out.dtype)
    y = res.out.astype(dtype)
    y_bar = jnp.where(y == 0, 0, y_bar.astype(dtype))
    return (y * (y_bar - jnp.sum(y_bar * y, axis, keepdims=True)),)


@softmax.composite
def softmax_composite(x, *, axis=-1):
    e = exp(sub(x, top(stop_gradient(x), axis)))  # any shift gives the same y, so nothing flows through it
    z = reduction.sum(e, axis=axis, keepdims=True)
    return div(e, where(equal(z, 0), 1.0, z))
