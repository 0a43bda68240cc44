"""Random operands, shapes, dtypes and statics of losses, norms, attention, linear algebra, dropout and tables.

As in test_drawn.py: values against NumPy, cotangents against jax.vjp. Each right formula is written once, for either module,
straight from the definition and without the care for overflow that ours takes.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullback import ops

pytestmark = pytest.mark.usefixtures("x64_drawn")

seeds = st.integers(0, 2**16)
dtypes = st.sampled_from(["float64", "float32", "bfloat16", "float16"])
reductions = st.sampled_from(["none", "mean", "sum"])
SHAPES = [(), (1,), (3,), (2, 3), (4, 2, 3)]


def both(formula):
    """The formula with NumPy and with jax.numpy."""
    return functools.partial(formula, np), functools.partial(formula, jnp)


def folded(xp, losses, reduction):
    return losses if reduction == "none" else getattr(xp, reduction)(losses)


# Losses of two arrays of one shape


def squared(xp, x, t, *, reduction):
    return folded(xp, (x - t) ** 2, reduction)


def absolute(xp, x, t, *, reduction):
    return folded(xp, (x - t) * xp.sign(x - t), reduction)  # jax.numpy's own abs has slope 1 at a tie


def huber(xp, x, t, *, reduction):
    d = x - t
    return folded(xp, xp.where(xp.abs(d) <= 1, d * d / 2, xp.abs(d) - 0.5), reduction)


def binary(xp, z, t, w=1.0, *, reduction):
    return folded(xp, w * t * xp.log1p(xp.exp(-z)) + (1 - t) * xp.log1p(xp.exp(z)), reduction)


def divergence(xp, q, t, *, reduction):
    return folded(xp, t * (xp.log(t) - q), reduction)


PAIRED = {  # ours: the formula for NumPy and JAX, whether the targets are shares
    "mean_squared_error": (both(squared), False),
    "l1_loss": (both(absolute), False),
    "huber_loss": (both(huber), False),
    "sigmoid_binary_cross_entropy": (both(binary), True),
    "kl_divergence": (both(divergence), True),
}


@given(st.sampled_from(sorted(PAIRED)), st.sampled_from(SHAPES), st.booleans(), reductions, dtypes, seeds)
def test_losses_of_pairs(compare_closely, name, shape, third, reduction, dtype, seed):
    rng, ((numpy, theirs), shares) = np.random.default_rng(seed), PAIRED[name]
    drawn = [rng.normal(size=shape), rng.uniform(0.1, 0.9, shape) if shares else 2 * rng.normal(size=shape)]
    if third and name == "sigmoid_binary_cross_entropy":
        drawn.append(rng.uniform(0.5, 2, shape[-1:]))
    terms = 1.0 if shares else 0.0  # of slopes that cross 0 between the targets
    compare_closely(name, numpy, theirs, drawn, dtype, seed, size=terms, reduction=reduction)


# Losses of rows and labels


def cross_entropy(xp, z, *rest, weighted, by_class, ignore_index, label_smoothing, z_loss, reduction):
    *given, labels = rest
    w = given.pop(0) if weighted else xp.ones(labels.shape)
    c = given.pop(0) if by_class else xp.ones(z.shape[-1])
    w = w if ignore_index is None else xp.where(labels == ignore_index, 0, w)
    lse = xp.log(xp.exp(z).sum(-1))
    here = labels[..., None] == xp.arange(z.shape[-1])
    c_n, u = (c * here).sum(-1), (1 - label_smoothing) * (lse - (z * here).sum(-1)) + z_loss * lse**2
    losses = w * (c_n * u + label_smoothing / z.shape[-1] * (c * (lse[..., None] - z)).sum(-1))
    whole = (w * c_n).sum()
    return losses if reduction == "none" else losses.sum() / (1 if reduction == "sum" else xp.where(whole == 0, 1, whole))


def our_cross_entropy(z, *rest, weighted, by_class, **statics):
    *given, labels = rest
    w = given.pop(0) if weighted else None
    return ops.softmax_cross_entropy(z, labels, w, given.pop(0) if by_class else None, **statics)


CROSS_ENTROPY = both(cross_entropy)
SETTINGS = [  # ignored label, smoothing, z-loss, weights, class weights
    (None, 0.0, 0.0, False, False),
    (1, 0.0, 0.0, False, False),
    (None, 0.1, 0.0, True, False),
    (None, 0.0, 0.01, False, True),
    (0, 0.2, 0.05, True, True),
    (2, 1.0, 0.0, False, True),
]


@given(st.sampled_from(SETTINGS), st.sampled_from([(), (1,), (3,), (2, 4)]), st.sampled_from([1, 3, 5]), reductions, dtypes, seeds)
def test_cross_entropy(compare_closely, setting, rows, classes, reduction, dtype, seed):
    ignored, smoothing, z_loss, weighted, by_class = setting
    rng = np.random.default_rng(seed)
    drawn = [rng.normal(size=(*rows, classes))]
    drawn += [rng.uniform(0.5, 2, rows)] * weighted + [rng.uniform(0.5, 2, classes)] * by_class
    statics = {"ignore_index": ignored, "label_smoothing": smoothing, "z_loss": z_loss, "reduction": reduction}
    labels = np.asarray(rng.integers(0, classes, rows))
    compare_closely(our_cross_entropy, *CROSS_ENTROPY, drawn, dtype, seed, (labels,), 1.0, weighted=weighted, by_class=by_class, **statics)


def likelihood(xp, p, labels, *, reduction):
    return folded(xp, -xp.log((p * (labels[..., None] == xp.arange(p.shape[-1]))).sum(-1)), reduction)


LIKELIHOOD = both(likelihood)


@given(st.sampled_from([(), (1,), (3,), (2, 4)]), st.sampled_from([1, 3]), reductions, dtypes, seeds)
def test_likelihood(compare_closely, rows, classes, reduction, dtype, seed):
    rng = np.random.default_rng(seed)
    labels = np.asarray(rng.integers(0, classes, rows))
    p = rng.uniform(0.1, 1, (*rows, classes))
    compare_closely("nll_of_probabilities", *LIKELIHOOD, [p], dtype, seed, (labels,), reduction=reduction)


def head(xp, x, weight, *rest, chunk):
    *given, labels = rest
    w = given[0] if given else xp.ones(labels.shape)
    z = x @ weight.T
    losses = xp.log(xp.exp(z).sum(-1)) - (z * (labels[..., None] == xp.arange(len(weight)))).sum(-1)
    return (w * losses).sum() / w.sum()


def our_head(x, weight, *rest, chunk):
    *given, labels = rest
    return ops.linear_softmax_cross_entropy(x, weight, labels, *given, chunk=chunk)


HEAD = both(head)


@given(st.sampled_from([(1,), (5,), (2, 3)]), st.booleans(), st.sampled_from([None, 1, 2, 7]), dtypes, seeds)
def test_head(compare_closely, rows, weighted, chunk, dtype, seed):
    rng = np.random.default_rng(seed)
    drawn = [rng.normal(size=(*rows, 3)), rng.normal(size=(4, 3)), *[rng.uniform(0.5, 2, rows)] * weighted]
    compare_closely(our_head, *HEAD, drawn, dtype, seed, (np.asarray(rng.integers(0, 4, rows)),), 1.0, chunk=chunk)


# Norms and maps


def layer(xp, x, s=1.0, b=0.0, *, eps):
    d = x - x.mean(-1, keepdims=True)
    return d / xp.sqrt((d * d).mean(-1, keepdims=True) + eps) * s + b


def root_mean_square(xp, x, s=1.0, *, eps):
    return x / xp.sqrt((x * x).mean(-1, keepdims=True) + eps) * s


def grouped(xp, x, s=1.0, b=0.0, *, groups, eps):
    parts = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
    d = parts - parts.mean((1, 3), keepdims=True)
    return (d / xp.sqrt((d * d).mean((1, 3), keepdims=True) + eps)).reshape(x.shape) * s + b


def affine(xp, x, w, b=0.0):
    return x @ w.T + b


def swish_gated(xp, a, b):
    return a / (1 + xp.exp(-a)) * b


NORMS = {"layer_norm": both(layer), "rms_norm": both(root_mean_square), "group_norm": both(grouped)}
LINEAR, SWIGLU = both(affine), both(swish_gated)


@given(st.sampled_from(sorted(NORMS)), st.sampled_from([(1, 4), (3, 4), (2, 3, 4)]), st.integers(0, 2), st.data(), dtypes, seeds)
def test_norms(compare_closely, name, shape, count, data, dtype, seed):
    rng = np.random.default_rng(seed)
    drawn = [rng.normal(size=shape) + 1, rng.normal(size=4), rng.normal(size=4)][: 1 + min(count, 1 if name == "rms_norm" else 2)]
    statics = {"groups": data.draw(st.sampled_from([1, 2]))} if name == "group_norm" else {}
    eps = data.draw(st.sampled_from([1e-5, 0.1]))
    compare_closely(name, *NORMS[name], drawn, dtype, seed, size=steepest(name, drawn[0], eps, **statics), eps=eps, **statics)


def steepest(name, x, eps, groups=1):
    """1/σ where it is largest: the size of a cotangent's terms, which cancel where a row is almost constant."""
    parts = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups) if name == "group_norm" else x[..., None, None, :]
    d = parts if name == "rms_norm" else parts - parts.mean((-3, -1), keepdims=True)
    return 1 / np.sqrt((d * d).mean((-3, -1)).min() + eps)


