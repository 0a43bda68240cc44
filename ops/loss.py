"""Softmax cross-entropy of logits.

Labels. A label outside 0 … V − 1 names no class: its row's loss and cotangents are NaN, so that it is noticed and not clamped.
Weights. A row of weight 0 is left out: its loss is 0 and nothing flows back to its logits or x, whatever stands there, NaN and
labels out of range included. Booleans serve as weights (labels ≠ −100, say) and have no cotangent.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from ..lib.errors import OperandError
from ..lib.precision import accumulator
from . import reduction
from .arithmetic import mul, sub
from .identity import stop_gradient
from .indexing import take_along_axis
from .op import fused, is_float
from .selection import where
from .shape import reshape


class CrossEntropyResiduals(NamedTuple):
    """One number per row in the accumulator's dtype: 4 bytes a row in float32."""

    lse: Float[Array, "..."]


@fused(saves=("logits", "labels", "weights"), residuals=CrossEntropyResiduals)
def softmax_cross_entropy(logits: Float[Array, "... V"], labels: Int[Array, "..."], weights: Float[Array, "..."] | None = None):
    """One loss per row, in `accumulator(dtype)`:  ℓ = w·(lse − zₙ),   lse = log Σ exp z over the last axis, n the label.

    z̄ = ℓ̄·w·(p − 1ₙ),   p = exp(z − lse), 1ₙ the one-hot of n;   w̄ = ℓ̄·(lse − zₙ).   Residuals: lse; p is recomputed.
    A class of logit −∞ has p = 0, and ℓ = ∞ if it is the label; a logit of +∞, or nothing but −∞, gives NaN.
    Labels out of range and weights of 0: see the module's text. The mean over the rows that count is Σ ℓ / Σ w.
    """
    check_rows("softmax_cross_entropy", logits, labels, weights)
    z = logits.astype(accumulator(logits.dtype))
    lse = log_sum_exp(z)
    losses = weighted(judged(labels, weights, z.shape[-1], z.dtype) * (lse - at_label(z, labels)), weights)
    return losses, CrossEntropyResiduals(lse)


@softmax_cross_entropy.rule
def softmax_cross_entropy_backward(res, y_bar):
    # ℓ = w·(lse − zₙ); d lse = Σ p·dz
    z = res.logits.astype(res.lse.dtype)
    judgement = judged(res.labels, res.weights, z.shape[-1], z.dtype)
    scale = weighted(y_bar * judgement, res.weights)[..., None]
    p = jnp.exp(z - res.lse[..., None])
    logits_bar = scale * (p - one_hot(res.labels, z.shape))
    if res.weights is None:
        return logits_bar, None, None
    logits_bar = jnp.where(res.weights[..., None] == 0, 0, logits_bar)
    return logits_bar, None, y_bar * judgement * (res.lse - at_label(z, res.labels))


@softmax_cross_entropy.composite
def softmax_cross_entropy_composite(logits, labels, weights=None):
    plain = None if weights is None else stop_gradient(weights)
    if weights is not None:
        logits = where((plain == 0)[..., None] & ~(stop_gradient(logits) < jnp.inf), 0.0, logits)  # NaN and ∞ of a row left out
        weights = weights if is_float(weights) else weights.astype(logits.dtype)
    label = jnp.clip(labels, 0, logits.shape[-1] - 1)[..., None]
    picked = reshape(take_along_axis(logits, label, axis=-1), shape=logits.shape[:-1])
    losses = sub(reduction.logsumexp(logits, axis=-1), picked)
    losses = mul(losses, judged(labels, plain, logits.shape[-1], losses.dtype))
    return losses if weights is None else mul(losses, weights)


def check_rows(op: str, x, labels, weights) -> None:
    """One label, and one weight if any, for each row of x."""
    rows = jnp.shape(x)[:-1]
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        raise OperandError(f"{op}: labels are {labels.dtype}; expected integers, the numbers of the classes")
    for name, a in (("labels", labels), ("weights", weights)):
        if jnp.ndim(x) == 0 or a is not None and a.shape != rows:
            raise OperandError(f"{op}: {name} of shape {jnp.shape(a)} for rows of shape {jnp.shape(x)}; expected {rows}, one for each row")


def judged(labels, weights, classes: int, dtype):
    """What a row's loss is multiplied by because of its label: 1 for a class; else NaN, or 0 where the weight is 0."""
    verdict = jnp.nan if weights is None else jnp.where(weights == 0, 0, jnp.nan)
    return jnp.where((labels >= 0) & (labels < classes), 1, verdict).astype(dtype)


def weighted(losses, weights):
    """w·ℓ, where 0·NaN is 0."""
    return losses if weights is None else jnp.where(weights == 0, 0, weights * losses)


def log_sum_exp(z):
    m = jnp.max(z, -1)
    return m + jnp.log(jnp.sum(jnp.exp(z - m[..., None]), -1))


def at_label(z, labels):
    """zₙ of each row, n brought into range."""
    label = jnp.clip(labels, 0, z.shape[-1] - 1)[..., None]
    return jnp.take_along_axis(z, label, -1, mode="promise_in_bounds")[..., 0]


def one_hot(labels, shape: tuple[int, ...]):
    """1ₙ, as a comparison with iota: nothing is scattered, and rows that live on several devices stay there."""
    return lax.broadcasted_iota(jnp.int32, shape, len(shape) - 1) == labels[..., None]
