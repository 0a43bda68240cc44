"""Negative log-likelihood of probabilities."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..lib.precision import accumulator
from .arithmetic import log, mul, neg
from .indexing import take_along_axis
from .loss import Reduction, check_reduction, check_rows, each, judged, named, one_hot, reduced
from .op import fused
from .shape import reshape


class NegativeLogResiduals(NamedTuple):
    """One number per row, in the dtype of the probabilities."""

    p_n: Float[Array, "..."]


@fused(saves=("labels",), residuals=NegativeLogResiduals)
def nll_of_probabilities(probabilities: Float[Array, "... V"], labels: Int[Array, "..."], *, reduction: Reduction = "mean"):
    """ℓ = −log pₙ of each row, n its label, in `accumulator(dtype)`; y is ℓ, its mean or its sum.

    p̄ₙ = −ℓ̄/pₙ, 0 at the other classes.   Residuals: pₙ. Nothing is clamped: a label of probability 0 has ℓ = ∞ and slope −∞. For
    probabilities that a softmax made, `softmax_cross_entropy` of its logits keeps every digit and has finite slopes.
    Labels out of range: see `loss.py`. The mean of no rows is NaN.
    """
    check_rows("nll_of_probabilities", probabilities, labels, None)
    check_reduction("nll_of_probabilities", reduction)
    p_n = jnp.take_along_axis(probabilities, labels[..., None], -1, mode="clip").squeeze(-1)
    dtype = accumulator(probabilities.dtype)
    losses = jnp.where(named(labels, probabilities.shape[-1]), -jnp.log(p_n.astype(dtype)), jnp.nan)
    return reduced(losses, reduction), NegativeLogResiduals(p_n)


@nll_of_probabilities.rule
def nll_of_probabilities_backward(res, y_bar, *, reduction):
    # ℓ = −log pₙ
    p_n, shape = res.p_n, res.probabilities.shape
    slope = each(y_bar, p_n, reduction) / -p_n
    p_bar = jnp.where(one_hot(res.labels, shape), slope[..., None], 0)
    return jnp.where(named(res.labels, shape[-1])[..., None], p_bar, jnp.nan), None


@nll_of_probabilities.composite
def nll_of_probabilities_composite(probabilities, labels, *, reduction: Reduction = "mean"):
    label = jnp.clip(labels, 0, probabilities.shape[-1] - 1)
    p_n = reshape(take_along_axis(probabilities, label[..., None], axis=-1), shape=labels.shape)
    return reduced(neg(mul(log(p_n), judged(labels, None, probabilities.shape[-1], p_n.dtype))), reduction)
