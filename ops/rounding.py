"""Steps: sign, floor, ceil, round, trunc. Their slope is 0 wherever they have one, and 0 is taken at the jumps too.

So nothing is learnt through them by the exact rule. The variant `straight_through` sends the cotangent past them instead.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .identity import identity
from .op import primitive


@primitive()
def sign(x: Float[Array, "..."]):
    """y = −1, 0 or 1 as x is below, at or above 0;   x̄ = 0.   Variant: `straight_through`, x̄ = ȳ."""
    return jnp.sign(x)


@primitive()
def floor(x: Float[Array, "..."]):
    """y = the largest whole number ≤ x;   x̄ = 0.   Variant: `straight_through`, x̄ = ȳ."""
    return jnp.floor(x)


@primitive()
def ceil(x: Float[Array, "..."]):
    """y = the smallest whole number ≥ x;   x̄ = 0.   Variant: `straight_through`, x̄ = ȳ."""
    return jnp.ceil(x)


@primitive()
def round(x: Float[Array, "..."]):
    """y = the whole number nearest to x, of two the even one;   x̄ = 0.   Variant: `straight_through`, x̄ = ȳ."""
    return jnp.round(x)


@primitive()
def trunc(x: Float[Array, "..."]):
    """y = x without its fraction;   x̄ = 0.   Variant: `straight_through`, x̄ = ȳ."""
    return jnp.trunc(x)


@sign.rule
@floor.rule
@ceil.rule
@round.rule
@trunc.rule
def flat(res, y_bar):
    """x̄ = 0."""
    return (jnp.zeros(res.x.shape, res.x.dtype),)


@sign.rule("straight_through", contract="surrogate", of=identity)
@floor.rule("straight_through", contract="surrogate", of=identity)
@ceil.rule("straight_through", contract="surrogate", of=identity)
@round.rule("straight_through", contract="surrogate", of=identity)
@trunc.rule("straight_through", contract="surrogate", of=identity)
def straight_through(res, y_bar):
    """x̄ = ȳ, as if y were x.        Bengio, Léonard & Courville 2013, arXiv 1308.3432"""
    return (y_bar,)
