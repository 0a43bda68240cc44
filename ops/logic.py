"""Logic on booleans (any number but 0 is true), and the question whether a value is NaN. Nothing flows back through them."""

import jax.numpy as jnp

from .op import constant


@constant
def logical_and(x, y):
    """x and y, element by element."""
    return jnp.logical_and(x, y)


@constant
def logical_or(x, y):
    """x or y or both, element by element."""
    return jnp.logical_or(x, y)


@constant
def logical_xor(x, y):
    """x or y, not both, element by element."""
    return jnp.logical_xor(x, y)


@constant
def logical_not(x):
    """Not x, element by element."""
    return jnp.logical_not(x)


@constant
def isnan(x):
    """Is x NaN? Element by element."""
    return jnp.isnan(x)
