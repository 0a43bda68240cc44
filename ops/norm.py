"""The length of a vector."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..lib.errors import OperandError
from ..lib.precision import accumulator
from . import reduction
from .arithmetic import abs, div, mul
from .op import face, primitive
from .reduction import Axis, restored
from .rule import is_float
from .selection import equal, where
from .shape import axes_of


@primitive(saves=("x", "out"))
def norm(x: Float[Array, "..."], *, axis: Axis = None, keepdims: bool = False):
    """y = √Σ x² over the axes, taken as one vector.   x̄ = ȳ·x/y, and 0 where y = 0, the shortest of its subgradients.

    Neither 1e30 overflows in float32 nor does 1e-30 vanish: x is divided by its largest |x| first. Where y = ∞, x̄ is 0 for
    finite x and NaN for infinite ones.
    """
    axes = axes_of(axis, jnp.ndim(x), "norm")
    y = length(x.astype(accumulator(x.dtype) if is_float(x) else float), axes, keepdims)
    return y.astype(x.dtype) if is_float(x) else y


@norm.rule
def norm_backward(res, y_bar, *, axis, keepdims):
    # where y = 0, so is x: there x/∞ = 0 meets a cotangent of 0, and no order of derivative sees 0/0
    y, y_bar = restored(res.out, res.x, axis), restored(y_bar, res.x, axis)
    nought = equal(y, 0)
    return (mul(where(nought, y, y_bar), div(res.x, where(nought, math.inf, y))),)


def length(x, axes: tuple[int, ...], keepdims: bool):
    """√Σ x² over axes, scaled by the largest |x| where that is a normal number."""
    m = jnp.max(jnp.abs(x), axes, keepdims=True, initial=0)
    m = jnp.where((m >= jnp.finfo(x.dtype).tiny) & (m < jnp.inf), m, 1)
    y = m * jnp.sqrt(jnp.sum((x / m) ** 2, axes, keepdims=True))
    return y if keepdims else jnp.squeeze(y, axes)


@face("norm", "abs", "sum", "max")
def vector_norm(x, *, axis: Axis = None, keepdims: bool = False, ord: int | float = 2):
    """The norm of x over the axes, taken as one vector: √Σ x² for ord 2, Σ|x| for 1, max |x| for ∞ (`np.linalg.vector_norm`)."""
    if ord not in (1, 2, math.inf):
        raise OperandError(f"vector_norm: ord {ord}; expected 1, 2 or math.inf")
    if ord == 2:
        return norm(x, axis=axis, keepdims=keepdims)
    fold = reduction.sum if ord == 1 else reduction.max
    return fold(abs(x), axis=axis, keepdims=keepdims)
