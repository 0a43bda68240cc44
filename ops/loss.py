"""Softmax cross-entropy of logits.

Labels. A label outside 0 … V − 1 names no class: its row's loss and cotangents are NaN, so that it is noticed and not clamped.
Weights. A row of weight 0 is left out: its loss is 0 and nothing flows back to its logits or x, whatever stands there, NaN and
labels out of range included. Booleans serve as weights (labels ≠ −100, say) and have no cotangent.
"""

import functools
from typing import Literal, NamedTuple, get_args

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from ..lib.errors import OperandError, near
from ..lib.precision import accumulator
from . import reduction as reductions
from .arithmetic import add, div, mul, sub
from .identity import stop_gradient
from .indexing import take, take_along_axis
from .op import fused
from .rule import is_float
from .selection import equal, where
from .shape import reshape

Reduction = Literal["none", "mean", "sum"]


class CrossEntropyResiduals(NamedTuple):
    """One number per row in the accumulator's dtype: 4 bytes a row in float32."""

    lse: Float[Array, "..."]


@fused(saves=("logits", "labels", "weights", "class_weights"), residuals=CrossEntropyResiduals)
def softmax_cross_entropy(
    logits: Float[Array, "... V"],
    labels: Int[Array, "..."],
    weights: Float[Array, "..."] | None = None,
    class_weights: Float[Array, " V"] | None = None,
    *,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    reduction: Reduction = "none",
):
    """A loss per row, in `accumulator(dtype)`:  ℓ = w·(lse − zₙ),   lse = log Σ exp z over the last axis, n the label.

    z̄ = ℓ̄·w·(p − 1ₙ),   p = exp(z − lse), 1ₙ the one-hot of n;   w̄ = ℓ̄·(lse − zₙ).   Residuals: lse; p is recomputed.

    With class weights c, label smoothing e and z-loss ζ, of V classes:   ℓ = w·(cₙ·u + (e/V)·Σ cₖ·(lse − zₖ)),
    u = (1 − e)·(lse − zₙ) + ζ·lse². With t = (1 − e)·cₙ·1ₙ + (e/V)·c:
        z̄ = ℓ̄·w·((Σ tₖ + 2·ζ·cₙ·lse)·p − t),   c̄ = Σ ℓ̄·w·(u·1ₙ + (e/V)·(lse − z)) over the rows,   w̄ = ℓ̄·ℓ/w.
    reduction: "none" gives ℓ, "sum" y = Σ ℓ, "mean" y = Σ ℓ / Σ w·cₙ, the mean over the rows that count: u − y stands for u in
    its w̄ and c̄. Where Σ w·cₙ = 0 it is taken as 1: y = 0 and z̄ = 0 if every row is left out (torch gives NaN).
    A row of label `ignore_index` is one of weight 0.

    A class of logit −∞ has p = 0, and ℓ = ∞ if it is the label; a logit of +∞, or nothing but −∞, gives NaN.
    Labels out of range and weights of 0: see the module's text.
        Szegedy et al. 2016, arXiv 1512.00567 (smoothing); Chowdhery et al. 2022, arXiv 2204.02311 (z-loss)
    """
    check_rows("softmax_cross_entropy", logits, labels, weights)
    check_reduction("softmax_cross_entropy", reduction)
    if class_weights is not None and jnp.shape(class_weights) != logits.shape[-1:]:
        raise OperandError(
            f"softmax_cross_entropy: class_weights of shape {jnp.shape(class_weights)} for logits {logits.shape}; "
            f"expected {logits.shape[-1:]}, one for each class"
        )
    if not 0 <= label_smoothing <= 1:
        raise OperandError(f"softmax_cross_entropy: label_smoothing {label_smoothing}; expected a share between 0 and 1")
    z = logits.astype(accumulator(logits.dtype))
    lse, w = log_sum_exp(z), counted(labels, weights, ignore_index)
    classes = by_class(class_weights, z.shape[-1], lse.dtype)
    c = jnp.take(classes, labels, mode="clip")
    rest = jnp.sum(classes * smoothed(z, lse, label_smoothing), -1)
    losses = judged(labels, w, z.shape[-1], z.dtype) * (c * at_label(z, lse, labels, label_smoothing, z_loss) + rest)
    losses = weighted(losses, w)
    y = losses if reduction == "none" else jnp.sum(losses)
    return y / counting(w, c) if reduction == "mean" else y, CrossEntropyResiduals(lse)


