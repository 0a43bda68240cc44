"""Layer normalisation."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..lib.errors import OperandError
from ..lib.precision import accumulator
from . import reduction
from .arithmetic import add, mul, rsqrt, sub
from .identity import stop_gradient
from .linear import sum_rows
from .op import fused


class LayerNormResiduals(NamedTuple):
    """Two numbers per row, in the accumulator's dtype: 8 bytes a row in float32."""

    mean: Float[Array, "... 1"]  # of x − x₀, see `from_first`
    rstd: Float[Array, "... 1"]  # 1/√(variance + ε)


@fused(saves=("x", "scale", "bias"), residuals=LayerNormResiduals)
def layer_norm(
    x: Float[Array, "... D"], scale: Float[Array, " D"] | None = None, bias: Float[Array, " D"] | None = None, *, eps: float = 1e-5
):
    """y = x̂·s + b,   x̂ = (x − μ)·r,   r = 1/√(σ² + ε);   μ, σ² mean and variance (divisor D) over the last axis.

    With g = ȳ·s:   x̄ = r·(g − mean g − x̂·mean(g·x̂)),   s̄ = Σ ȳ·x̂,   b̄ = Σ ȳ over the rows.
    Residuals: mean and rstd; x̂ is recomputed, and y for who needs it. The variance is taken in a second pass over centred
    values, so neither a large common offset nor a constant row cancels: such a row gives y = b and r = 1/√ε.
        Ba, Kiros & Hinton 2016, arXiv 1607.06450
    """
    for name, p in (("scale", scale), ("bias", bias)):
        if p is not None and jnp.shape(p) != jnp.shape(x)[-1:]:
            raise OperandError(f"layer_norm: {name} of shape {jnp.shape(p)} for x of shape {jnp.shape(x)}; expected {jnp.shape(x)[-1:]}")
    if jnp.ndim(x) == 0:
        raise OperandError("layer_norm: x is a scalar; expected at least one axis to normalise over")
    d = from_first(x)
    mean = jnp.mean(d, -1, keepdims=True)
    d = d - mean
    rstd = lax.rsqrt(jnp.mean(d * d, -1, keepdims=True) + eps)
    return affine(d * rstd, x, scale, bias), LayerNormResiduals(mean, rstd)


def affine(x_hat, x, scale, bias):
    """x̂·s + b in the dtype that x, s and b promote to."""
    y = x_hat if scale is None else x_hat * scale
    y = y if bias is None else y + bias
    dtype = jnp.result_type(*(p for p in (x, scale, bias) if p is not None))
    return y.astype(dtype if jnp.issubdtype(dtype, jnp.floating) else y.dtype)


@layer_norm.recomputed
def layer_norm_again(res, *, eps):
    return affine((from_first(res.x) - res.mean) * res.rstd, res.x, res.scale, res.bias)


def from_first(x):
    """x − x₀, x₀ the first of each row: exact for values close to each other, where rounding a large mean would drown them."""
    wide = x.astype(accumulator(x.dtype))
    return wide - wide[..., :1]


@layer_norm.rule
def layer_norm_backward(res, y_bar, *, eps):
    # y = x̂·s + b with x̂ = (x − μ)·r: μ and r depend on the row as well, which takes the two means out of g
    x_hat = (from_first(res.x) - res.mean) * res.rstd
    y_bar = y_bar.astype(x_hat.dtype)
    g = y_bar if res.scale is None else y_bar * res.scale
    x_bar = res.rstd * (g - jnp.mean(g, -1, keepdims=True) - x_hat * jnp.mean(g * x_hat, -1, keepdims=True))
    return x_bar, None if res.scale is None else sum_rows(y_bar * x_hat), None if res.bias is None else sum_rows(y_bar)


@layer_norm.composite
def layer_norm_composite(x, scale=None, bias=None, *, eps=1e-5):
    x = sub(x, stop_gradient(x)[..., :1])  # any shift gives the same y, so nothing flows through it
    d = sub(x, reduction.mean(x, axis=-1, keepdims=True))
    variance = reduction.mean(mul(d, d), axis=-1, keepdims=True)
    y = mul(d, rsqrt(add(variance, eps)))
    y = y if scale is None else mul(y, scale)
    return y if bias is None else add(y, bias)
