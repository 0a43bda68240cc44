"""Ops that move values about: reshape, transpose, broadcast_to and its transpose sum_to."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..lib.errors import OperandError
from ..lib.precision import accumulator
from .op import primitive
from .rule import is_float


def axes_of(axis: int | tuple[int, ...] | None, ndim: int, op: str) -> tuple[int, ...]:
    """The axes that `axis` means, each in 0 … ndim − 1, in the order given; all of them for `None`."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, tuple) else (axis,)
    for a in axes:
        if not -ndim <= a < ndim:
            expected = f"expected {-ndim} to {ndim - 1}" if ndim else "a scalar has none"
            raise OperandError(f"{op}: axis {a} of an array with {ndim} axes; {expected}")
    positive = tuple(int(a) % ndim for a in axes)
    if len(set(positive)) < len(positive):
        raise OperandError(f"{op}: axis {axis} names an axis twice")
    return positive


@primitive()
def reshape(x: Float[Array, "..."], *, shape: int | tuple[int, ...]):
    """y = x in another shape, row-major; one entry may be −1.   x̄ = ȳ in the shape of x."""
    sizes = shape if isinstance(shape, tuple) else (shape,)
    known, size = math.prod(n for n in sizes if n != -1), jnp.size(x)
    fits = known == size if -1 not in sizes else sizes.count(-1) == 1 and known > 0 and size % known == 0
    if not fits:
        raise OperandError(f"reshape: {jnp.shape(x)} holds {size} values, which do not fill the shape {sizes}")
    return jnp.reshape(x, sizes)


@reshape.rule
def reshape_backward(res, y_bar, *, shape):
    return (reshape(y_bar, shape=res.x.shape),)


@primitive()
def transpose(x: Float[Array, "..."], *, axes: tuple[int, ...] | None = None):
    """y[i₀, i₁, …]: axis k of y is axis axes[k] of x; `None` reverses them.   x̄ = ȳ under the inverse permutation."""
    if axes is not None and len(axes_of(axes, jnp.ndim(x), "transpose")) != jnp.ndim(x):
        raise OperandError(f"transpose: {len(axes)} axes {axes} for an array with {jnp.ndim(x)}; name each axis once")
    return jnp.transpose(x, permutation(axes, jnp.ndim(x)))


@transpose.rule
def transpose_backward(res, y_bar, *, axes):
    order = permutation(axes, res.x.ndim)
    return (transpose(y_bar, axes=tuple(order.index(k) for k in range(len(order)))),)


def permutation(axes: tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    """Which axis of x each axis of y is, none counted from the end."""
    return tuple(reversed(range(ndim))) if axes is None else tuple(a % ndim for a in axes)


@primitive()
def broadcast_to(x: Float[Array, "..."], *, shape: tuple[int, ...]):
    """y = x repeated along new leading axes and along axes of size 1.   x̄ = the sum of ȳ over the repetitions."""
    if not broadcasts(jnp.shape(x), shape):
        raise OperandError(f"broadcast_to: {jnp.shape(x)} does not broadcast to {shape}; only axes of size 1 and new leading axes repeat")
    return jnp.broadcast_to(x, shape)


@broadcast_to.rule
def broadcast_to_backward(res, y_bar, *, shape):
    return (sum_to(y_bar, shape=res.x.shape),)


@primitive()
def sum_to(x: Float[Array, "..."], *, shape: tuple[int, ...]):
    """y = x summed over the axes that broadcasting `shape` to the shape of x would repeat.   x̄ = ȳ repeated along them.

    Narrow dtypes are summed in `accumulator(dtype)`: the gradient of a bias is such a sum.
    """
    before = jnp.shape(x)
    if before == shape:
        return jnp.asarray(x)
    if not broadcasts(shape, before):
        raise OperandError(f"sum_to: {shape} does not broadcast to {before}, so nothing of that shape was repeated to make it")
    lead = len(before) - len(shape)
    axes = (*range(lead), *(lead + i for i, n in enumerate(shape) if n != before[lead + i]))
    return jnp.reshape(total(x, axes), shape)


@sum_to.rule
def sum_to_backward(res, y_bar, *, shape):
    return (broadcast_to(y_bar, shape=res.x.shape),)


def broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    lead = len(target) - len(shape)
    return lead >= 0 and all(n in (1, m) for n, m in zip(shape, target[lead:]))


def total(x, axes: tuple[int, ...], keepdims: bool = False):
    """Σ x over axes, held in the accumulator's dtype on the way; integers as NumPy sums them."""
    if not is_float(x):
        return jnp.sum(x, axes, keepdims=keepdims)
    return jnp.sum(x, axes, dtype=accumulator(x.dtype), keepdims=keepdims).astype(x.dtype)


def unbroadcast(x_bar, x):
    """What a rule owes to an operand that may have been broadcast: `x_bar` summed to the shape of x. Written in ops.

    Nothing is recorded where the shapes agree, so a graph of second derivatives stays small.
    """
    shape = x.shape if hasattr(x, "shape") else ()  # a Python number has none
    return x_bar if x_bar.shape == shape else sum_to(x_bar, shape=shape)
