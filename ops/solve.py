"""Square matrices without structure, by LU with row exchanges: solve, inverse, slogdet, det. As in `linalg.py` for all else.

Each rule factorises again; within one compiled program XLA sees that it is the same factorisation and does it once.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..lib.precision import accumulator
from .arithmetic import exp, mul, neg
from .linalg import columns, floating, square, summed_back, system
from .matmul import matmul, turned
from .op import face, primitive
from .shape import reshape


def by_elimination(a, b, trans: int = 0):
    """A⁻¹·b, or A⁻ᵀ·b, by LU with row exchanges."""
    from jax.scipy.linalg import lu_factor, lu_solve  # takes longer to import than all ops together, and few solve

    return lu_solve(lu_factor(a), b, trans=trans)


@primitive(saves=("a", "out"))
def solve(a: Float[Array, "*batch N N"], b: Float[Array, "*batch N K"], *, transpose: bool = False):
    """x = A⁻¹·b, or A⁻ᵀ·b.   b̄ = A⁻ᵀ·x̄, or A⁻¹·x̄;   Ā = −b̄·xᵀ, or −x·b̄ᵀ.

    b is a vector if it has one axis, else a stack of matrices. A singular A gives infinities and NaN, unless rounding hides it.
    """
    (a, b), dtype, vector = system("solve", a, b)
    b = jnp.reshape(b, (1,) * (a.ndim - b.ndim) + b.shape)  # with fewer axes lu_solve might take it for vectors
    x = by_elimination(a, b, int(transpose)).astype(dtype)
    return x[..., 0] if vector else x


@solve.rule
def solve_backward(res, x_bar, *, transpose):
    # x = A⁻¹·b, or A⁻ᵀ·b
    x, x_bar = columns(res, x_bar)
    b_bar = solve(res.a, x_bar, transpose=not transpose)
    return summed_back(res, x, b_bar, transpose)


@primitive(saves=("out",))
def inverse(a: Float[Array, "*batch N N"]):
    """Y = A⁻¹.   Ā = −Yᵀ·Ȳ·Yᵀ.   A singular A gives infinities and NaN. To solve with A, `solve` is faster and more accurate."""
    square("inverse", a)
    dtype = floating(a)
    wide = jnp.asarray(a, accumulator(dtype))
    return by_elimination(wide, jnp.broadcast_to(jnp.eye(wide.shape[-1], dtype=wide.dtype), wide.shape)).astype(dtype)


@inverse.rule
def inverse_backward(res, y_bar):
    t = turned(res.out)
    return (neg(matmul(t, matmul(y_bar, t))),)


@face("inverse")
def inv(a):
    """np.linalg.inv: `inverse` by NumPy's name."""
    return inverse(a)


@primitive(saves=("a",))
def slogdet(a: Float[Array, "*batch N N"]):
    """(sign, log |det A|).   Ā = A⁻ᵀ times the cotangent of the second; the sign is constant, and its cotangent is not read.

    A singular A gives (0, −∞), and infinities and NaN for Ā.
    """
    square("slogdet", a)
    dtype = floating(a)
    return tuple(y.astype(dtype) for y in jnp.linalg.slogdet(jnp.asarray(a, accumulator(dtype))))


@slogdet.rule
def slogdet_backward(res, y_bars):
    _, log_bar = y_bars
    return (mul(reshape(log_bar, shape=(*log_bar.shape, 1, 1)), turned(inverse(res.a))),)


@face("slogdet", "mul", "exp")
def det(a):
    """np.linalg.det, as sign·exp(log |det A|): its cotangent is det(A)·A⁻ᵀ, which is NaN for a singular A (the limit exists)."""
    sign, log = slogdet(a)
    return mul(sign, exp(log))
