"""Reductions over axes: sum, mean, max, min, logsumexp, counts. `axis`: a number, a tuple, `None` for all; negative ones count back.

Narrow floats are summed in `accumulator(dtype)`. A maximum of nothing is an error, a sum of nothing is 0.
"""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..lib.errors import OperandError
from ..lib.precision import accumulator
from .arithmetic import div, exp, mul, sub
from .identity import cast, stop_gradient
from .op import constant, primitive
from .rule import is_float
from .selection import equal, greater, isinf, where
from .shape import axes_of, broadcast_to, reshape, total

Axis = int | tuple[int, ...] | None


def met(x, axes: tuple[int, ...]) -> int:
    """How many values meet in each result."""
    return math.prod(jnp.shape(x)[a] for a in axes)


def restored(y, x, axis: Axis):
    """A reduced y with its lost axes back, at size 1, so that it broadcasts against x. Written in ops."""
    axes = axes_of(axis, x.ndim, "restored")
    return reshape(y, shape=tuple(1 if a in axes else n for a, n in enumerate(x.shape)))


@primitive()
def sum(x: Float[Array, "..."], *, axis: Axis = None, keepdims: bool = False):
    """y = Σ x over the axes.   x̄ = ȳ, repeated along them."""
    return total(x, axes_of(axis, jnp.ndim(x), "sum"), keepdims)


@sum.rule
def sum_backward(res, y_bar, *, axis, keepdims):
    return (broadcast_to(restored(y_bar, res.x, axis), shape=res.x.shape),)


@primitive()
def mean(x: Float[Array, "..."], *, axis: Axis = None, keepdims: bool = False):
    """y = Σ x / n over the axes, NaN where n = 0.   x̄ = ȳ/n, repeated along them."""
    axes = axes_of(axis, jnp.ndim(x), "mean")
    if not is_float(x):
        return jnp.mean(x, axes, keepdims=keepdims)
    return jnp.mean(x, axes, dtype=accumulator(x.dtype), keepdims=keepdims).astype(x.dtype)


@mean.rule
def mean_backward(res, y_bar, *, axis, keepdims):
    n = met(res.x, axes_of(axis, res.x.ndim, "mean"))
    return (broadcast_to(restored(div(y_bar, n), res.x, axis), shape=res.x.shape),)


@primitive(saves=("x", "out"))
def max(x: Float[Array, "..."], *, axis: Axis = None, keepdims: bool = False):
    """y = the largest x along the axes.   x̄ = ȳ/k at each of the k elements that equal it, else 0."""
    axes = axes_of(axis, jnp.ndim(x), "max")
    if met(x, axes) == 0:
        raise OperandError(f"max over axis {axis} of shape {jnp.shape(x)}: nothing has no largest element")
    return jnp.max(x, axes, keepdims=keepdims)


@max.rule
def max_backward(res, y_bar, *, axis, keepdims):
    return (shared(restored(y_bar, res.x, axis), res.x, restored(res.out, res.x, axis), axis),)


@primitive(saves=("x", "out"))
def min(x: Float[Array, "..."], *, axis: Axis = None, keepdims: bool = False):
    """y = the smallest x along the axes.   x̄ = ȳ/k at each of the k elements that equal it, else 0."""
    axes = axes_of(axis, jnp.ndim(x), "min")
    if met(x, axes) == 0:
        raise OperandError(f"min over axis {axis} of shape {jnp.shape(x)}: nothing has no smallest element")
    return jnp.min(x, axes, keepdims=keepdims)


@min.rule
def min_backward(res, y_bar, *, axis, keepdims):
    return (shared(restored(y_bar, res.x, axis), res.x, restored(res.out, res.x, axis), axis),)


