"""checkpoint: the gradients of the function itself, for less memory."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import nn, ops
from pullback.lib.errors import GraphError
from pullback.ops.activation import gelu

pytestmark = pytest.mark.usefixtures("x64")


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)  # of NumPy: at import, JAX would make it float32


X, W, V, C = array(2, 3), array(3, 3, seed=1) / 2, array(3, 3, seed=2), array(2, 3, seed=3)


def jax_gelu(x):
    return jax.nn.gelu(x, approximate=True)


def shared(ns, gelu, checkpoint):
    """Three blocks on one weight: closed over, as an argument, and both at once."""

    def loss(w):
        h = checkpoint(lambda h: gelu(ns.matmul(h, w)) + h)(X)
        h = checkpoint(lambda h, v: ns.tanh(ns.matmul(h, v)))(h, w)
        h = checkpoint(lambda h, v: ns.matmul(ns.matmul(h, v), w))(h, w)
        return ns.sum(h * h * C)

    return loss


OURS, THEIRS = shared(ops, gelu, pb.checkpoint), shared(jnp, jax_gelu, jax.checkpoint)


def ordered(ns, grad, f, order: int):
    """The gradient of order n: each one is weighed and differentiated again."""
    for _ in range(order - 1):
        f = functools.partial(lambda g, w: ns.sum(g(w) * V), grad(f))
    return grad(f)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_closed_over_and_shared_weights(order, gap, jit):
    ours, theirs = ordered(ops, pb.grad, OURS, order), jit(ordered(jnp, jax.grad, THEIRS, order))(W)
    eager = ours(W)
    assert gap(eager, theirs) < 1e-13
    assert gap(jit(ours)(W), theirs) < 1e-13
    plain = ordered(ops, pb.grad, shared(ops, gelu, lambda f: f), order)(W)
    assert gap(eager, plain) < 1e-15


def test_the_other_transforms_go_through(gap):
    assert gap(pb.hvp(OURS, (W,), (V,)), jax.jvp(jax.grad(THEIRS), (W,), (V,))[1]) < 1e-13
    assert gap(pb.jvp(OURS, (W,), (V,)), jax.jvp(THEIRS, (W,), (V,))) < 1e-13
    f = lambda ns, gelu, checkpoint: lambda x: checkpoint(lambda x: gelu(ns.matmul(x, W)))(x)
    assert gap(pb.jacobian(f(ops, gelu, pb.checkpoint))(X), jax.jacrev(f(jnp, jax_gelu, jax.checkpoint))(X)) < 1e-13
    batch = array(4, 3, 3, seed=5)
    assert gap(jax.vmap(pb.grad(OURS))(batch), jax.vmap(jax.grad(THEIRS))(batch)) < 1e-13


def test_checkpoint_in_checkpoint_and_vjp_inside(gap, jit):
    def nested(ns, grad, checkpoint, gelu):
        inner = checkpoint(lambda h, w: gelu(ns.matmul(h, w)))
        outer = checkpoint(lambda h, w: ns.tanh(inner(inner(h, w), w)) * w[0])
        penalised = checkpoint(lambda h, w: ns.sum(grad(lambda h: ns.sum(outer(h, w)))(h) ** 2))
        return lambda w: penalised(X, w) + ns.sum(outer(X, w))

    ours, theirs = nested(ops, pb.grad, pb.checkpoint, gelu), nested(jnp, jax.grad, jax.checkpoint, jax_gelu)
    assert gap(pb.grad(ours)(W), jit(jax.grad(theirs))(W)) < 1e-13


def test_levels_meet_in_one_checkpoint(gap, jit):
    """One output depends on the outer value alone, one on both; the inner derivative must not see the first as its own."""

    def f(ns, grad, checkpoint):
        def outer(a):
            def inner(b):
                only_a, both = checkpoint(lambda a, b: (ns.exp(a) * a, ns.tanh(a * b)))(a, b)
                return ns.sum(only_a * both * b + only_a)

            return ns.sum(grad(inner)(a * 2.0) * C)

        return grad(outer)

    assert gap(f(ops, pb.grad, pb.checkpoint)(X), jit(f(jnp, jax.grad, jax.checkpoint))(X)) < 1e-13


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_an_argument_keeps_its_level_in_the_second_run(compiled, gap, jit):
    """b is tracked above every output, t is not tracked at all: neither may lend its level to a."""

    def f(ns, grad, checkpoint, stop):
        def outer(a):
            body = lambda a, b, *, t: ns.exp(a) * stop(b) * jnp.exp(t) + a
            return ns.sum(grad(lambda b: ns.sum(checkpoint(body)(a, b, t=jnp.asarray(C)) * b * b))(a * 2.0))

        return grad(outer)

    ours = f(ops, pb.grad, pb.checkpoint, pb.stop_gradient)
    theirs = f(jnp, jax.grad, jax.checkpoint, jax.lax.stop_gradient)
    assert gap((jit(ours) if compiled else ours)(X), jit(theirs)(X)) < 1e-13


class Pair(nn.Module):
    x: jax.Array = nn.param()
    v: jax.Array = nn.param()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_what_no_cotangent_reaches_stays_without_one(compiled):
    f = lambda x, v: ops.sum(pb.checkpoint(lambda x, v: (ops.tanh(x), v * 2.0))(x, v)[0])
    gradient = lambda x: pb.grad(lambda m: f(m.x, m.v))(Pair(x, x))
    with pytest.raises(GraphError, match="no gradient reaches the parameters v"):
        (jax.jit(gradient) if compiled else gradient)(X)


BODIES = {
    "its input": lambda ns, x: x,
    "its input twice": lambda ns, x: (x, x * 2.0, x),
    "an input and a value": lambda ns, x: (x, ns.tanh(x)),
    "a constant beside": lambda ns, x: (0.5, ns.exp(x), jnp.ones(3), 3, None, ns.tanh(x)),
    "a tree": lambda ns, x: {"a": [ns.exp(x)], "b": (x * x, None)},
}


@pytest.mark.parametrize("body", BODIES)
def test_what_a_body_may_return(body, gap, jit):
    def loss(ns, checkpoint):
        floats = lambda y: [leaf for leaf in jax.tree.leaves(y) if getattr(leaf, "shape", None) == (2, 3)]
        return lambda x: ns.sum(functools.reduce(lambda a, b: a * b + a, floats(checkpoint(lambda x: BODIES[body](ns, x))(x))) * C)

    theirs = jax.grad(loss(jnp, lambda f: f))(X)
    assert gap(pb.grad(loss(ops, pb.checkpoint))(X), theirs) < 1e-14
    assert gap(jit(pb.grad(loss(ops, pb.checkpoint)))(X), theirs) < 1e-14


def test_what_a_body_may_be_given(gap):
    """Integers, keys, strings, None, trees, keywords; and nothing, where all is closed over."""
    key, seen = jax.random.key(0), []

    def body(tree, n, key, name, nothing=None, *, scale):
        seen.append((n, name, nothing))
        return tree["x"] * tree["ids"] * jax.random.normal(key, (2, 3)) * n * scale

    ours = lambda x: ops.sum(pb.checkpoint(body)({"x": x, "ids": jnp.arange(3)}, 2, key, "name", scale=ops.tanh(x)))
    theirs = lambda x: jnp.sum(x * jnp.arange(3) * jax.random.normal(key, (2, 3)) * 2 * jnp.tanh(x))
    assert gap(pb.grad(ours)(X), jax.grad(theirs)(X)) < 1e-14
    assert seen == [(2, "name", None)] * 2  # forward and once more for the pullback
    assert gap(pb.grad(lambda x: ops.sum(pb.checkpoint(lambda: x * x * C)()))(X), 2 * X * C) < 1e-15
    assert gap(pb.grad(lambda x: ops.sum(pb.checkpoint(lambda x: (x * C, x * x))(x)[0]))(X), jnp.asarray(C)) < 1e-15  # one output unused


def test_a_derivative_in_the_seed_of_a_closed_vjp(gap):
    """Fused ops allow it here: they are recorded again, and then with their operands."""
    _, pullback = pb.vjp(OURS, W)
    _, jax_pullback = jax.vjp(THEIRS, W)
    theirs = jax.grad(lambda s: jnp.sum(jax_pullback(s * s)[0] * V))(2.0)
    assert gap(pb.grad(lambda s: ops.sum(pullback(s * s)[0] * V))(2.0), theirs) < 1e-13


def test_without_a_derivative_it_is_the_function(gap):
    f = pb.checkpoint(lambda x: (ops.exp(x), 3))
    y, three = f(jnp.asarray(X))
    assert three == 3 and gap(y, jnp.exp(X)) == 0


def test_an_error_of_the_body_comes_through():
    with pytest.raises(pb.PullbackError, match=r"matmul: \(2, 3\) by \(4,\)"):
        pb.grad(lambda x: ops.sum(pb.checkpoint(lambda x: ops.matmul(x, jnp.ones(4)))(x)))(X)
    leaked = []
    pb.grad(lambda x: pb.checkpoint(lambda x: (leaked.append(x * 2.0), ops.sum(x))[1])(x))(X)
    with pytest.raises(GraphError, match="has returned"):
        ops.mul(leaked[0], 2.0)


def test_the_exploring_face_goes_through(gap):
    x, w = pb.tensor(X), pb.tensor(W)
    y = ops.sum(pb.checkpoint(lambda x: gelu(ops.matmul(x, w)))(x) * C)
    y.backward()
    theirs = jax.grad(lambda x, w: jnp.sum(jax_gelu(x @ w) * C), (0, 1))(X, W)
    assert gap((x.grad, w.grad), theirs) < 1e-14
    with pytest.raises(GraphError, match="second backward"):
        y.backward()


@pytest.mark.parametrize("order, runs", [(0, 1), (1, 2), (2, 2), (3, 2)])
def test_how_often_the_body_is_traced(order, runs):
    """Once forward and once for the pullback, whatever the order: the second run is recorded at all levels."""
    count = 0

    def loss(w):
        def body(h):
            nonlocal count
            count += 1
            return ops.tanh(ops.matmul(h, w))

        return ops.sum(pb.checkpoint(body)(X))

    jax.jit(ordered(ops, pb.grad, loss, order) if order else loss).lower(W)
    assert count == runs


# Memory


@pytest.fixture(scope="module")
def temp():
    """Temporary bytes of the gradient of a deep chain of wide blocks, with and without checkpoint, ours and JAX's."""
    x, ws = jnp.ones((512, 64)), [jnp.ones((64, 64)) / 64] * 10

    def chain(ns, gelu, wrap):
        def loss(ws):
            h = x
            for w in ws:
                h = wrap(lambda h, w: ns.tanh(gelu(ns.matmul(h, w))))(h, w)
            return ns.sum(h * h)

        return loss

    bytes_of = lambda program: program.lower(ws).compile().memory_analysis().temp_size_in_bytes
    return {
        "plain": bytes_of(jax.jit(pb.grad(chain(ops, gelu, lambda f: f)))),
        "ours": bytes_of(jax.jit(pb.grad(chain(ops, gelu, pb.checkpoint)))),
        "compiled": pb.compile(pb.grad(chain(ops, gelu, pb.checkpoint))).plan(ws).temp,
        "keywords": pb.compile(pb.grad(chain(ops, gelu, lambda f: lambda h, w: pb.checkpoint(f)(h=h, w=w)))).plan(ws).temp,
        "theirs": bytes_of(jax.jit(jax.grad(chain(jnp, jax_gelu, jax.checkpoint)))),
        "activation": 512 * 64 * 4,
    }


def test_checkpoint_saves_memory(temp):
    """Ten blocks keep their inputs alone; a second array for each would be ten more."""
    assert temp["ours"] <= 1.1 * temp["theirs"]
    assert temp["compiled"] <= 1.1 * temp["theirs"]
    assert temp["keywords"] == temp["compiled"]
    assert temp["ours"] <= temp["plain"] - 4 * temp["activation"]
