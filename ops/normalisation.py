"""Layer, root-mean-square and group normalisation.

Statistics and sums are held in `accumulator(dtype)`; a scale or bias of another dtype promotes the output.
"""

import math
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
from .shape import reshape


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
    check("layer_norm", x, scale, bias)
    d = from_first(x)
    mean = jnp.mean(d, -1, keepdims=True)
    d = d - mean
    rstd = lax.rsqrt(jnp.mean(d * d, -1, keepdims=True) + eps)
    return affine(d * rstd, x, scale, bias), LayerNormResiduals(mean, rstd)


def check(op: str, x, scale, bias=None) -> None:
    """x has a last axis; scale and bias, where given, have its length."""
    if jnp.ndim(x) == 0:
        raise OperandError(f"{op}: x is a scalar; expected at least one axis to normalise over")
    for name, p in (("scale", scale), ("bias", bias)):
        if p is not None and jnp.shape(p) != jnp.shape(x)[-1:]:
            raise OperandError(f"{op}: {name} of shape {jnp.shape(p)} for x of shape {jnp.shape(x)}; expected {jnp.shape(x)[-1:]}")


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
    return x_bar, sum_rows(y_bar * x_hat), sum_rows(y_bar)


@layer_norm.composite
def layer_norm_composite(x, scale=None, bias=None, *, eps=1e-5):
    x = sub(x, stop_gradient(x)[..., :1])  # any shift gives the same y, so nothing flows through it
    d = sub(x, reduction.mean(x, axis=-1, keepdims=True))
    variance = reduction.mean(mul(d, d), axis=-1, keepdims=True)
    y = mul(d, rsqrt(add(variance, eps)))
    y = y if scale is None else mul(y, scale)
    return y if bias is None else add(y, bias)


class RMSNormResiduals(NamedTuple):
    """One number per row, in the accumulator's dtype: 4 bytes a row in float32."""

    rrms: Float[Array, "... 1"]  # 1/√(mean x² + ε)


@fused(saves=("x", "scale"), residuals=RMSNormResiduals)
def rms_norm(x: Float[Array, "... D"], scale: Float[Array, " D"] | None = None, *, eps: float = 1e-6):
    """y = x̂·s,   x̂ = x·r,   r = 1/√(mean x² + ε), the mean over the last axis.

    With g = ȳ·s:   x̄ = r·(g − x̂·mean(g·x̂)),   s̄ = Σ ȳ·x̂ over the rows.
    Residuals: r; x̂ is recomputed, and y for who needs it. A row of zeros gives y = 0 and has slope s/√ε.
        Zhang & Sennrich 2019, arXiv 1910.07467
    """
    check("rms_norm", x, scale)
    wide = x.astype(accumulator(x.dtype))
    rrms = lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + eps)
    return affine(wide * rrms, x, scale, None), RMSNormResiduals(rrms)


@rms_norm.recomputed
def rms_norm_again(res, *, eps):
    return affine(res.x * res.rrms, res.x, res.scale, None)


@rms_norm.rule
def rms_norm_backward(res, y_bar, *, eps):
    # y = x̂·s with x̂ = x·r: r depends on the row as well, which takes the part along x̂ out of g
    x_hat = res.x * res.rrms
    y_bar = y_bar.astype(x_hat.dtype)
    g = y_bar if res.scale is None else y_bar * res.scale
    return res.rrms * (g - x_hat * jnp.mean(g * x_hat, -1, keepdims=True)), sum_rows(y_bar * x_hat)


@rms_norm.composite
def rms_norm_composite(x, scale=None, *, eps=1e-6):
    y = mul(x, rsqrt(add(reduction.mean(mul(x, x), axis=-1, keepdims=True), eps)))
    return y if scale is None else mul(y, scale)


class GroupNormResiduals(NamedTuple):
    """Two numbers per example and group, in the accumulator's dtype: 8·B·G bytes in float32."""

    mean: Float[Array, "B 1 G 1"]  # of x − x₀, x₀ the first of each group
    rstd: Float[Array, "B 1 G 1"]  # 1/√(variance + ε)