@constant
def tie_share(x: Float[Array, "..."], y: Float[Array, "..."], *, axis: Axis):
    """1/k at each of the k elements of x that equal y (which has its axes back), else 0."""
    tied = x == y
    k = jnp.sum(tied, axes_of(axis, jnp.ndim(x), "tie_share"), keepdims=True)
    return jnp.where(tied, 1 / jnp.maximum(k, 1), 0).astype(x.dtype)


def shared(y_bar, x, y, axis: Axis):
    """ȳ split evenly over the elements of x that equal y; both have their axes back. Written in ops."""
    share = tie_share(x, y, axis=axis)
    return where(greater(share, 0), mul(y_bar, share), 0.0)


@primitive(saves=("x",))
def logsumexp(x: Float[Array, "..."], *, axis: Axis = None, keepdims: bool = False):
    """y = log Σ eˣ over the axes, as m + log Σ e with e = exp(x − m), m = max x.   x̄ = ȳ·e/Σe.

    The rule computes e again: exp(x − y) would lose as many digits as y has before the point. Nothing but −∞, or nothing at
    all, gives y = −∞ and x̄ = 0. With +∞ among them y = +∞, and those that are +∞ share ȳ evenly.
    """
    axes = axes_of(axis, jnp.ndim(x), "logsumexp")
    wide = x.astype(accumulator(x.dtype) if is_float(x) else float)
    m = jnp.max(wide, axes, keepdims=True, initial=-jnp.inf)
    m = jnp.where(jnp.isfinite(m), m, 0)
    y = m + jnp.log(jnp.sum(jnp.exp(wide - m), axes, keepdims=True))
    return (y if keepdims else jnp.squeeze(y, axes)).astype(x.dtype if is_float(x) else float)


@logsumexp.rule
def logsumexp_backward(res, y_bar, *, axis, keepdims):
    if res.x.size == 0:
        return (jnp.zeros(res.x.shape, res.x.dtype),)
    x = cast(res.x, dtype=accumulator(res.x.dtype).name)
    m = stop_gradient(max(x, axis=axis, keepdims=True))  # any m gives the same y, so nothing flows through it
    at_m = where(equal(x, m), 0.0, -math.inf)
    e = exp(where(isinf(m), at_m, sub(x, m)))
    share = div(e, sum(e, axis=axis, keepdims=True))
    return (where(equal(m, -math.inf), 0.0, mul(restored(y_bar, x, axis), share)),)


@constant
def argmax(x: Float[Array, "..."], *, axis: int | None = None, keepdims: bool = False):
    """Where the largest x is along an axis, or in the flattened array; the first of those that tie. Untracked."""
    return jnp.argmax(x, axis, keepdims=keepdims)


@constant
def argmin(x: Float[Array, "..."], *, axis: int | None = None, keepdims: bool = False):
    """Where the smallest x is along an axis, or in the flattened array; the first of those that tie. Untracked."""
    return jnp.argmin(x, axis, keepdims=keepdims)


@constant
def any(x: Float[Array, "..."], *, axis: Axis = None, keepdims: bool = False):
    """Is some x not 0 along the axes? False for nothing. Untracked."""
    return jnp.any(x, axes_of(axis, jnp.ndim(x), "any"), keepdims=keepdims)


@constant
def all(x: Float[Array, "..."], *, axis: Axis = None, keepdims: bool = False):
    """Is no x 0 along the axes? True for nothing. Untracked."""
    return jnp.all(x, axes_of(axis, jnp.ndim(x), "all"), keepdims=keepdims)


@constant
def count_nonzero(x: Float[Array, "..."], *, axis: Axis = None, keepdims: bool = False):
    """How many x are not 0 along the axes; NaN is not 0. Untracked."""
    return jnp.count_nonzero(x, axes_of(axis, jnp.ndim(x), "count_nonzero"), keepdims=keepdims)


@constant
def count(x: Float[Array, "..."], *, axis: Axis = None, keepdims: bool = False):
    """`count_nonzero` by its short name: how many hold, for a comparison. Untracked."""
    return count_nonzero(x, axis=axis, keepdims=keepdims)
