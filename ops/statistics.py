"""Variance and standard deviation over axes, in two passes: the mean first, then the squares of what is left."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..lib.precision import accumulator
from .arithmetic import div, mul, sub
from .identity import cast
from .norm import length
from .op import primitive
from .reduction import Axis, mean, met, restored
from .rule import is_float
from .selection import equal, where
from .shape import axes_of
from .slicing import slice


@primitive(saves=("x",))
def var(x: Float[Array, "..."], *, axis: Axis = None, correction: int | float = 0, keepdims: bool = False):
    """y = Σ d²/(n − correction) over the axes, d = x − mean x.   x̄ = ȳ·2d/(n − correction).

    correction: NumPy's ddof; 1 for the unbiased estimate. NaN where n ≤ correction. A constant row gives exactly 0, however far
    from 0 it is: the mean is taken of x − x₀.
    """
    axes = axes_of(axis, jnp.ndim(x), "var")
    y = jnp.sum(deviations(x, axis) ** 2, axes, keepdims=keepdims) / max(met(x, axes) - correction, 0)
    return y.astype(x.dtype) if is_float(x) else y


@var.rule
def var_backward(res, y_bar, *, axis, correction, keepdims):
    n = met(res.x, axes_of(axis, res.x.ndim, "var"))
    return (mul(restored(y_bar, res.x, axis), div(mul(2.0, deviations(res.x, axis)), max(n - correction, 0))),)


@primitive(saves=("x", "out"))
def std(x: Float[Array, "..."], *, axis: Axis = None, correction: int | float = 0, keepdims: bool = False):
    """y = √var x.   x̄ = ȳ·d/(y·(n − correction)), and 0 where y = 0, the shortest of its subgradients.

    correction: NumPy's ddof. NaN where n ≤ correction. No d² overflows or vanishes on the way, see `norm`.
    """
    axes = axes_of(axis, jnp.ndim(x), "std")
    y = length(deviations(x, axis), axes, keepdims) / math.sqrt(max(met(x, axes) - correction, 0))
    return y.astype(x.dtype) if is_float(x) else y


@std.rule
def std_backward(res, y_bar, *, axis, correction, keepdims):
    n = met(res.x, axes_of(axis, res.x.ndim, "std"))
    # where y = 0, so is d: there d/∞ = 0 meets a cotangent of 0, and no order of derivative sees 0/0
    y, y_bar = restored(res.out, res.x, axis), restored(y_bar, res.x, axis)
    nought = equal(y, 0)
    slope = div(div(deviations(res.x, axis), where(nought, math.inf, y)), max(n - correction, 0))
    return (mul(where(nought, y, y_bar), slope),)


def deviations(x, axis: Axis):
    """d = x − mean x over the axes, in the accumulator's dtype: exactly 0 for a constant row. Written in ops."""
    x = cast(x, dtype=accumulator(x.dtype).name)
    axes = axes_of(axis, x.ndim, "deviations")
    first = slice(x, key=tuple((0, 1, None) if a in axes else (None, None, None) for a in range(x.ndim)))
    d = sub(x, first)  # exact for values close to each other, where rounding a large mean would drown them
    return sub(d, mean(d, axis=axis, keepdims=True))
