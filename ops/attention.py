"""Scaled dot-product attention in blocks, of which only the log-sum-exp of each row is kept."""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..lib.errors import OperandError
from ..lib.precision import accumulator, policy
from .arithmetic import mul
from .matmul import matmul
from .op import fused
from .reach import Block, Reach, allowed, key_blocks, query_blocks
from .selection import where
from .shape import broadcasts, reshape, transpose
from .softmax import softmax_composite, top


class AttentionResiduals(NamedTuple):
    """One number per query and head in the accumulator's dtype: 4·B·H·T bytes in float32."""

    lse: Float[Array, "B H T"]


@fused(saves=("q", "k", "v", "mask", "out"), residuals=AttentionResiduals)
def attention(
    q: Float[Array, "B T H K"],
    k: Float[Array, "B S G K"],
    v: Float[Array, "B S G J"],
    mask: Bool[Array, "#B #H #T #S"] | None = None,
    *,
    causal: bool = False,
    query_offset: int = 0,
    scale: float | None = None,
    window: int | None = None,
    block: int | None = None,
):
    """y = p·v per head,   p = softmax z over the keys that are allowed,   z = c·q·kᵀ,   c = `scale` or 1/√K;   y is (B, T, H, J).

    Key s is allowed for query t if `mask` (true = may attend, broadcast to B, H, T, S) holds and, if `causal`, s ≤ t + query_offset:
    query t stands at position t + query_offset of the keys. With a `window` it sees as many keys at most, its own and those right
    before it: s > t + query_offset − window. k and v may have fewer heads than q (grouped queries): head h of q reads head
    h // (H/G) of theirs. With p = exp(z − lse) recomputed, δ = Σ ȳ·y over J:
        v̄ = pᵀ·ȳ,   z̄ = p·(ȳ·vᵀ − δ),   q̄ = c·z̄·k,   k̄ = c·z̄ᵀ·q;   v̄ and k̄ added up over the heads of q that read them.
    Saves the operands and y; residuals: lse. Scores are made in blocks of `block` rows (by default one block below T = 256,
    else 128 rows) and, if causal, only from the first to the last key that a block may see. Softmax and sums are held in
    `accumulator(dtype)`; products of float32 operands have the precision of the policy in force.
    A query that may attend to nothing gives y = 0 and passes nothing back. Keys that nobody may see must hold finite numbers
    (0·NaN is NaN in a product).        Vaswani et al. 2017, arXiv 1706.03762; Dao et al. 2022, arXiv 2205.14135; Ainslie et al.
        2023, arXiv 2305.13245 (grouped queries); Beltagy et al. 2020, arXiv 2004.05150 (window)
    """
    check(q, k, v, mask, causal, window, block)
    c, dtype, groups = scale_of(scale, q), jnp.result_type(q, k, v), k.shape[2]
    h, reach = letters(q, groups), Reach(causal, query_offset, window)
    q, k, v, mask = heads_first(q, groups), heads_first(k), heads_first(v), heads_apart(mask, q, groups)
    out, lse = [], []
    for part in query_blocks(q.shape[-2], k.shape[-2], reach, block):
        rows, keys = part
        z = masked(c * product(f"b{h}tk,bgsk->b{h}ts", q[..., rows, :], k[..., keys, :]), allowed(part, mask, reach))
        m = top(z, -1)
        e = jnp.exp(z - m)
        s = jnp.sum(e, -1, keepdims=True)
        s = jnp.where(s == 0, 1, s)
        out.append(product(f"b{h}ts,bgsj->b{h}tj", e.astype(v.dtype), v[..., keys, :]) / s)
        lse.append((m + jnp.log(s))[..., 0])
    y, lse = jnp.concatenate(out, -2), jnp.concatenate(lse, -1)
    return heads_last(y).astype(dtype), AttentionResiduals(lse.reshape(lse.shape[0], math.prod(lse.shape[1:-1]), lse.shape[-1]))


@attention.rule
def attention_backward(res, y_bar, *, causal, query_offset, scale, window, block):
    # y = p·v with p = softmax z; keys outside, so that k̄ and v̄ of a block are plain products and only q̄ adds up
    q, k, v, lse = res.q, res.k, res.v, res.lse
    c, groups, h, reach = scale_of(scale, q), k.shape[2], letters(q, k.shape[2]), Reach(causal, query_offset, window)
    delta = heads_first(jnp.sum(y_bar.astype(lse.dtype) * res.out, -1), groups)
    mask = heads_apart(res.mask, q, groups)
    q, k, v, y_bar = heads_first(q, groups), heads_first(k), heads_first(v), heads_first(y_bar, groups)
    lse = lse.reshape(delta.shape)
    q_bar, k_bar, v_bar = jnp.zeros(q.shape, lse.dtype), [], []
    for part in key_blocks(q.shape[-2], k.shape[2], reach, block):
        rows, keys = part
        seen = allowed(part, mask, reach, keys_first=True)
        z = masked(c * product(f"bgsk,b{h}tk->b{h}st", k[..., keys, :], q[..., rows, :]), seen)
        p = jnp.exp(z - lse[..., None, rows])
        p_bar = product(f"bgsj,b{h}tj->b{h}st", v[..., keys, :], y_bar[..., rows, :])
        z_bar = c * p * (p_bar - delta[..., None, rows])
        z_bar = z_bar if seen is None else jnp.where(seen, z_bar, 0)
        z_bar = z_bar.astype(q.dtype)
        v_bar.append(product(f"b{h}st,b{h}tj->bgsj", p.astype(y_bar.dtype), y_bar[..., rows, :]))
        k_bar.append(product(f"b{h}st,b{h}tk->bgsk", z_bar, q[..., rows, :]))
        q_bar = q_bar.at[..., rows, :].add(product(f"b{h}st,bgsk->b{h}tk", z_bar, k[..., keys, :]))
    k_bar, v_bar = jnp.concatenate(k_bar, 2), jnp.concatenate(v_bar, 2)
    return heads_last(q_bar), heads_last(k_bar), heads_last(v_bar), None