@fused(saves=("x", "scale", "bias"), residuals=GroupNormResiduals)
def group_norm(
    x: Float[Array, "B ... C"],
    scale: Float[Array, " C"] | None = None,
    bias: Float[Array, " C"] | None = None,
    *,
    groups: int,
    eps: float = 1e-5,
):
    """y = x̂·s + b,   x̂ = (x − μ)·r,   r = 1/√(σ² + ε); channels come last and fall into `groups` runs of C/groups.

    μ, σ² are mean and variance (divisor: their number) over a group's channels and all axes between the first and the last, for
    each example by itself. With g = ȳ·s and means over the same elements:
        x̄ = r·(g − mean g − x̂·mean(g·x̂)),   s̄ = Σ ȳ·x̂,   b̄ = Σ ȳ over all axes but the last.
    One group is layer normalisation over everything but the first axis, C groups are instance normalisation. Residuals: mean
    and rstd; the variance is taken in a second pass, as in `layer_norm`.        Wu & He 2018, arXiv 1803.08494
    """
    check("group_norm", x, scale, bias)
    if jnp.ndim(x) < 2 or groups < 1 or x.shape[-1] % groups:
        raise OperandError(
            f"group_norm: {groups} groups for x of shape {x.shape}; expected x (B, ..., C), channels last, with C a multiple of groups"
        )
    d = from_first_of_group(x, groups)
    mean = jnp.mean(d, (1, 3), keepdims=True)
    d = d - mean
    rstd = lax.rsqrt(jnp.mean(d * d, (1, 3), keepdims=True) + eps)
    return affine((d * rstd).reshape(x.shape), x, scale, bias), GroupNormResiduals(mean, rstd)


def in_groups(x, groups: int):
    """(B, ..., C) as (B, positions, groups, channels of a group)."""
    return x.reshape(x.shape[0], math.prod(x.shape[1:-1]), groups, x.shape[-1] // groups)


def from_first_of_group(x, groups: int):
    """x − x₀, x₀ the first of each example's group: see `from_first`."""
    wide = in_groups(x.astype(accumulator(x.dtype)), groups)
    return wide - wide[:, :1, :, :1]


@group_norm.recomputed
def group_norm_again(res, *, groups, eps):
    return affine(((from_first_of_group(res.x, groups) - res.mean) * res.rstd).reshape(res.x.shape), res.x, res.scale, res.bias)


@group_norm.rule
def group_norm_backward(res, y_bar, *, groups, eps):
    # y = x̂·s + b with x̂ = (x − μ)·r, as in layer_norm, over the elements of a group
    x_hat = (from_first_of_group(res.x, groups) - res.mean) * res.rstd
    y_bar = y_bar.astype(x_hat.dtype)
    g = in_groups(y_bar if res.scale is None else y_bar * res.scale, groups)
    x_bar = res.rstd * (g - jnp.mean(g, (1, 3), keepdims=True) - x_hat * jnp.mean(g * x_hat, (1, 3), keepdims=True))
    return x_bar.reshape(res.x.shape), sum_rows(y_bar * x_hat.reshape(res.x.shape)), sum_rows(y_bar)


@group_norm.composite
def group_norm_composite(x, scale=None, bias=None, *, groups, eps=1e-5):
    parts = reshape(x, shape=(x.shape[0], math.prod(x.shape[1:-1]), groups, x.shape[-1] // groups))
    parts = sub(parts, stop_gradient(parts)[:, :1, :, :1])
    d = sub(parts, reduction.mean(parts, axis=(1, 3), keepdims=True))
    variance = reduction.mean(mul(d, d), axis=(1, 3), keepdims=True)
    y = reshape(mul(d, rsqrt(add(variance, eps))), shape=x.shape)
    y = y if scale is None else mul(y, scale)
    return y if bias is None else add(y, bias)
