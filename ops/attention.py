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
from .selection import where
from .shape import broadcasts, transpose
from .softmax import softmax_composite, top

ROWS = 128  # queries, or keys in the backward, to a block from T = 256 on; below, one block is faster


class AttentionResiduals(NamedTuple):
    """One number per query and head in the accumulator's dtype: 4·B·H·T bytes in float32."""

    lse: Float[Array, "B H T"]


@fused(saves=("q", "k", "v", "mask", "out"), residuals=AttentionResiduals)
def attention(
    q: Float[Array, "B T H K"],
    k: Float[Array, "B S H K"],
    v: Float[Array, "B S H J"],
    mask: Bool[Array, "#B #H #T #S"] | None = None,
    *,
    causal: bool = False,
    query_offset: int = 0,
    scale: float | None = None,
    block: int | None = None,
):
    """y = p·v per head,   p = softmax z over the keys that are allowed,   z = c·q·kᵀ,   c = `scale` or 1/√K;   y is (B, T, H, J).

    Key s is allowed for query t if `mask` (true = may attend, broadcast to B, H, T, S) holds and, if `causal`, s ≤ t + query_offset:
    query t stands at position t + query_offset of the keys. With p = exp(z − lse) recomputed, δ = Σ ȳ·y over J:
        v̄ = pᵀ·ȳ,   z̄ = p·(ȳ·vᵀ − δ),   q̄ = c·z̄·k,   k̄ = c·z̄ᵀ·q.
    Saves the operands and y; residuals: lse. Scores are made in blocks of `block` rows (by default one block below T = 256,
    else 128 rows) and, if causal, only up to the last key that a block may see. Softmax and sums are held in
    `accumulator(dtype)`; products of float32 operands have the precision of the policy in force.
    A query that may attend to nothing gives y = 0 and passes nothing back. Keys that nobody may see must hold finite numbers
    (0·NaN is NaN in a product).        Vaswani et al. 2017, arXiv 1706.03762; Dao et al. 2022, arXiv 2205.14135
    """
    check(q, k, v, mask, block)
    c, dtype = scale_of(scale, q), jnp.result_type(q, k, v)
    q, k, v = map(heads_first, (q, k, v))
    out, lse = [], []
    for part in query_blocks(q.shape[2], k.shape[2], causal, query_offset, block):
        rows, keys = part
        z = masked(c * product("bhtk,bhsk->bhts", q[:, :, rows], k[:, :, keys]), allowed(part, mask, causal, query_offset))
        m = top(z, -1)
        e = jnp.exp(z - m)
        s = jnp.sum(e, -1, keepdims=True)
        s = jnp.where(s == 0, 1, s)
        out.append(product("bhts,bhsj->bhtj", e.astype(v.dtype), v[:, :, keys]) / s)
        lse.append((m + jnp.log(s))[..., 0])
    return heads_first(jnp.concatenate(out, 2)).astype(dtype), AttentionResiduals(jnp.concatenate(lse, 2))


@attention.rule
def attention_backward(res, y_bar, *, causal, query_offset, scale, block):
    # y = p·v with p = softmax z; keys outside, so that k̄ and v̄ of a block are plain products and only q̄ adds up
    c = scale_of(scale, res.q)
    delta = jnp.sum(y_bar.astype(res.lse.dtype) * res.out, -1).swapaxes(1, 2)
    q, k, v, y_bar = map(heads_first, (res.q, res.k, res.v, y_bar))
    q_bar, k_bar, v_bar = jnp.zeros(q.shape, res.lse.dtype), [], []
    for part in key_blocks(q.shape[2], k.shape[2], causal, query_offset, block):
        rows, keys = part
        seen = allowed(part, res.mask, causal, query_offset, keys_first=True)
        z = masked(c * product("bhsk,bhtk->bhst", k[:, :, keys], q[:, :, rows]), seen)
        p = jnp.exp(z - res.lse[:, :, None, rows])
        p_bar = product("bhsj,bhtj->bhst", v[:, :, keys], y_bar[:, :, rows])
        z_bar = c * p * (p_bar - delta[:, :, None, rows])
        z_bar = z_bar if seen is None else jnp.where(seen, z_bar, 0)
        z_bar = z_bar.astype(q.dtype)
        v_bar.append(product("bhst,bhtj->bhsj", p.astype(y_bar.dtype), y_bar[:, :, rows]))
        k_bar.append(product("bhst,bhtk->bhsk", z_bar, q[:, :, rows]))
        q_bar = q_bar.at[:, :, rows].add(product("bhst,bhsk->bhtk", z_bar, k[:, :, keys]))
    k_bar, v_bar = jnp.concatenate(k_bar, 2), jnp.concatenate(v_bar, 2)
    return heads_first(q_bar), heads_first(k_bar), heads_first(v_bar), None


