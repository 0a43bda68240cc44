"""Running sums and products along an axis, and the linear recurrence that their rules are made of. None of them divides.

With `reverse` each runs from the last element to the first.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..lib.errors import OperandError
from ..lib.precision import accumulator
from .arithmetic import mul
from .layout import pad, roll
from .op import primitive
from .rule import is_float
from .shape import axes_of, reshape


@primitive()
def cumsum(x: Float[Array, "..."], *, axis: int | None = None, reverse: bool = False):
    """y_k = Σ x_j over j ≤ k along an axis, of the flattened array for `None`.   x̄_k = Σ ȳ_i over i ≥ k: the same the other way."""
    return running(jnp.cumsum, x, axis, reverse)


@cumsum.rule
def cumsum_backward(res, y_bar, *, axis, reverse):
    return (reshape(cumsum(y_bar, axis=axis, reverse=not reverse), shape=res.x.shape),)


@primitive(saves=("x", "out"))
def cumprod(x: Float[Array, "..."], *, axis: int | None = None, reverse: bool = False):
    """y_k = Π x_j over j ≤ k along an axis, of the flattened array for `None`.

    x̄_k = y_{k−1}·s_k,   s_k = ȳ_k + x_{k+1}·s_{k+1}, a linear recurrence from the other end: right at zeros, however many.
    """
    return running(jnp.cumprod, x, axis, reverse)


@cumprod.rule
def cumprod_backward(res, y_bar, *, axis, reverse):
    x = reshape(res.x, shape=res.out.shape)
    at, on = axis or 0, -1 if reverse else 1
    s = linear_recurrence(roll(x, shift=(-on,), axis=(at,)), y_bar, axis=at, reverse=not reverse)
    return (reshape(mul(moved(res.out, at, on, 1.0), s), shape=res.x.shape),)


@primitive(saves=("a", "out"))
def linear_recurrence(a: Float[Array, "..."], b: Float[Array, "..."], *, axis: int = -1, reverse: bool = False):
    """h_k = a_k·h_{k−1} + b_k along an axis, h_0 = b_0: a_0 is not read. a and b have one shape.

    With s_k = h̄_k + a_{k+1}·s_{k+1}, the recurrence from the other end:   b̄ = s,   ā_k = s_k·h_{k−1},  ā_0 = 0.
    One step after the other: a product of several a could overflow where no h does.
    """
    if jnp.shape(a) != jnp.shape(b) or jnp.ndim(a) == 0:
        raise OperandError(f"linear_recurrence: a of shape {jnp.shape(a)}, b of shape {jnp.shape(b)}; expected one shape with an axis")
    at, dtype = axes_of(axis, jnp.ndim(a), "linear_recurrence")[0], jnp.result_type(a, b, 0.0)
    a, b = (jnp.moveaxis(v, at, 0).astype(accumulator(dtype)) for v in (a, b))
    first = len(a) - 1 if reverse else 0
    a = jnp.where(jnp.arange(len(a)).reshape(-1, *[1] * (a.ndim - 1)) == first, 0, a)

    def step(h, ab):
        h = ab[0] * h + ab[1]
        return h, h

    h = lax.scan(step, jnp.zeros(a.shape[1:], a.dtype), (a, b), reverse=reverse)[1]
    return jnp.moveaxis(h, 0, at).astype(dtype)


@linear_recurrence.rule
def linear_recurrence_backward(res, h_bar, *, axis, reverse):
    on = -1 if reverse else 1
    s = linear_recurrence(roll(res.a, shift=(-on,), axis=(axis,)), h_bar, axis=axis, reverse=not reverse)
    products = mul(roll(s, shift=(-on,), axis=(axis,)), res.out)  # s_{k+1}·h_k: the one that meets round the end is lost below
    return moved(products, axis, on, 0.0), s


def running(scan: Callable, x, axis: int | None, reverse: bool):
    """`jnp.cumsum` or `jnp.cumprod` from either end, floats held in the accumulator's dtype."""
    x = jnp.ravel(x) if axis is None else jnp.asarray(x)
    at = 0 if axis is None else axes_of(axis, x.ndim, scan.__name__)[0]
    dtype = accumulator(x.dtype) if is_float(x) else jax.eval_shape(jnp.sum, x).dtype  # narrow integers grow, as NumPy's do
    y = jnp.flip(scan(jnp.flip(x, at), at, dtype=dtype), at) if reverse else scan(x, at, dtype=dtype)
    return y.astype(x.dtype) if is_float(x) else y


def moved(x, axis: int, by: int, fill: float):
    """x, `by` places further along the axis: what leaves is lost, `fill` comes in. Written in ops."""
    at = axis % x.ndim
    return pad(x, pad_width=tuple((by, -by) if a == at else (0, 0) for a in range(x.ndim)), constant_values=fill)
