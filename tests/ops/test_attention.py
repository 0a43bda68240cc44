"""Attention in blocks against the dense formula, with a cache, in a window, with fewer heads of keys, and what it keeps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import ops
from pullback.lib.errors import OperandError

RNG = np.random.default_rng(0)


def qkv(t, s=None, b=1, h=2, k=4):
    return [jnp.asarray(RNG.normal(size=(b, n, h, k))) for n in (t, s or t, s or t)]


def dense(q, k, v, seen):
    """The definition in plain jax.numpy, for autodiff; `seen` (T, S)."""
    scores = jnp.where(seen, jnp.einsum("bthk,bshk->bhts", q, k) / np.sqrt(q.shape[-1]), -jnp.inf)
    return jnp.einsum("bhts,bshk->bthk", jax.nn.softmax(scores), v)


@pytest.mark.parametrize("block", [None, 77])
def test_long_causal_blocks_equal_the_dense_formula(block):
    """T = 300 is beyond where blocks start by default, and no multiple of a block."""
    with jax.enable_x64(True):
        q, k, v = qkv(300)
        y, pull = jax.vjp(lambda q, k, v: dense(q, k, v, np.tri(300, dtype=bool)), q, k, v)
        y_bar = jnp.asarray(RNG.normal(size=y.shape))
        ours, res = ops.attention.evaluate(q, k, v, causal=True, block=block)
        bars = ops.attention.rules["exact"].program((True, True, True, False))(res, y_bar, causal=True, block=block)
        np.testing.assert_allclose(ours, y, rtol=1e-11, atol=1e-13)
        for a, b in zip(bars, pull(y_bar)):
            assert np.linalg.norm(a - b) < 1e-13 * np.linalg.norm(b)


@pytest.mark.parametrize("window, groups", [(100, 2), (300, 1), (1, 4)])
def test_long_windows_and_grouped_queries_equal_the_dense_formula(window, groups):
    """A dense mask of the window, and keys and values repeated for the heads that share them."""
    with jax.enable_x64(True):
        q, k, v = qkv(300, h=4)
        k, v = k[:, :, :groups], v[:, :, :groups]
        distance = np.arange(300)[:, None] - np.arange(300)
        seen, repeated = (distance >= 0) & (distance < window), lambda x: jnp.repeat(x, 4 // groups, 2)
        y, pull = jax.vjp(lambda q, k, v: dense(q, repeated(k), repeated(v), seen), q, k, v)
        y_bar, statics = jnp.asarray(RNG.normal(size=y.shape)), {"causal": True, "window": window}
        ours, res = ops.attention.evaluate(q, k, v, **statics)
        bars = ops.attention.rules["exact"].program((True, True, True, False))(res, y_bar, **statics)
        np.testing.assert_allclose(ours, y, rtol=1e-11, atol=1e-13)
        for a, b in zip(bars, pull(y_bar)):
            assert np.linalg.norm(a - b) <= 1e-13 * np.linalg.norm(pull(y_bar)[2])


def test_a_mask_that_says_causal_is_causal():
    q, k, v = (x.astype(jnp.float32) for x in qkv(6, b=2))
    np.testing.assert_allclose(ops.attention(q, k, v, jnp.tri(6, dtype=bool)), ops.attention(q, k, v, causal=True), rtol=1e-6)


def test_cached_keys_give_what_one_pass_gives():
    """Twelve tokens at once, one by one, and as 5 + 1 + 6."""
    q, k, v = (x.astype(jnp.float32) for x in qkv(12))
    whole = ops.attention(q, k, v, causal=True)
    for pieces in ([1] * 12, [5, 1, 6]):
        spans = [(int(end) - n, int(end)) for n, end in zip(pieces, np.cumsum(pieces), strict=True)]
        parts = [ops.attention(q[:, i:e], k[:, :e], v[:, :e], causal=True, query_offset=i) for i, e in spans]
        np.testing.assert_allclose(jnp.concatenate(parts, 1), whole, rtol=1e-5, atol=1e-6)


def test_no_query_hears_of_later_keys():
    q, k, v = (x.astype(jnp.float32) for x in qkv(9))
    before = ops.attention(q, k, v, causal=True, block=4)
    after = ops.attention(q, k.at[:, 6:].set(50.0), v.at[:, 6:].set(-50.0), causal=True, block=4)
    np.testing.assert_array_equal(before[:, :6], after[:, :6])
    assert not np.allclose(before[:, 6:], after[:, 6:])


def test_bfloat16_softmax_sums_in_float32():
    q, k, v = jnp.zeros((1, 2, 1, 4), jnp.bfloat16), jnp.zeros((1, 512, 1, 4), jnp.bfloat16), jnp.ones((1, 512, 1, 4), jnp.bfloat16)
    y, res = ops.attention.evaluate(q, k, v)
    assert y.dtype == jnp.bfloat16 and res.lse.dtype == jnp.float32
    np.testing.assert_array_equal(y.astype("float32"), 1)  # a sum of 512 ones in bfloat16 stops at 256
    np.testing.assert_allclose(res.lse, np.log(512), rtol=1e-6)


def test_keeps_its_operands_its_output_and_one_number_a_row():
    q, k, v = qkv(256, b=2)
    _, res = jax.eval_shape(lambda *xs: ops.attention.evaluate(*xs, causal=True), q, k, v)
    assert res.lse.shape == (2, 2, 256)
    assert len(jax.tree.leaves(res)) == 5


def test_scores_of_masked_blocks_are_never_made():
    """Products of a causal pass over 8 blocks: 36 of the 64 block pairs, so under 60 % of the full pass's operations."""
    shapes = [jax.ShapeDtypeStruct((1, 512, 2, 16), "float32")] * 3

    def flops(causal):
        forward = jax.jit(lambda *xs: ops.attention.fn(*xs, causal=causal, block=64)[0])
        return (forward.lower(*shapes).cost_analysis() or {})["flops"]

    assert flops(True) < 0.6 * flops(False)