class Block(NamedTuple):
    """Queries and keys that are worked on together."""

    rows: slice
    keys: slice


def query_blocks(queries: int, keys: int, causal: bool, query_offset: int, block: int | None) -> list[Block]:
    """Runs of queries, each with the keys up to the last one that any of them may see."""
    size = block_size(queries, block)
    ends = [min(start + size, queries) for start in range(0, max(queries, 1), size)]
    last = [min(max(end + query_offset, 0), keys) if causal else keys for end in ends]
    return [Block(slice(i * size, end), slice(0, seen)) for i, (end, seen) in enumerate(zip(ends, last))]


def key_blocks(queries: int, keys: int, causal: bool, query_offset: int, block: int | None) -> list[Block]:
    """Runs of keys, each with the queries from the first one that may see any of them."""
    size = block_size(keys, block)
    starts = range(0, max(keys, 1), size)
    first = [min(max(start - query_offset, 0), queries) if causal else 0 for start in starts]
    return [Block(slice(seen, queries), slice(start, min(start + size, keys))) for start, seen in zip(starts, first)]


def block_size(n: int, block: int | None) -> int:
    return block or (max(n, 1) if n < 2 * ROWS else ROWS)


def allowed(part: Block, mask, causal: bool, query_offset: int, keys_first: bool = False):
    """Which keys of a block its queries may see, broadcastable to (B, H, rows, keys); `None` for all of them."""
    rows, keys = part
    seen = None
    if causal and keys.stop - 1 > rows.start + query_offset:
        position = jnp.arange(rows.start, rows.stop) + query_offset
        seen = jnp.arange(keys.start, keys.stop)[None, :] <= position[:, None]
    if mask is not None:
        mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
        mask = mask[:, :, rows if mask.shape[2] > 1 else slice(None), keys if mask.shape[3] > 1 else slice(None)]
        seen = mask if seen is None else mask & seen
    return seen.swapaxes(-1, -2) if keys_first and seen is not None else seen


def masked(z, seen):
    return z if seen is None else jnp.where(seen, z, -jnp.inf)


def check(q, k, v, mask, block) -> None:
    if not jnp.ndim(q) == jnp.ndim(k) == jnp.ndim(v) == 4:
        raise OperandError(f"attention: q {jnp.shape(q)}, k {jnp.shape(k)}, v {jnp.shape(v)}; expected (batch, time, heads, width) each")
    (b, t, h, width), s = q.shape, k.shape[1]
    if k.shape != (b, s, h, width) or v.shape[:3] != (b, s, h):
        raise OperandError(
            f"attention: q {q.shape}, k {k.shape}, v {v.shape}; expected k (B, S, H, K) and v (B, S, H, any) for q (B, T, H, K)"
        )
    if mask is not None and mask.dtype != jnp.bool_:
        raise OperandError(f"attention: the mask is {mask.dtype}; expected booleans, true where a query may attend to a key")
    if mask is not None and not broadcasts(mask.shape, (b, h, t, s)):
        raise OperandError(f"attention: a mask of shape {mask.shape} does not broadcast to (B, H, T, S) = {(b, h, t, s)}")
    if block is not None and block < 1:
        raise OperandError(f"attention: block {block}; expected a number of rows, at least 1")


def scale_of(scale: float | None, q) -> float:
    return 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale


def heads_first(x):
    """(B, T, H, K) to (B, H, T, K), and back."""
    return jnp.swapaxes(x, 1, 2)


def product(spec: str, a, b):
    return jnp.einsum(spec, a, b, precision=policy().product, preferred_element_type=accumulator(jnp.result_type(a, b)))


@attention.composite
def attention_composite(q, k, v, mask=None, *, causal=False, query_offset=0, scale=None, block=None):
    q, k, v = (transpose(x, axes=(0, 2, 1, 3)) for x in (q, k, v))
    z = mul(matmul(q, transpose(k, axes=(0, 1, 3, 2))), scale_of(scale, q))
    seen = allowed(Block(slice(0, q.shape[2]), slice(0, k.shape[2])), mask, causal, query_offset)
    p = softmax_composite(z if seen is None else where(seen, z, -jnp.inf))
    return transpose(matmul(p, v), axes=(0, 2, 1, 3))
