"""Choosing between values: where, and the comparisons that make its conditions.

A comparison is a constant: it looks at the value of a tracked operand, and its result is untracked.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..lib.errors import OperandError
from .op import constant, face, primitive
from .shape import unbroadcast


@primitive(saves=("condition",))
def where(condition: Bool[Array, "..."], x: Float[Array, "..."], y: Float[Array, "..."]):
    """z = x where the condition holds, else y.   x̄ = z̄ where it holds, else 0;  ȳ the other way round.

    The rule selects, so an infinite z̄ stays out of the branch that was not taken. What it cannot mend: a function whose slope
    is infinite turns the 0 that it is sent into NaN. Guard its operand too: where(x > 0, sqrt(where(x > 0, x, 1)), 0).
    """
    if jnp.result_type(condition) != jnp.bool_:
        raise OperandError(f"where: the condition is {jnp.result_type(condition)}; expected booleans, for example greater(x, 0)")
    return jnp.where(condition, x, y)


@where.rule
def where_backward(res, z_bar):
    x_bar, y_bar = where(res.condition, z_bar, 0.0), where(res.condition, 0.0, z_bar)
    return None, unbroadcast(x_bar, res.x), unbroadcast(y_bar, res.y)


@face("where")
def masked_fill(x, mask, value):
    """x, with a value where the mask holds.   x̄ = ȳ, 0 where the mask holds;  the value's cotangent is the sum of ȳ there.

    The mask may be traced, unlike one that index_set or index_fill is given.
    """
    return where(mask, value, x)


@constant
def equal(x, y):
    """x = y, element by element."""
    return jnp.equal(x, y)


@constant
def not_equal(x, y):
    """x ≠ y, element by element."""
    return jnp.not_equal(x, y)


@constant
def less(x, y):
    """x < y, element by element."""
    return jnp.less(x, y)


@constant
def less_equal(x, y):
    """x ≤ y, element by element."""
    return jnp.less_equal(x, y)


@constant
def greater(x, y):
    """x > y, element by element."""
    return jnp.greater(x, y)


@constant
def greater_equal(x, y):
    """x ≥ y, element by element."""
    return jnp.greater_equal(x, y)


@constant
def isinf(x):
    """|x| = ∞, element by element."""
    return jnp.isinf(x)


@constant
def isfinite(x):
    """|x| < ∞, element by element; false for NaN."""
    return jnp.isfinite(x)
