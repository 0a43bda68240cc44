"""Ops that put values in other places: flip, roll, pad, tril, triu. None of them changes a value.

`face.py` has NumPy's spelling of them, with axes and counts by position.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..lib.errors import OperandError
from .op import primitive
from .shape import axes_of


@primitive()
def flip(x: Float[Array, "..."], *, axis: int | tuple[int, ...] | None = None):
    """y = x in reverse order along the axes, along all of them for `None`.   x̄ = ȳ in reverse order along them."""
    return jnp.flip(x, axes_of(axis, jnp.ndim(x), "flip"))


@flip.rule
def flip_backward(res, y_bar, *, axis):
    return (flip(y_bar, axis=axis),)


@primitive()
def roll(x: Float[Array, "..."], *, shift: tuple[int, ...], axis: tuple[int, ...]):
    """y = x moved on by shift[i] places along axis[i]; what leaves at one end enters at the other.   x̄ = ȳ moved back."""
    return jnp.roll(x, shift, axes_of(axis, jnp.ndim(x), "roll"))


@roll.rule
def roll_backward(res, y_bar, *, shift, axis):
    return (roll(y_bar, shift=tuple(-s for s in shift), axis=axis),)


@primitive()
def pad(x: Float[Array, "..."], *, pad_width: tuple[tuple[int, int], ...], constant_values: int | float = 0):
    """y[i] = x[i − before] along each axis, and `constant_values` where x has no such element.   x̄[j] = ȳ[j + before], else 0.

    pad_width: (before, after) for each axis, `before + n + after` elements of y; a negative number cuts that many away.
    """
    shape = jnp.shape(x)
    if len(pad_width) != len(shape) or any(before + n + after < 0 for n, (before, after) in zip(shape, pad_width)):
        raise OperandError(f"pad: widths {pad_width} for shape {shape}; expected (before, after) per axis, cutting no more than there is")
    x = jnp.asarray(x)
    return lax.pad(x, jnp.asarray(constant_values, x.dtype), [(before, after, 0) for before, after in pad_width])


@pad.rule
def pad_backward(res, y_bar, *, pad_width, constant_values):
    return (pad(y_bar, pad_width=tuple((-before, -after) for before, after in pad_width)),)


@primitive()
def tril(x: Float[Array, "... N M"], *, k: int = 0):
    """y = x on and below the k-th diagonal of its last two axes, else 0.   x̄ = ȳ there, else 0.

    The diagonal k holds the x[…, i, i + k]. A choice, no product: what is left out may be infinite.
    """
    return jnp.tril(matrices(x, "tril"), k)


@tril.rule
def tril_backward(res, y_bar, *, k):
    return (tril(y_bar, k=k),)


@primitive()
def triu(x: Float[Array, "... N M"], *, k: int = 0):
    """y = x on and above the k-th diagonal of its last two axes, else 0.   x̄ = ȳ there, else 0."""
    return jnp.triu(matrices(x, "triu"), k)


@triu.rule
def triu_backward(res, y_bar, *, k):
    return (triu(y_bar, k=k),)


def matrices(x, op: str):
    if jnp.ndim(x) < 2:
        raise OperandError(f"{op}: x of shape {jnp.shape(x)}; expected two or more axes, the last two being rows and columns")
    return jnp.asarray(x)