def counted(labels, weights, ignore_index: int | None):
    """The weights, 0 for the rows of a label that is ignored; `None` where every row counts alike."""
    if ignore_index is None:
        return weights
    return labels != ignore_index if weights is None else jnp.where(labels == ignore_index, 0, weights)


def by_class(class_weights, classes: int, dtype):
    """c, all ones where none are given."""
    return jnp.ones(classes, dtype) if class_weights is None else class_weights.astype(dtype)


def at_label(z, lse, labels, label_smoothing: float, z_loss: float):
    """u of each row: what the weight of its class is the factor of."""
    z_n = jnp.take_along_axis(z, labels[..., None], -1, mode="clip").squeeze(-1)
    return (1 - label_smoothing) * (lse - z_n) + z_loss * lse * lse


def smoothed(z, lse, label_smoothing: float):
    """(e/V)·(lse − zₖ); zeros without smoothing, where 0·∞ would be NaN."""
    share = label_smoothing / z.shape[-1]
    return jnp.where(share == 0, share, share * (lse[..., None] - z))


def counting(weights, c):
    """Σ w·cₙ over the rows, 1 in place of 0."""
    whole = jnp.sum(weighted(c, weights))
    return jnp.where(whole == 0, 1, whole)


def chosen(weights, x):
    """x, 0 in the rows of weight 0."""
    return x if weights is None else jnp.where(weights[..., None] == 0, 0, x)


@softmax_cross_entropy.rule
def softmax_cross_entropy_backward(res, y_bar, *, ignore_index, label_smoothing, z_loss, reduction):
    # ℓ = w·(cₙ·u + (e/V)·Σ cₖ·(lse − zₖ)), times the row's verdict; d lse = Σ p·dz
    z, labels, lse = res.logits, res.labels, res.lse  # z − lse is as wide as lse
    w, classes = counted(labels, res.weights, ignore_index), by_class(res.class_weights, z.shape[-1], lse.dtype)
    c, judgement = jnp.take(classes, labels, mode="clip"), judged(labels, w, z.shape[-1], lse.dtype)
    u, others = at_label(z, lse, labels, label_smoothing, z_loss), smoothed(z, lse, label_smoothing)
    rest = jnp.sum(classes * others, -1)
    if reduction == "mean":
        whole = counting(w, c)
        u, y_bar = u - jnp.sum(weighted(judgement * (c * u + rest), w)) / whole, y_bar / whole
    y_bar = y_bar * judgement
    weights_bar = y_bar * (c * u + rest)
    if ignore_index is not None:
        weights_bar = jnp.where(labels == ignore_index, 0, weights_bar)

    label, own = one_hot(labels, z.shape), (1 - label_smoothing) * c
    scale = weighted(y_bar, w)[..., None]
    t = jnp.where(label, own[..., None], 0) + label_smoothing / z.shape[-1] * classes
    slope = own + label_smoothing * jnp.mean(classes) + 2 * z_loss * c * lse
    logits_bar = scale * (slope[..., None] * jnp.exp(z - lse[..., None]) - t)
    per_class = scale * (jnp.where(label, u[..., None], 0) + others)
    return chosen(w, logits_bar), None, weights_bar, jnp.sum(chosen(w, per_class), range(per_class.ndim - 1))