@given(st.sampled_from([(3,), (1, 3), (5, 3), (0, 3), (2, 4, 3)]), st.booleans(), dtypes, seeds)
def test_linear(compare_closely, shape, bias, dtype, seed):
    rng = np.random.default_rng(seed)
    compare_closely("linear", *LINEAR, [rng.normal(size=shape), rng.normal(size=(2, 3)), *[rng.normal(size=2)] * bias], dtype, seed)


@given(st.sampled_from([*SHAPES, (0, 3)]), dtypes, seeds)
def test_swiglu(compare_closely, shape, dtype, seed):
    rng = np.random.default_rng(seed)
    terms = 0.3  # of the slope of a·σ(a), which crosses 0
    compare_closely("swiglu", *SWIGLU, [2 * rng.normal(size=shape), rng.normal(size=shape)], dtype, seed, size=terms)


# Attention and rotary


def attended(xp, q, k, v, mask=True, *, causal, query_offset, window, block):
    (_, t, h, width), s = q.shape, k.shape[1]
    k, v = (xp.repeat(x, h // x.shape[2], axis=2) for x in (k, v))
    z = xp.einsum("bthk,bshk->bhts", q, k) / width**0.5
    place, key = xp.arange(t)[:, None] + query_offset, xp.arange(s)
    seen = mask & ((key <= place) | (not causal)) & (key > place - (window or t + s + abs(query_offset)))
    e = xp.exp(z) * seen
    total = e.sum(-1, keepdims=True)
    return xp.einsum("bhts,bshj->bthj", e / xp.where(total == 0, 1, total), v)


ATTENTION = both(attended)
CONFIGURATIONS = [  # (B, T, S, H, G, K, J), causal, query_offset, window, block
    ((1, 1, 1, 1, 1, 1, 1), False, 0, None, None),
    ((2, 3, 3, 2, 2, 4, 3), True, 0, None, None),
    ((1, 5, 5, 2, 1, 2, 2), True, 0, None, 2),
    ((1, 5, 5, 2, 1, 2, 2), True, 0, 2, 2),
    ((2, 2, 5, 4, 2, 3, 1), True, 3, None, None),
    ((2, 2, 5, 4, 2, 3, 1), False, 0, None, 1),
    ((1, 4, 2, 2, 2, 2, 3), True, -1, None, 3),
    ((1, 6, 6, 3, 3, 2, 2), True, 0, 3, 4),
    ((1, 3, 7, 2, 2, 1, 2), True, 4, 2, None),
    ((2, 3, 4, 1, 1, 2, 2), False, 0, None, None),
]


@given(st.sampled_from(CONFIGURATIONS), st.sampled_from([None, "keys", "whole"]), dtypes, seeds)
def test_attention(compare_closely, configuration, masked, dtype, seed):
    (b, t, s, h, g, width, out), causal, offset, window, block = configuration
    rng = np.random.default_rng(seed)
    mask = () if masked is None else (rng.random((b, h, t, s) if masked == "whole" else (b, 1, 1, s)) < 0.7,)
    drawn = [rng.normal(size=(b, t, h, width)), rng.normal(size=(b, s, g, width)), rng.normal(size=(b, s, g, out))]
    compare_closely("attention", *ATTENTION, drawn, dtype, seed, mask, 1.0, causal=causal, query_offset=offset, window=window, block=block)


def turning(xp, x, positions, *, offset, base, pairs):
    width = x.shape[-1]
    theta = (positions + offset)[..., None, None] * base ** (-xp.arange(0, width, 2) / width)
    cut = (slice(0, width // 2), slice(width // 2, None)) if pairs == "halves" else (slice(0, None, 2), slice(1, None, 2))
    a, b = (x[..., one] for one in cut)
    turned = a * xp.cos(theta) - b * xp.sin(theta), a * xp.sin(theta) + b * xp.cos(theta)
    return xp.concatenate(turned, -1) if pairs == "halves" else xp.stack(turned, -1).reshape(x.shape)


ROTARY = both(turning)


@given(st.sampled_from([(3, 1, 2), (2, 3, 2, 4), (1, 1, 6)]), st.sampled_from(["halves", "interleaved"]), st.integers(0, 3), dtypes, seeds)
def test_rotary(compare_closely, shape, pairs, offset, dtype, seed):
    rng = np.random.default_rng(seed)
    positions = rng.integers(0, 8, shape[:-2])  # small: an angle in float32 has as many digits as are left after its turns
    compare_closely("rotary", *ROTARY, [rng.normal(size=shape)], dtype, seed, (positions,), offset=offset, base=100.0, pairs=pairs)


# Linear algebra


def well_conditioned(rng, *shape):
    return rng.normal(size=shape) / 2 + 2 * np.eye(shape[-1])


def our_log_determinant(a):
    return ops.slogdet(a)[1]


def our_cholesky(a):
    """Of A·Aᵀ, which is positive definite however it is rounded."""
    return ops.cholesky(ops.matmul(a, ops.swapaxes(a, -1, -2)))


MATRICES = {
    "inverse": (ops.inverse, np.linalg.inv, jnp.linalg.inv),
    "determinant": (ops.det, np.linalg.det, jnp.linalg.det),
    "slogdet": (our_log_determinant, lambda a: np.linalg.slogdet(a)[1], lambda a: jnp.linalg.slogdet(a)[1]),
    "cholesky": (our_cholesky, lambda a: np.linalg.cholesky(a @ a.mT), lambda a: jnp.linalg.cholesky(a @ a.mT)),
}


@given(st.sampled_from(sorted(MATRICES)), st.sampled_from([(1, 1), (2, 2), (3, 3), (2, 3, 3), (0, 2, 2)]), dtypes, seeds)
def test_of_one_matrix(compare, name, shape, dtype, seed):
    compare(*MATRICES[name], [well_conditioned(np.random.default_rng(seed), *shape)], dtype, seed)


def solved(xp, a, b, *, transpose, lower=None, unit_diagonal=False):
    if lower is not None:
        a = xp.tril(a) if lower else xp.triu(a)
    a = xp.where(xp.eye(a.shape[-1]) * unit_diagonal == 1, 1, a)
    return xp.linalg.solve(a.mT if transpose else a, b)


SOLVED = both(solved)
SYSTEMS = [((2, 2), (2,)), ((3, 3), (3, 2)), ((2, 3, 3), (3, 1)), ((3, 3), (2, 3, 2)), ((1, 1), (1,))]


@given(st.sampled_from(SYSTEMS), st.sampled_from([None, True, False]), st.booleans(), st.booleans(), dtypes, seeds)
def test_systems(compare, shapes, lower, transpose, unit_diagonal, dtype, seed):
    rng = np.random.default_rng(seed)
    drawn = [well_conditioned(rng, *shapes[0]), rng.normal(size=shapes[1])]
    if lower is None:
        return compare("solve", *SOLVED, drawn, dtype, seed, transpose=transpose)
    compare("triangular_solve", *SOLVED, drawn, dtype, seed, lower=lower, transpose=transpose, unit_diagonal=unit_diagonal)


# Dropout


def thinned(xp, x, key, first, *, rate):
    keys = [jax.random.fold_in(key, first + i) for i in range(x.shape[0])]
    kept = [jax.random.bits(one, x.shape[1:], jnp.uint32) < (1 - rate) * 2**32 for one in keys]
    return x * xp.stack([xp.asarray(one) for one in kept]) / (1 - rate)


THINNED = both(thinned)


@given(st.sampled_from([(1,), (5,), (3, 4), (2, 3, 2)]), st.sampled_from([0.1, 0.5, 0.9]), st.integers(0, 50), dtypes, seeds)
def test_dropout(compare, shape, rate, first, dtype, seed):
    x = np.random.default_rng(seed).normal(size=shape)
    compare("dropout", *THINNED, [x], dtype, seed, (np.array([seed, 1], np.uint32), np.array(first)), rate=rate)


# Tables, choices, joints


def rows_of(xp, weight, ids):
    return weight[ids]


def bag(xp, weight, ids, *, mode):
    return getattr(weight[ids], mode)(-2)


def segments(xp, x, ids, *, num_segments):
    here = ids[:, None] == xp.arange(num_segments)
    return xp.einsum("ns,n...->s...", 1.0 * here, x)


def along(xp, x, ids, *, axis):
    return xp.take_along_axis(x, ids, axis)


EMBEDDING, BAG, SEGMENTS, ALONG = both(rows_of), both(bag), both(segments), both(along)


@given(st.sampled_from(["embedding", "embedding_bag", "segment_sum", "take_along_axis"]), st.data(), dtypes, seeds)
def test_tables(compare, name, data, dtype, seed):
    rng, x = np.random.default_rng(seed), np.random.default_rng(seed).normal(size=(4, 3))
    if name == "embedding":
        ids = rng.integers(-4, 4, data.draw(st.sampled_from([(), (0,), (5,), (2, 3)])))
        return compare(name, *EMBEDDING, [x], dtype, seed, (np.asarray(ids),))
    if name == "embedding_bag":
        ids = rng.integers(0, 4, data.draw(st.sampled_from([(1,), (2, 3)])))
        return compare(name, *BAG, [x], dtype, seed, (ids,), mode=data.draw(st.sampled_from(["sum", "mean"])))
    if name == "segment_sum":
        return compare(name, *SEGMENTS, [x], dtype, seed, (rng.integers(0, 5, 4),), num_segments=5)
    axis = data.draw(st.sampled_from([0, 1, -1]))
    ids = rng.integers(0, x.shape[axis], (2, 3) if axis == 0 else (4, 2))
    compare(name, *ALONG, [x], dtype, seed, (ids,), axis=axis)


def our_where(x, y, condition):
    return ops.where(condition, x, y)


def chosen(xp, x, y, condition):
    return xp.where(condition, x, y)


def our_joint(*xs, axis):
    return ops.concatenate(xs, axis)


def our_stack(*xs, axis):
    return ops.stack(xs, axis)


def joint(xp, *xs, axis):
    return xp.concatenate(xs, axis)


def stacked(xp, *xs, axis):
    return xp.stack(xs, axis)


CHOSEN, JOINT, STACKED = both(chosen), both(joint), both(stacked)


@given(st.sampled_from([((2, 3), (3,), (2, 1)), ((), (2,), (1,)), ((3,), (2, 3), ()), ((1, 2), (3, 1), (3, 2))]), dtypes, seeds)
def test_where(compare, shapes, dtype, seed):
    rng, (x, y, condition) = np.random.default_rng(seed), shapes
    compare(our_where, *CHOSEN, [rng.normal(size=x), rng.normal(size=y)], dtype, seed, (np.asarray(rng.random(condition) < 0.5),))


@given(st.integers(1, 3), st.integers(-2, 1), st.booleans(), st.lists(st.integers(0, 3), min_size=3, max_size=3), dtypes, seeds)
def test_joints(compare, count, axis, new, lengths, dtype, seed):
    rng, shape = np.random.default_rng(seed), [2, 3]
    if new:
        return compare(our_stack, *STACKED, [rng.normal(size=shape) for _ in range(count)], dtype, seed, axis=axis)
    parts = [rng.normal(size=[n if i == axis % 2 else m for i, m in enumerate(shape)]) for n in lengths[:count]]
    compare(our_joint, *JOINT, parts, dtype, seed, axis=axis)
