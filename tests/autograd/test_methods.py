"""Operators and methods of a tracked value, and what NumPy and JAX are told when they are called on one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.lib.errors import GraphError

pytestmark = pytest.mark.usefixtures("x64")


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)  # of NumPy: at import, JAX would make it float32


X, Y, Z = array(3), array(3, seed=1), array(3, seed=2)
Q = array(3, 3, seed=3)


REMEDY = (
    r"met a tracked value\. Call ops from pullback\.ops on it; differentiate inside the transform.*jax\.vmap\(pb\.grad\(f\)\).*\.detach\(\)"
)

REFUSED = {
    "jax.vmap": lambda x: jax.vmap(jnp.sin)(x),
    "jax.jit": lambda x: jax.jit(jnp.sin)(x),
    "jax.grad": lambda x: jax.grad(jnp.sum)(x),
    "jax.lax.scan": lambda x: jax.lax.scan(lambda c, y: (c, y), x, Y),
    "jax.lax.stop_gradient": lambda x: jax.lax.stop_gradient(x),
    "jax.device_put": lambda x: jax.device_put(x),
    "jnp.sin": lambda x: jnp.sin(x),
    "jnp.sum": lambda x: jnp.sum(x),
    "jnp.where": lambda x: jnp.where(X > 0, x, X),
    "jnp.asarray": lambda x: jnp.asarray(x),
    "jnp.stack": lambda x: jnp.stack([x, x]),
    "jnp.einsum": lambda x: jnp.einsum("i,i", x, X),
    "array[x]": lambda x: jnp.asarray(X)[x],
    "array.at": lambda x: jnp.asarray(X).at[0].set(x[0]),
    "closed over by jit": lambda x: jax.jit(lambda y: y * x)(X),
    "closed over by vmap": lambda x: jax.vmap(lambda y: y * x)(X),
    "np.asarray": lambda x: np.asarray(x),
    "np.exp": lambda x: np.exp(x),
    "np.multiply": lambda x: np.multiply(np.ones(3), x),
    "np.sum": lambda x: np.sum(x),
    "np.mean": lambda x: np.mean(x),
    "np.max": lambda x: np.max(x),
    "np.dot": lambda x: np.dot(np.ones(3), x),
    "np.concatenate": lambda x: np.concatenate([x, x]),
    "np.where": lambda x: np.where(np.ones(3, bool), x, 0.0),
    "np.testing": lambda x: np.testing.assert_allclose(x, X),
}


@pytest.mark.parametrize("name", REFUSED)
def test_foreign_functions_on_a_tracked_value_say_what_to_do(name):
    with pytest.raises(GraphError, match=REMEDY):
        pb.grad(lambda x: ops.sum(REFUSED[name](x)))(X)


def test_ours_around_a_jax_transform_says_what_to_do():
    with pytest.raises(GraphError, match=REMEDY):
        pb.grad(jax.jit(lambda x: ops.sum(x * x)))(X)
    with pytest.raises(GraphError, match=REMEDY):
        pb.grad(lambda x: ops.sum(jax.vmap(lambda x: x * x)(x)))(X)


# Operators


BINARY = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
}


def test_operators_with_arrays_and_numbers_on_either_side(gap):
    """One function of all of them, so that one program of each side is compiled."""
    x, others = Z**2 + 0.5, (jnp.asarray(X**2 + 1), Y**2 + 1, np.float64(1.5), np.float32(1.5), 1.5, 2)

    def f(x):
        return sum(op(x, other) + op(other, x) for op in BINARY.values() for other in others)

    ours = pb.grad(lambda x: ops.sum(f(x) * Y))
    theirs = jax.jit(jax.grad(lambda x: jnp.sum(f(x) * Y)))(x)
    assert gap(ours(x), theirs) < 1e-13
    assert gap(jax.jit(ours)(x), theirs) < 1e-13


def test_matmul_index_and_methods(gap):
    m, n = jnp.asarray(array(3, 3)), array(3, 3, seed=1)

    def f(ns, x):
        y = m @ x + x @ m + n @ x + x @ n - (-x) + abs(x) + (+x)
        y = y + x.T + x.reshape(9).reshape(3, -1) + x.transpose(1, 0) + x[::-1, [2, 0, 1]] + x[0][None] + x.astype("float64")
        return (y.sum() + y.mean(axis=0).sum() + y.max() - y.min(axis=1, keepdims=True).sum()) * ns.sum(ns.tanh(x))

    x = array(3, 3, seed=2)
    theirs = jax.jit(jax.grad(lambda x: f(jnp, x)))
    assert gap(pb.grad(lambda x: f(ops, x))(x), theirs(x)) < 1e-13


def test_comparisons_are_plain_booleans(gap):
    def f(x):
        for other in (jnp.asarray(Y), Y, 0.0, x):
            for result in (x < other, x <= other, x > other, x >= other, x == other, x != other, other < x, other >= x):
                assert isinstance(result, jax.Array) and result.dtype == bool
        assert bool((x == x).all()) and not bool((x != x).any()) and bool((X == x).all())
        assert x[0] if X[0] else not x[0]
        assert float(x[0]) == float(X[0]) and int(x[0]) == int(X[0]) and x[0].item() == float(X[0])
        assert f"{x[0]:.3f}" == f"{float(X[0]):.3f}"
        assert len(x) == 3 and [float(row) for row in x] == X.tolist() and len({x: 1}) == 1
        assert np.shape(x) == (3,) and np.ndim(x) == 1
        return ops.sum(ops.where(x > 0, x * x, 0.0) + x.astype(int) + x.astype(bool))

    assert gap(pb.grad(f)(X), jnp.where(X > 0, 2 * X, 0)) < 1e-15
    with pytest.raises(TypeError, match="0-d"):
        pb.grad(lambda x: len(x))(1.0)


def test_methods_that_reduce_and_lay_out(gap):
    """In the spelling that JAX's own arrays have."""

    def f(x):
        y = x.prod(axis=1).sum() + x.var(0).sum() + x.std() + x.cumsum(axis=1)[0, 1] + x.cumprod(0)[1, 2] + x.cumsum()[4] + x.trace()
        y = y + (x.diagonal(1) * x.diagonal(-1)).sum() + (x.repeat(2, 0) ** 2).sum() + x.ravel()[2] * x.flatten()[5]
        return y + (x.any() + 2 * x.all() + x.argmax() - x.argmin(1)[1]) * (x.swapaxes(0, 1) * x).sum() + x[None].squeeze(0)[1, 1] ** 3

    assert gap(jax.jit(pb.grad(f))(Q), jax.jit(jax.grad(f))(Q)) < 1e-13


def test_methods_in_the_spelling_of_torch():
    for method, ours in {
        "flip": (lambda x: x.flip(0), np.flip(Q, 0)),
        "flip all": (lambda x: x.flip(), np.flip(Q)),
        "flip two": (lambda x: x.flip(0, 1), np.flip(Q)),
        "roll": (lambda x: x.roll(1, 0), np.roll(Q, 1, 0)),
        "moveaxis": (lambda x: x.moveaxis(0, 1), np.moveaxis(Q, 0, 1)),
        "tile": (lambda x: x.tile((1, 2)), np.tile(Q, (1, 2))),
        "tril": (lambda x: x.tril(-1), np.tril(Q, -1)),
        "triu": (lambda x: x.triu(), np.triu(Q)),
        "norm": (lambda x: x.norm(1), np.linalg.norm(Q, axis=1)),
        "unbiased": (lambda x: x.std(0, correction=1), np.std(Q, 0, ddof=1)),
        "logsumexp": (lambda x: x.logsumexp(0, keepdims=True), np.log(np.exp(Q).sum(0, keepdims=True))),
    }.items():
        np.testing.assert_allclose(pb.vjp(ours[0], Q)[0], ours[1], rtol=1e-12, err_msg=method)
