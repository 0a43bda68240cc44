"""The product over axes."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..lib.precision import accumulator
from .arithmetic import mul
from .cumulative import cumprod, moved
from .identity import cast
from .op import primitive
from .reduction import Axis, met, restored
from .rule import is_float
from .shape import axes_of, reshape, transpose


@primitive(saves=("x",))
def prod(x: Float[Array, "..."], *, axis: Axis = None, keepdims: bool = False):
    """y = Π x over the axes, 1 for none.   x̄_k = ȳ·Π x_j over j ≠ k.

    The product of the others is that of those before times that of those after. Nothing is divided by x, so one zero, two
    zeros and every order of derivative come out right.
    """
    axes = axes_of(axis, jnp.ndim(x), "prod")
    if not is_float(x):
        return jnp.prod(x, axes, keepdims=keepdims)
    return jnp.prod(x, axes, dtype=accumulator(x.dtype), keepdims=keepdims).astype(x.dtype)


@prod.rule
def prod_backward(res, y_bar, *, axis, keepdims):
    axes = axes_of(axis, res.x.ndim, "prod")
    kept = tuple(a for a in range(res.x.ndim) if a not in axes)
    order = (*kept, *axes)
    x = cast(res.x, dtype=accumulator(res.x.dtype).name)
    x = reshape(transpose(x, axes=order), shape=(*(x.shape[a] for a in kept), met(res.x, axes)))
    before = cumprod(moved(x, -1, 1, 1.0), axis=-1)
    after = cumprod(moved(x, -1, -1, 1.0), axis=-1, reverse=True)
    others = reshape(mul(before, after), shape=tuple(res.x.shape[a] for a in order))
    others = transpose(others, axes=tuple(order.index(a) for a in range(len(order))))
    return (mul(restored(y_bar, res.x, axis), others),)
