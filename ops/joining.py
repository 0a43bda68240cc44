"""Ops of several arrays: concatenate and split, stack and unstack. Each is the other's rule.

`pullback.ops` gives them NumPy's spelling, with a sequence of arrays; here they are variadic.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..lib.errors import OperandError
from .op import primitive
from .shape import axes_of


def one_axis(axis: int, ndim: int, op: str) -> int:
    return axes_of(axis, ndim, op)[0]


@primitive()
def concatenate(*xs: Float[Array, "..."], axis: int = 0):
    """y = the xs one after the other along an axis that exists.   x̄s = ȳ, cut at the joints."""
    if not xs or jnp.ndim(xs[0]) == 0:
        raise OperandError("concatenate: expected one or more arrays with an axis; for scalars use stack")
    at = one_axis(axis, jnp.ndim(xs[0]), "concatenate")
    rests = {(*jnp.shape(x)[:at], *jnp.shape(x)[at + 1 :]) for x in xs}
    if len(rests) > 1:
        raise OperandError(f"concatenate: shapes {', '.join(str(jnp.shape(x)) for x in xs)} differ outside axis {axis}")
    return jnp.concatenate(xs, at)


@concatenate.rule
def concatenate_backward(res, y_bar, *, axis):
    at = one_axis(axis, y_bar.ndim, "concatenate")
    return split(y_bar, sizes=tuple(x.shape[at] for x in res.xs), axis=at)


@primitive()
def split(x: Float[Array, "..."], *, sizes: tuple[int, ...], axis: int = 0):
    """ys = x cut along an axis into pieces of these sizes.   x̄ = the ȳs one after the other."""
    at = one_axis(axis, jnp.ndim(x), "split")
    ends = [0]
    for size in sizes:
        ends.append(ends[-1] + size)
    if ends[-1] != jnp.shape(x)[at] or min(sizes, default=0) < 0:
        raise OperandError(f"split: sizes {sizes} add up to {ends[-1]}; axis {axis} of shape {jnp.shape(x)} has {jnp.shape(x)[at]}")
    before = (slice(None),) * at
    return tuple(x[(*before, slice(start, stop))] for start, stop in zip(ends, ends[1:]))


@split.rule
def split_backward(res, y_bars, *, sizes, axis):
    return (concatenate(*y_bars, axis=axis),)


@primitive()
def stack(*xs: Float[Array, "..."], axis: int = 0):
    """y = the xs along a new axis.   x̄s = ȳ taken apart along it."""
    shapes = {jnp.shape(x) for x in xs}
    if len(shapes) != 1:
        came = f"shapes {', '.join(str(jnp.shape(x)) for x in xs)}" if xs else "nothing"
        raise OperandError(f"stack: {came}; expected one or more arrays of one shape")
    return jnp.stack(xs, one_axis(axis, jnp.ndim(xs[0]) + 1, "stack"))


@stack.rule
def stack_backward(res, y_bar, *, axis):
    return unstack(y_bar, axis=axis)


@primitive()
def unstack(x: Float[Array, "..."], *, axis: int = 0):
    """ys = the slices of x along an axis, without it.   x̄ = the ȳs stacked.

    The way to go through the rows of a large array: a row taken by `index` costs a cotangent as large as the array.
    """
    at = one_axis(axis, jnp.ndim(x), "unstack")
    before = (slice(None),) * at
    return tuple(jnp.asarray(x)[(*before, i)] for i in range(jnp.shape(x)[at]))


@unstack.rule
def unstack_backward(res, y_bars, *, axis):
    return (stack(*y_bars, axis=axis) if y_bars else jnp.zeros(res.x.shape, res.x.dtype),)
