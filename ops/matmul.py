"""The matrix product, with NumPy's treatment of vectors and of stacks of matrices."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..lib.errors import OperandError
from ..lib.precision import accumulator, policy
from .op import primitive
from .shape import reshape, transpose, unbroadcast


@primitive(saves=("x", "y"))
def matmul(x: Float[Array, "*batch M K"], y: Float[Array, "*batch K N"]):
    """z = x·y over the last two axes; a vector x is a row, a vector y a column, and loses that axis again; stacks broadcast.

    x̄ = z̄·yᵀ,  ȳ = xᵀ·z̄, each summed back to its operand's shape. One y for a whole stack of x gets its cotangent from one
    product over all rows. float32 products have the policy's precision; narrow ones are added up in `accumulator(dtype)`.
    """
    a, b = jnp.shape(x), jnp.shape(y)
    if not a or not b or a[-1] != b[-2 if len(b) > 1 else -1]:
        hint = "; a scalar multiplies by mul" if not a or not b else ": the columns of the left must be as many as the rows of the right"
        raise OperandError(f"matmul: {a} by {b}{hint}")
    dtype = jnp.result_type(x, y)
    wide = accumulator(dtype) if jnp.issubdtype(dtype, jnp.floating) else None
    return jnp.matmul(x, y, precision=policy().product, preferred_element_type=wide).astype(dtype)


@matmul.rule
def matmul_backward(res, z_bar):
    x, y, row, column = res.x, res.y, res.x.ndim == 1, res.y.ndim == 1
    if row:
        x = reshape(x, shape=(1, *x.shape))
    if column:
        y = reshape(y, shape=(*y.shape, 1))
    if row or column:
        batch = x.shape[:-2] if column else y.shape[:-2]
        z_bar = reshape(z_bar, shape=(*batch, x.shape[-2], y.shape[-1]))
    x_bar = unbroadcast(matmul(z_bar, turned(y)), x)
    if y.ndim == 2 < x.ndim:
        rows = math.prod(x.shape[:-1])
        x, z_bar = reshape(x, shape=(rows, x.shape[-1])), reshape(z_bar, shape=(rows, z_bar.shape[-1]))
    y_bar = unbroadcast(matmul(turned(x), z_bar), y)
    return reshape(x_bar, shape=res.x.shape), reshape(y_bar, shape=res.y.shape)


def turned(x):
    """Every matrix of a stack transposed. Written in ops."""
    *batch, i, j = range(x.ndim)
    return transpose(x, axes=(*batch, j, i))