@pytest.mark.parametrize("backward", [False, True])
def test_scores_outside_a_window_are_never_made(backward):
    """With 8 blocks and a window of one block, 15 of the 36 block pairs of a causal pass are left."""
    q, k, v = [jax.ShapeDtypeStruct((1, 512, 2, 16), "float32")] * 3

    def flops(window):
        statics = {"causal": True, "block": 64, "window": window}
        y, res = jax.eval_shape(lambda *xs: ops.attention.evaluate(*xs, **statics), q, k, v)
        full = {**ops.attention.defaults, **statics}
        run = jax.jit(lambda res, y: ops.attention.rules["exact"].fn(res, y, **full) if backward else ops.attention.fn(*res[:3], **full)[0])
        return (run.lower(res, y).cost_analysis() or {})["flops"]

    assert flops(64) < 0.5 * flops(None)


@pytest.mark.parametrize(
    "change, text",
    [
        ({"k": (1, 4, 3, 2)}, r"k \(B, S, H, K\)"),
        ({"q": (4, 2, 2)}, r"expected \(batch, time, heads, width\)"),
        ({"v": (1, 3, 2, 2)}, r"v \(B, S, H, any\)"),
        ({"mask": (3, 4)}, r"mask of shape \(3, 4\) does not broadcast to \(B, H, T, S\) = \(1, 2, 4, 4\)"),
    ],
)
def test_shapes_that_do_not_fit(change, text):
    shapes = {name: (1, 4, 2, 2) for name in "qkv"} | change
    arrays = [jnp.zeros(shape, bool if name == "mask" else jnp.float32) for name, shape in shapes.items()]
    with pytest.raises(OperandError, match=text):
        ops.attention(*arrays)


def test_a_mask_of_numbers_is_refused():
    q, k, v = (x.astype(jnp.float32) for x in qkv(4))
    with pytest.raises(OperandError, match="the mask is float32; expected booleans"):
        ops.attention(q, k, v, jnp.zeros((4, 4)))
    with pytest.raises(OperandError, match="block 0"):
        ops.attention(q, k, v, block=0)


def test_windows_and_groups_that_do_not_fit():
    q, k, v = (x.astype(jnp.float32) for x in qkv(4, h=4))
    with pytest.raises(OperandError, match="window 2, causal=False; expected at least 1 key, and causal=True"):
        ops.attention(q, k, v, window=2)
    with pytest.raises(OperandError, match="window 0"):
        ops.attention(q, k, v, causal=True, window=0)
    with pytest.raises(OperandError, match="of which the heads of q are a multiple"):
        ops.attention(q, k[:, :, :3], v[:, :, :3])
