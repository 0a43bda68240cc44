"""Ops that leave values as they are: the change of dtype, the barrier, stop_gradient."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..lib.errors import OperandError
from .op import constant, is_float, primitive


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
    return (cast(y_bar, dtype=res.x.dtype.name) if is_float(res.x) else None,)


@primitive()
def barrier(*xs: Array):
    """yᵢ = xᵢ, for all or for none: no yᵢ is there before every xᵢ is, and XLA may not move or merge work across.   x̄ᵢ = ȳᵢ.

    What is computed from yᵢ alone thus waits for every xᵢ (checkpoint stands on this).
    """
    return tuple(lax.optimization_barrier(xs))


@barrier.rule
def barrier_backward(res, y_bars):
    return tuple(y_bars)


@constant
def stop_gradient(x: Float[Array, "..."]):
    """y = x, untracked: nothing flows back."""
    return jnp.asarray(x)


@constant
def discrete(x: Float[Array, "..."], *, dtype: str):
    """y = x as integers (rounded towards zero) or booleans, untracked: nothing flows back."""
    return jnp.asarray(x).astype(dtype)
