"""Ops that leave values as they are: the change of dtype, the barrier, the tap, stop_gradient."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..lib.errors import OperandError
from .op import constant, primitive


@primitive()
def cast(x: Float[Array, "..."], *, dtype: str):
    """y = x rounded to another float dtype.   x̄ = ȳ in the dtype of x.

    Integers and booleans have no cotangent, so a cast to them is another op: `discrete`; `astype` picks the right one.
    """
    if not jnp.issubdtype(jnp.dtype(dtype), jnp.floating):
        raise OperandError(f"cast to {jnp.dtype(dtype)}: expected a float dtype; use astype, through which nothing flows back then")
    return jnp.asarray(x).astype(dtype)


@cast.rule
def cast_backward(res, y_bar, *, dtype):
    return (y_bar,)  # the engine gives a cotangent the dtype of its operand


def identity(x):
    """y = x: the function whose slope a straight-through rule is."""
    return x


@primitive()
def barrier(x: Float[Array, "..."]):
    """y = x, and XLA may not move or merge work across it.   x̄ = ȳ."""
    return lax.optimization_barrier(x)


@barrier.rule
def barrier_backward(res, y_bar):
    return (y_bar,)


@primitive()
def tap(x: Float[Array, "..."], *, name: str):
    """y = x;   x̄ = ȳ.   A named place in the backward: `collecting` finds its cotangent under `scope/name`."""
    return jnp.asarray(x)


@tap.rule
def tap_backward(res, y_bar, *, name):
    return (y_bar,)


@constant
def stop_gradient(x: Float[Array, "..."]):
    """y = x, untracked: nothing flows back."""
    return jnp.asarray(x)


@constant
def discrete(x: Float[Array, "..."], *, dtype: str):
    """y = x as integers (rounded towards zero) or booleans, untracked: nothing flows back."""
    return jnp.asarray(x).astype(dtype)
