"""SwiGLU, the gated half of a feed-forward layer."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..lib.errors import OperandError
from .arithmetic import mul
from .gate import LIMIT, silu_composite, widened
from .op import fused


@fused(saves=("a", "b"))
def swiglu(a: Float[Array, "*shape"], b: Float[Array, "*shape"]):
    """y = a·σ·b,   σ = 1/(1 + e⁻ᵃ): the gate silu a, times b. a and b, of one shape, are two linear maps of one input.

    ā = ȳ·b·σ·(1 + a·(1 − σ)),   b̄ = ȳ·a·σ.   No residuals: σ is computed again in the backward, and y for who needs it.
    Half precision is computed in float32. a = −∞ gives y = 0 and a = ∞ gives ±∞, with the slopes 0 and b in a.
        Shazeer 2020, arXiv 2002.05202
    """
    if jnp.shape(a) != jnp.shape(b):
        raise OperandError(f"swiglu: a of shape {jnp.shape(a)} and b of shape {jnp.shape(b)}; expected the same shape")
    y = gate(widened(a)) * b
    dtype = jnp.result_type(a, b)
    return y.astype(dtype) if jnp.issubdtype(dtype, jnp.floating) else y


def gate(a):
    """silu a, where −∞ meets no 0."""
    return jnp.maximum(a, -LIMIT) * lax.logistic(a)


@swiglu.recomputed
def swiglu_again(res):
    return swiglu.fn(res.a, res.b)


@swiglu.rule
def swiglu_backward(res, y_bar):
    # y = silu(a)·b with silu a = a·σ and dσ/da = σ·(1 − σ)
    wide = widened(res.a)
    a = jnp.clip(wide, -LIMIT, LIMIT)
    s = lax.logistic(a)
    return s * (1 + a * (1 - s)) * y_bar * res.b, gate(wide) * y_bar


@swiglu.composite
def swiglu_composite(a, b):
    return mul(silu_composite(a), b)
