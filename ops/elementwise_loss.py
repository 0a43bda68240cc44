"""Losses element by element: squared, absolute, Huber, binary cross-entropy, Kullback-Leibler.

Both sides have one shape: a loss that broadcast would average over pairs that nobody meant. Losses are held in
`accumulator(dtype)`. reduction: "none" gives each, "mean" their mean (NaN for none at all), "sum" their sum. In the equations
ȳᵢ is what flows back to one loss: its own ȳ, or ȳ/number, or ȳ.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..lib.errors import OperandError
from ..lib.precision import accumulator
from .arithmetic import abs as absolute
from .arithmetic import add, log, minimum, mul, neg, sub
from .exponential import softplus
from .loss import Reduction, check_reduction, each, reduced
from .op import fused
from .selection import equal, where
from .shape import broadcasts, sum_to


@fused(saves=("x", "targets"))
def mean_squared_error(x: Float[Array, "*shape"], targets: Float[Array, "*shape"], *, reduction: Reduction = "mean"):
    """ℓ = (x − t)²;   x̄ = 2·ȳᵢ·(x − t),   t̄ = −x̄.   No residuals."""
    x, targets = pair("mean_squared_error", x, targets, reduction)
    return reduced(jnp.square(x - targets), reduction)


@mean_squared_error.rule
def mean_squared_error_backward(res, y_bar, *, reduction):
    # ℓ = (x − t)²; y, and so ȳ, has the accumulator's dtype
    d = res.x.astype(y_bar.dtype) - res.targets
    x_bar = each(y_bar, d, reduction) * 2 * d
    return x_bar, -x_bar


@mean_squared_error.composite
def mean_squared_error_composite(x, targets, *, reduction: Reduction = "mean"):
    d = sub(x, targets)
    return reduced(mul(d, d), reduction)


@fused(saves=("x", "targets"))
def l1_loss(x: Float[Array, "*shape"], targets: Float[Array, "*shape"], *, reduction: Reduction = "mean"):
    """ℓ = |x − t|;   x̄ = ȳᵢ·sign(x − t), 0 where they are equal,   t̄ = −x̄.   No residuals."""
    x, targets = pair("l1_loss", x, targets, reduction)
    return reduced(jnp.abs(x - targets), reduction)


@l1_loss.rule
def l1_loss_backward(res, y_bar, *, reduction):
    # ℓ = |x − t|
    d = res.x - res.targets
    x_bar = each(y_bar, d, reduction) * jnp.sign(d)
    return x_bar, -x_bar


@l1_loss.composite
def l1_loss_composite(x, targets, *, reduction: Reduction = "mean"):
    return reduced(absolute(sub(x, targets)), reduction)


@fused(saves=("x", "targets"))
def huber_loss(x: Float[Array, "*shape"], targets: Float[Array, "*shape"], *, delta: float = 1.0, reduction: Reduction = "mean"):
    """ℓ = d²/2 where |d| ≤ δ, else δ·(|d| − δ/2),   d = x − t;   x̄ = ȳᵢ·d with d held to −δ … δ,   t̄ = −x̄.   No residuals.

    The slope is continuous, and nothing large is squared.        Huber 1964, doi 10.1214/aoms/1177703732
    """
    if not delta > 0:
        raise OperandError(f"huber_loss: delta {delta}; expected a number above 0, the distance where squares end")
    x, targets = pair("huber_loss", x, targets, reduction)
    size = jnp.abs(x - targets)
    near = jnp.minimum(size, delta)
    return reduced(near * (size - 0.5 * near), reduction)


@huber_loss.rule
def huber_loss_backward(res, y_bar, *, delta, reduction):
    # ℓ = a·(|d| − a/2) with a = min(|d|, δ)
    d = res.x - res.targets
    x_bar = each(y_bar, d, reduction) * jnp.clip(d, -delta, delta)
    return x_bar, -x_bar


@huber_loss.composite
def huber_loss_composite(x, targets, *, delta=1.0, reduction: Reduction = "mean"):
    size = absolute(sub(x, targets))
    near = minimum(size, delta)
    return reduced(mul(near, sub(size, mul(0.5, near))), reduction)


@fused(saves=("logits", "targets", "pos_weight"))
def sigmoid_binary_cross_entropy(
    logits: Float[Array, "*shape"],
    targets: Float[Array, "*shape"],
    pos_weight: Float[Array, "..."] | None = None,
    *,
    reduction: Reduction = "mean",
):
    """ℓ = w·t·s(−z) + (1 − t)·s(z),   s(z) = log(1 + eᶻ) = −log σ(−z),   t the share of "yes", w = `pos_weight` or 1.

    z̄ = ȳᵢ·((1 − t)·σ(z) − w·t·σ(−z)),   t̄ = ȳᵢ·((w − 1)·s(−z) − z),   w̄ = Σ ȳᵢ·t·s(−z).   No residuals.
    w broadcasts to the shape of the logits: one number, or one for each class on the last axis. Nothing is clamped and no e of
    anything large is made: ±1000 are logits like others. At ±∞ a factor t or 1 − t of 0 leaves its term out.
    """
    z, t = pair("sigmoid_binary_cross_entropy", logits, targets, reduction)
    if pos_weight is not None and not broadcasts(jnp.shape(pos_weight), z.shape):
        raise OperandError(
            f"sigmoid_binary_cross_entropy: pos_weight of shape {jnp.shape(pos_weight)} does not broadcast to logits {z.shape}"
        )
    w = 1 if pos_weight is None else pos_weight.astype(z.dtype)
    return reduced(w * times(t, surprise(z)) + times(1 - t, surprise(-z)), reduction)


def surprise(z):
    """−log σ(z) = log(1 + e⁻ᶻ)."""
    return jnp.logaddexp(-z, 0)


def times(t, x):
    """t·x, where 0·∞ is 0."""
    return jnp.where(t == 0, t, t * x)


@sigmoid_binary_cross_entropy.rule
def sigmoid_binary_cross_entropy_backward(res, y_bar, *, reduction):
    # ℓ = −w·t·log σ(z) − (1 − t)·log σ(−z); d log σ(z) = σ(−z)·dz, and log σ(z) − log σ(−z) = z
    z, t, w = res.logits.astype(y_bar.dtype), res.targets, 1 if res.pos_weight is None else res.pos_weight
    y_bar = each(y_bar, z, reduction)
    logits_bar = y_bar * ((1 - t) * lax.logistic(z) - w * t * lax.logistic(-z))
    targets_bar = y_bar * ((w - 1) * surprise(z) - z)
    each_w_bar = y_bar * times(t, surprise(z))
    return logits_bar, targets_bar, sum_to(each_w_bar, shape=jnp.shape(w))


@sigmoid_binary_cross_entropy.composite
def sigmoid_binary_cross_entropy_composite(logits, targets, pos_weight=None, *, reduction: Reduction = "mean"):
    yes = mul(targets, softplus(neg(logits)))
    yes = yes if pos_weight is None else mul(pos_weight, yes)
    return reduced(add(yes, mul(sub(1.0, targets), softplus(logits))), reduction)


@fused(saves=("log_predictions", "targets"))
def kl_divergence(log_predictions: Float[Array, "*shape"], targets: Float[Array, "*shape"], *, reduction: Reduction = "mean"):
    """ℓ = t·(log t − q), 0 where t = 0;   q̄ = −ȳᵢ·t,   t̄ = ȳᵢ·(log t + 1 − q).   No residuals.

    The divergence of the predictions from the targets, in the order of torch's `kl_div`: first q, the *logarithms* of the
    predictions (of `log_softmax`, say), then t, probabilities. Σ ℓ over a row is KL(t‖e^q) of that row; "mean" is over elements, as
    torch's "mean", not over rows. Where t = 0 the limit of t̄ is −∞, and 0 is given, as `power` does.
    """
    q, t = pair("kl_divergence", log_predictions, targets, reduction)
    return reduced(times(t, jnp.log(t) - q), reduction)


@kl_divergence.rule
def kl_divergence_backward(res, y_bar, *, reduction):
    # ℓ = t·(log t − q)
    t = res.targets.astype(y_bar.dtype)
    y_bar = each(y_bar, t, reduction)
    return -y_bar * t, jnp.where(t == 0, t, y_bar * (jnp.log(t) + 1 - res.log_predictions))


@kl_divergence.composite
def kl_divergence_composite(log_predictions, targets, *, reduction: Reduction = "mean"):
    nought = equal(targets, 0)
    losses = mul(targets, sub(log(where(nought, 1.0, targets)), log_predictions))
    return reduced(where(nought, 0.0, losses), reduction)


def pair(op: str, x, targets, reduction: str) -> tuple:
    """Both sides in the accumulator's dtype."""
    check_reduction(op, reduction)
    if jnp.shape(x) != jnp.shape(targets):
        raise OperandError(f"{op}: shapes {jnp.shape(x)} and {jnp.shape(targets)}; expected the same shape, for nothing is broadcast here")
    dtype = accumulator(jnp.result_type(x, targets))
    return jnp.asarray(x, dtype), jnp.asarray(targets, dtype)
