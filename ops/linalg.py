"""Triangular matrices: cholesky, and triangular_solve, which its rule is written in.

Matrices stand in the last two axes, stacks of them in the axes before, which broadcast. LAPACK knows float32 and float64:
narrower floats are computed in `accumulator(dtype)` and rounded once, integers count as the default float.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..lib.errors import OperandError
from ..lib.precision import accumulator
from .arithmetic import add, mul, neg
from .layout import tril, triu
from .matmul import matmul, turned
from .op import primitive
from .shape import reshape, unbroadcast


@primitive(saves=("out",))
def cholesky(a: Float[Array, "*batch N N"]):
    """A = L·Lᵀ with L lower triangular.   Ā = ½·L⁻ᵀ·S·L⁻¹, where S is symmetric and has the lower triangle of LᵀL̄.

    A is taken to be its symmetric part, (A + Aᵀ)/2, so Ā is symmetric too (np.linalg.cholesky reads the lower triangle only).
    What is above the diagonal of L is a constant 0, and its cotangent is not read. An A that is not positive definite gives
    NaN, forward and backward, and leaves the others of its stack alone.             Murray 2016, arXiv:1602.07527
    """
    square("cholesky", a)
    dtype = floating(a)
    return lax.linalg.cholesky(jnp.asarray(a, accumulator(dtype))).astype(dtype)


@cholesky.rule
def cholesky_backward(res, l_bar):
    # A = L·Lᵀ
    m = matmul(turned(res.out), tril(l_bar))
    s = add(tril(m), turned(tril(m, k=-1)))
    half = triangular_solve(res.out, s, lower=True, transpose=True)
    return (mul(0.5, triangular_solve(res.out, turned(half), lower=True, transpose=True)),)  # (L⁻ᵀ·S·L⁻¹)ᵀ, which is the same


@primitive(saves=("a", "out"))
def triangular_solve(
    a: Float[Array, "*batch N N"], b: Float[Array, "*batch N K"], *, lower: bool, transpose: bool = False, unit_diagonal: bool = False
):
    """x = A⁻¹·b, or A⁻ᵀ·b, for a triangular A.   b̄ = A⁻ᵀ·x̄, or A⁻¹·x̄;   Ā = −b̄·xᵀ, or −x·b̄ᵀ, in the triangle.

    Only the triangle is read, so whatever stands in the other has the cotangent 0; so has the diagonal where it is taken to
    be one (`unit_diagonal`). b is a vector if it has one axis, else a stack of matrices. A zero on the diagonal gives
    infinities and NaN.
    """
    wide, dtype, vector = system("triangular_solve", a, b)
    batch = jnp.broadcast_shapes(*(x.shape[:-2] for x in wide))
    a, b = (jnp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in wide)
    x = lax.linalg.triangular_solve(a, b, left_side=True, lower=lower, transpose_a=transpose, unit_diagonal=unit_diagonal).astype(dtype)
    return x[..., 0] if vector else x


@triangular_solve.rule
def triangular_solve_backward(res, x_bar, *, lower, transpose, unit_diagonal):
    # x = A⁻¹·b, or A⁻ᵀ·b
    x, x_bar = columns(res, x_bar)
    b_bar = triangular_solve(res.a, x_bar, lower=lower, transpose=not transpose, unit_diagonal=unit_diagonal)
    a_bar, b_bar = summed_back(res, x, b_bar, transpose)
    outside = 1 if unit_diagonal else 0
    return tril(a_bar, k=-outside) if lower else triu(a_bar, k=outside), b_bar


def columns(res, x_bar):
    """x and x̄ as matrices, where b was a vector. Written in ops."""
    if res.b.ndim > 1:
        return res.out, x_bar
    return tuple(reshape(v, shape=(*v.shape, 1)) for v in (res.out, x_bar))


def summed_back(res, x, b_bar, transpose: bool):
    """(Ā, b̄) in the shapes of A and b, from x and b̄ as matrices: Ā = −b̄·xᵀ, or its transpose where Aᵀ was solved with.

    Written in ops.
    """
    left, right = (x, b_bar) if transpose else (b_bar, x)
    a_bar = neg(unbroadcast(matmul(left, turned(right)), res.a))
    if res.b.ndim == 1:
        b_bar = reshape(b_bar, shape=b_bar.shape[:-1])
    return a_bar, unbroadcast(b_bar, res.b)


def system(op: str, a, b):
    """((A, b) as stacks of matrices in a dtype that LAPACK knows, the dtype of x, was b a vector?)"""
    square(op, a)
    shape = jnp.shape(b)
    n, vector = jnp.shape(a)[-1], len(shape) == 1
    if not shape or shape[-1 if vector else -2] != n:
        raise OperandError(f"{op}: A of shape {jnp.shape(a)} and b of shape {shape}; expected b ({n},) or (..., {n}, columns)")
    dtype = floating(a, b)
    a, b = (jnp.asarray(v, accumulator(dtype)) for v in (a, b))
    return (a, b[:, None] if vector else b), dtype, vector


def floating(*xs) -> jnp.dtype:
    """The dtype of a result that is never an integer."""
    dtype = jnp.result_type(*xs)
    return dtype if jnp.issubdtype(dtype, jnp.floating) else jnp.result_type(float)


def square(op: str, a) -> None:
    shape = jnp.shape(a)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise OperandError(f"{op}: A of shape {shape}; expected square matrices, (..., N, N)")
