"""Powers by the names that NumPy has for them. Each stands on other ops."""

import jax.numpy as jnp
import numpy as np

from ..lib.errors import OperandError
from .arithmetic import div, pow_constant, power
from .op import face
from .rule import aval_of


@face("pow_constant", "power")
def pow(x, y):
    """z = x^y. A Python number y is compiled in (`pow_constant`); an array is an operand with a cotangent of its own (`power`).

    Integers to a negative number are an error, as in NumPy: that number alone cannot say that a float is wanted.
    """
    if not isinstance(y, (int, float)):
        return power(x, y)
    aval = aval_of(x)
    if aval is not None and y < 0 and isinstance(y, int) and not jnp.issubdtype(aval.dtype, np.inexact):
        raise OperandError(f"pow: {aval.dtype} to the power {y}; expected a float array, or the power as a float ({float(y)})")
    return pow_constant(x, exponent=y)


@face("pow_constant")
def square(x):
    """y = x²;   x̄ = 2ȳ·x."""
    return pow_constant(x, exponent=2)


@face("div")
def reciprocal(x):
    """y = 1/x;   x̄ = −ȳ·y². A float for integers too, where NumPy would round to 0."""
    return div(1.0, x)