def masked(z, seen):
    return z if seen is None else jnp.where(seen, z, -jnp.inf)


def check(q, k, v, mask, causal: bool, window: int | None, block: int | None) -> None:
    if not jnp.ndim(q) == jnp.ndim(k) == jnp.ndim(v) == 4:
        raise OperandError(f"attention: q {jnp.shape(q)}, k {jnp.shape(k)}, v {jnp.shape(v)}; expected (batch, time, heads, width) each")
    (b, t, h, width), s, groups = q.shape, k.shape[1], k.shape[2]
    if k.shape != (b, s, groups, width) or v.shape[:3] != (b, s, groups) or (h % groups if groups else h):
        raise OperandError(
            f"attention: q {q.shape}, k {k.shape}, v {v.shape}; expected k (B, S, H, K) and v (B, S, H, any) for q (B, T, H, K), "
            "or fewer heads in k and v, of which the heads of q are a multiple"
        )
    if mask is not None and mask.dtype != jnp.bool_:
        raise OperandError(f"attention: the mask is {mask.dtype}; expected booleans, true where a query may attend to a key")
    if mask is not None and not broadcasts(mask.shape, (b, h, t, s)):
        raise OperandError(f"attention: a mask of shape {mask.shape} does not broadcast to (B, H, T, S) = {(b, h, t, s)}")
    if window is not None and (not causal or window < 1):
        raise OperandError(f"attention: window {window}, causal={causal}; expected at least 1 key, and causal=True")
    if block is not None and block < 1:
        raise OperandError(f"attention: block {block}; expected a number of rows, at least 1")


def scale_of(scale: float | None, q) -> float:
    return 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale


def letters(q, groups: int) -> str:
    """The axes of the heads of q in a product: g, or g and r where r heads of q read one of k."""
    return "g" if q.shape[2] == groups else "gr"


def heads_first(x, groups: int | None = None):
    """(B, T, H, …) to (B, H, T, …), or to (B, G, H/G, T, …) where there are fewer groups than heads."""
    x = jnp.swapaxes(x, 1, 2)
    return x if groups in (None, x.shape[1]) else x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def heads_last(x):
    """Back to (B, T, H, K)."""
    return jnp.swapaxes(x.reshape(x.shape[0], math.prod(x.shape[1:-2]), *x.shape[-2:]), 1, 2)


def heads_apart(mask, q, groups: int):
    """A mask with as many axes as the scores have."""
    if mask is None:
        return None
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    if q.shape[2] == groups:
        return mask
    heads = (1, 1) if mask.shape[1] == 1 else (groups, q.shape[2] // groups)
    return mask.reshape(mask.shape[0], *heads, *mask.shape[2:])


def product(spec: str, a, b):
    return jnp.einsum(spec, a, b, precision=policy().product, preferred_element_type=accumulator(jnp.result_type(a, b)))


@attention.composite
def attention_composite(q, k, v, mask=None, *, causal=False, query_offset=0, scale=None, window=None, block=None):
    (b, t, h, width), (_, s, groups, _) = q.shape, k.shape
    mask = heads_apart(mask, q, h)
    parts = max(h // max(groups, 1), 1)  # heads of q to one of k, which is broadcast
    q = reshape(transpose(q, axes=(0, 2, 1, 3)), shape=(b, groups, parts, t, width))
    k, v = (reshape(transpose(x, axes=(0, 2, 1, 3)), shape=(b, groups, 1, s, x.shape[3])) for x in (k, v))
    z = mul(matmul(q, transpose(k, axes=(0, 1, 2, 4, 3))), scale_of(scale, q))
    z = reshape(z, shape=(b, h, t, s))
    seen = allowed(Block(slice(0, t), slice(0, s)), mask, Reach(causal, query_offset, window))
    p = reshape(softmax_composite(z if seen is None else where(seen, z, -jnp.inf)), shape=(b, groups, parts, t, s))
    return transpose(reshape(matmul(p, v), shape=(b, h, t, v.shape[4])), axes=(0, 2, 1, 3))