@softmax_cross_entropy.composite
def softmax_cross_entropy_composite(
    logits, labels, weights=None, class_weights=None, *, ignore_index=None, label_smoothing=0.0, z_loss=0.0, reduction: Reduction = "none"
):
    if weights is not None and not is_float(weights):
        weights = weights.astype(logits.dtype)
    if ignore_index is not None:
        weights = where(labels != ignore_index, 1.0 if weights is None else weights, 0.0)
    plain = None if weights is None else stop_gradient(weights)
    if weights is not None:
        logits = where((plain == 0)[..., None] & ~(stop_gradient(logits) < jnp.inf), 0.0, logits)  # NaN and ∞ of a row left out
    label = jnp.clip(labels, 0, logits.shape[-1] - 1)
    lse = reductions.logsumexp(logits, axis=-1)
    losses = sub(lse, reshape(take_along_axis(logits, label[..., None], axis=-1), shape=labels.shape))
    losses = mul(losses, 1 - label_smoothing) if label_smoothing else losses
    losses = add(losses, mul(z_loss, mul(lse, lse))) if z_loss else losses
    c = None if class_weights is None else take(class_weights, label)
    losses = losses if c is None else mul(c, losses)
    if label_smoothing:
        others = sub(reshape(lse, shape=(*labels.shape, 1)), logits)
        others = others if class_weights is None else mul(class_weights, others)
        losses = add(losses, mul(label_smoothing, reductions.mean(others, axis=-1)))
    losses = mul(losses, judged(labels, plain, logits.shape[-1], losses.dtype))
    losses = losses if weights is None else mul(losses, weights)
    if reduction != "mean":
        return reduced(losses, reduction)
    shares = [v for v in (weights, c) if v is not None]
    whole = reductions.sum(functools.reduce(mul, shares)) if shares else max(labels.size, 1)
    return div(reductions.sum(losses), where(equal(whole, 0), 1.0, whole))


def check_rows(op: str, x, labels, weights) -> None:
    """One label, and one weight if any, for each row of x."""
    rows = jnp.shape(x)[:-1]
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        raise OperandError(f"{op}: labels are {labels.dtype}; expected integers, the numbers of the classes")
    for name, a in (("labels", labels), ("weights", weights)):
        if jnp.ndim(x) == 0 or a is not None and a.shape != rows:
            raise OperandError(f"{op}: {name} of shape {jnp.shape(a)} for rows of shape {jnp.shape(x)}; expected {rows}, one for each row")


def check_reduction(op: str, reduction: str) -> None:
    if reduction not in get_args(Reduction):
        raise OperandError(f"{op}: reduction {reduction!r}" + near(str(reduction), get_args(Reduction)))


def reduced(losses, reduction: Reduction):
    """The losses, their sum or their mean. Written in ops."""
    if reduction == "none":
        return losses
    return reductions.mean(losses) if reduction == "mean" else reductions.sum(losses)


def each(y_bar, losses, reduction: Reduction):
    """What flows back to one loss."""
    return y_bar / (losses.size or 1) if reduction == "mean" else y_bar


def judged(labels, weights, classes: int, dtype):
    """What a row's loss is multiplied by because of its label: 1 for a class; else NaN, or 0 where the weight is 0."""
    one = jnp.ones((), dtype)
    if weights is None:
        return jnp.where(named(labels, classes), one, jnp.nan)
    return jnp.where(named(labels, classes), one, jnp.where(weights == 0, 0, jnp.nan))


def named(labels, classes: int):
    """Is there a class of this number?"""
    return (labels >= 0) & (labels < classes)


def weighted(losses, weights):
    """w·ℓ, where 0·NaN is 0."""
    return losses if weights is None else jnp.where(weights == 0, 0, weights * losses)


def log_sum_exp(z):
    m = jnp.max(z, -1)
    return m + jnp.log(jnp.sum(jnp.exp(z - m[..., None]), -1))


def one_hot(labels, shape: tuple[int, ...]):
    """1ₙ, as a comparison with iota: nothing is scattered, and rows that live on several devices stay there."""
    return lax.broadcasted_iota(jnp.int32, shape, len(shape) - 1) == labels[..., None]
