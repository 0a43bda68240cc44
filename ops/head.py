"""A linear head and its softmax cross-entropy in one op, whose logits are never all there.

Labels out of range and weights of 0 mean what `loss` says: the one gives NaN, the other leaves the row out.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from ..lib.errors import OperandError
from ..lib.precision import accumulator, policy
from . import reduction
from .arithmetic import div
from .identity import stop_gradient
from .loss import check_rows, judged, one_hot, softmax_cross_entropy_composite, weighted
from .matmul import matmul
from .op import fused
from .rule import is_float
from .selection import equal, where
from .shape import transpose

LOGITS = 2**24  # held at a time, unless the call says how many rows: 64 MiB in float32
STRIP = 2048  # rows of the weight's cotangent that are added to at a time


class HeadResiduals(NamedTuple):
    """The cotangents for ȳ = Σ w, in the accumulator's dtype: 4·(N·C + V·C + N) bytes in float32, N rows."""

    x_bar: Float[Array, "... C"]
    weight_bar: Float[Array, "V C"]
    weights_bar: Float[Array, "..."]
    whole: Float[Array, ""]  # Σ w


@fused(saves=(), residuals=HeadResiduals)
def linear_softmax_cross_entropy(
    x: Float[Array, "... C"],
    weight: Float[Array, "V C"],
    labels: Int[Array, "..."],
    weights: Float[Array, "..."] | None = None,
    *,
    chunk: int | None = None,
):
    """The mean loss of a head:  y = Σ w·ℓ / Σ w,   ℓ = softmax cross-entropy of z = x·Wᵀ;   y a scalar in `accumulator(dtype)`.

    x̄ = ȳ·d·W,   W̄ = ȳ·dᵀ·x,   d = w·(p − 1ₙ)/Σ w,   p = softmax z;   w̄ = ȳ·(ℓ − y)/Σ w.   No weights: w = 1.
    Where Σ w = 0 it is taken as 1, so y = 0.

    Rows go in chunks of at most `chunk` (by default as many as make 2²⁴ logits): one chunk of logits is held at a time, and
    W̄ is added to in place. y being a scalar, x̄ and W̄ are known up to the factor ȳ/Σ w as soon as a chunk of logits is: the
    forward finds them then, and they are the residuals. So no logit is computed twice; a program that takes y alone
    (evaluation) is compiled without them. Without that factor d is of the size of p, which float16 can hold. Products of
    float32 operands have the precision of the policy in force.
    """
    check_rows("linear_softmax_cross_entropy", x, labels, weights)
    if jnp.ndim(weight) != 2 or weight.shape[1] != x.shape[-1]:
        raise OperandError(
            f"linear_softmax_cross_entropy: x of shape {x.shape} and weight of shape {weight.shape}; expected x (..., C) and weight (V, C)"
        )
    if chunk is not None and chunk < 1:
        raise OperandError(f"linear_softmax_cross_entropy: chunk {chunk}; expected a number of rows, at least 1")
    shape, n, dtype = x.shape, labels.size, accumulator(x.dtype)
    x, labels = x.reshape(n, shape[-1]), labels.reshape(n)
    if weights is not None:
        weights = weights.reshape(n).astype(dtype)
        x = jnp.where((weights == 0)[:, None] & ~jnp.isfinite(x), 0, x)  # a row left out may hold anything, but 0·NaN is NaN
    judgement = judged(labels, weights, len(weight), dtype)
    whole = jnp.asarray(n or 1, dtype) if weights is None else jnp.sum(weights)
    whole = jnp.where(whole == 0, 1, whole)
    share = weighted(judgement, weights)

    count = -(-n // (chunk or max(1, LOGITS // len(weight))))
    if count <= 1:
        losses, x_bar, d = head_chunk(weight, x, labels, share)
        weight_bar = product("nv,nc->vc", d, x)
    else:

        def step(weight_bar, part):
            losses, x_bar, d = head_chunk(weight, *part)
            return add_product(weight_bar, d, part[0]), (losses, x_bar)

        parts = tuple(deal(a, count) for a in (x, labels, share))
        weight_bar, gathered = lax.scan(step, jnp.zeros(weight.shape, dtype), parts)
        losses, x_bar = (collect(a, n) for a in gathered)
    y = jnp.sum(weighted(losses, share)) / whole
    weights_bar = judgement * losses - y
    return y, HeadResiduals(x_bar.reshape(shape), weight_bar, weights_bar.reshape(shape[:-1]), whole)


def head_chunk(weight, x, labels, share):
    """(ℓ, x̄, d) of some rows, as one chain: logits, loss, softmax and d, in one array of logits that is written over."""
    dtype = accumulator(x.dtype)
    label = jnp.clip(labels, 0, len(weight) - 1)
    picked = jnp.take(weight, label, 0, mode="clip").astype(dtype)
    z_n = jnp.sum(x * picked, -1, keepdims=True)  # not read from z: then e can be written over z, and d over e
    z = product("nc,vc->nv", x, weight)
    z_n, z = lax.optimization_barrier((z_n, z))  # z_n has read the weight before W̄ is there: it can be updated in place
    m = jnp.max(z, -1, keepdims=True)
    e = jnp.exp(z - m)
    s = jnp.sum(e, -1, keepdims=True)
    losses = (jnp.log(s) + m - z_n)[:, 0]
    share = share[:, None]
    d = e * (share / s) - jnp.where(one_hot(label, e.shape), share, 0)
    d = d.astype(x.dtype)
    return losses, product("nv,vc->nc", d, weight), d


def product(spec: str, a, b):
    return jnp.einsum(spec, a, b, precision=policy().product, preferred_element_type=accumulator(jnp.result_type(a, b)))


def add_product(weight_bar, d, x):
    """weight_bar + dᵀ·x, a strip of rows at a time, so that no second array of its size is made."""

    def add(start, size: int, weight_bar):
        strip = lax.dynamic_slice_in_dim(weight_bar, start, size)
        strip += product("nv,nc->vc", lax.dynamic_slice_in_dim(d, start, size, 1), x)
        return lax.dynamic_update_slice_in_dim(weight_bar, strip, start, 0)

    size = min(STRIP, len(weight_bar))
    whole, rest = divmod(len(weight_bar), size)
    weight_bar = lax.fori_loop(0, whole, lambda i, weight_bar: add(i * size, size, weight_bar), weight_bar)
    return add(whole * size, rest, weight_bar) if rest else weight_bar


def deal(a, count: int):
    """Rows dealt to `count` chunks like cards, so that a batch sharded over devices stays so; zeros fill the last round."""
    a = jnp.pad(a, ((0, -len(a) % count), *((0, 0),) * (a.ndim - 1)))
    return a.reshape(-1, count, *a.shape[1:]).swapaxes(0, 1)


def collect(a, n: int):
    """The inverse of `deal`."""
    return a.swapaxes(0, 1).reshape(-1, *a.shape[2:])[:n]


@linear_softmax_cross_entropy.rule
def linear_softmax_cross_entropy_backward(res, y_bar, *, chunk):
    # y = Σ w·ℓ / Σ w is linear in what the forward found
    factor = y_bar / res.whole
    return factor * res.x_bar, factor * res.weight_bar, None, factor * res.weights_bar


@linear_softmax_cross_entropy.composite
def linear_softmax_cross_entropy_composite(x, weight, labels, weights=None, *, chunk=None):
    if weights is not None:
        x = where((stop_gradient(weights) == 0)[..., None] & ~jnp.isfinite(stop_gradient(x)), 0.0, x)
    losses = softmax_cross_entropy_composite(matmul(x, transpose(weight)), labels, weights)
    if weights is None:
        return div(reduction.sum(losses), max(labels.size, 1))
    whole = reduction.sum(weights if is_float(weights) else weights.astype(losses.dtype))
    return div(reduction.sum(losses), where(equal(whole, 0.0), 1.0, whole))
