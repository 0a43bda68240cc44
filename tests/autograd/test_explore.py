"""The exploring face: leaves, backward, what it refuses, and how values and graphs look."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.lib.errors import GraphError, OperandError
from pullback.ops.activation import gelu

pytestmark = pytest.mark.usefixtures("x64")

X, W = np.asarray([0.5, -1.25, 2.0]), np.asarray([1.5, 0.75, -0.5])


def loss(x, w):
    return ops.sum(gelu(x * w) * x)


def jax_loss(x, w):
    return jnp.sum(jax.nn.gelu(x * w, approximate=True) * x)


def test_backward_fills_every_leaf(gap):
    x, w = pb.tensor(X), pb.tensor(W)
    assert x.grad is None
    loss(x, w).backward()
    assert gap((x.grad, w.grad), jax.grad(jax_loss, (0, 1))(X, W)) < 1e-13
    assert isinstance(x.grad, jax.Array)


def test_gradients_accumulate_until_zero_grad(gap):
    x, once = pb.tensor(X), jax.grad(jax_loss)(X, W)
    for times in (1, 2, 3):
        loss(x, W).backward()
        assert gap(x.grad, times * once) < 1e-14
    x.zero_grad()
    assert x.grad is None
    loss(x, W).backward()
    assert gap(x.grad, once) < 1e-14


@pytest.mark.parametrize(
    "data, dtype, kind",
    [
        (1.5, None, ((), "float64")),
        ([1.0, 2.0], None, ((2,), "float64")),
        ([1, 2], "float32", ((2,), "float32")),
        (np.ones((2, 3), np.float32), None, ((2, 3), "float32")),
        (np.zeros((0, 2)), None, ((0, 2), "float64")),
        (np.ones(3), "bfloat16", ((3,), "bfloat16")),
    ],
    ids=str,
)
def test_what_a_leaf_is_made_of(data, dtype, kind):
    x = pb.tensor(data, dtype)
    assert (x.shape, x.dtype) == kind and x.ndim == len(x.shape) and x.size == np.prod(x.shape)
    ops.sum(x * 3.0).backward()
    assert (x.grad.shape, x.grad.dtype) == kind and bool((x.grad == 3).all())


@pytest.mark.parametrize("data", [3, [1, 2], True, np.arange(3), 1j], ids=str)
def test_a_leaf_of_integers_is_refused(data):
    with pytest.raises(OperandError, match="a leaf of (int64|bool|complex128) cannot have a gradient; pass dtype='float32'"):
        pb.tensor(data)
    with pytest.raises(OperandError, match="a leaf of int32"):
        pb.tensor(2.5, "int32")


def test_a_tracked_value_is_no_leaf(gap):
    x = pb.tensor(X)
    with pytest.raises(GraphError, match=r"pb\.tensor of a tracked value.*pb\.tensor\(x\.detach\(\)\)"):
        pb.tensor(x * 2.0)
    with pytest.raises(GraphError, match="of a tracked value"):
        pb.grad(lambda w: ops.sum(pb.tensor(w)))(W)
    for _ in range(3):  # a step of descent, as people write it
        loss(x, W).backward()
        x = pb.tensor(x.detach() - 0.1 * x.grad)
    theirs = X
    for _ in range(3):
        theirs = theirs - 0.1 * jax.grad(jax_loss)(theirs, W)
    assert gap(x.detach(), theirs) < 1e-14


# backward


def test_a_seed(gap):
    x, y_bar = pb.tensor(X), np.asarray([0.25, -3.0, 1.5])
    for seed in (y_bar, jnp.asarray(y_bar), y_bar.tolist(), y_bar.astype("float32")):
        x.zero_grad()
        ops.exp(x).backward(seed)
        assert gap(x.grad, np.exp(X) * y_bar) < 1e-15
    x.zero_grad()
    ops.sum(x).backward(2.5)
    assert gap(x.grad, np.full(3, 2.5)) == 0


@pytest.mark.parametrize(
    "seed, text",
    [
        (None, r"without a seed needs a scalar; this value has shape \(3,\): sum it, or pass seed="),
        (np.ones(2), r"the seed has shape \(2,\); the value has shape \(3,\)"),
        (1.0, r"the seed has shape \(\); the value has shape \(3,\)"),
        (np.arange(3), "the seed is int64; a cotangent is a float array"),
        (np.ones(3) * 1j, "the seed is complex128"),
    ],
    ids=str,
)
def test_a_wrong_seed(seed, text):
    x = pb.tensor(X)
    with pytest.raises(GraphError, match=text):
        (x * 2.0).backward(seed)
    assert x.grad is None


def test_a_second_backward_needs_retain(gap):
    x = pb.tensor(X)
    y = loss(x, W)
    y.backward(retain=True)
    once = x.grad
    y.backward()
    assert gap(x.grad, 2 * once) < 1e-15
    with pytest.raises(GraphError, match=r"a second backward\(\) through 'sum'.*backward\(retain=True\)"):
        y.backward()
    assert gap(x.grad, 2 * once) < 1e-15


@pytest.mark.parametrize("middle", [ops.exp, gelu], ids=["kept", "recomputed"])
def test_two_values_on_one_graph(middle):
    """The first backward frees what they share, and the text names it. gelu's output is no residual: it is had again."""
    x = pb.tensor(X)
    h = middle(x)
    first, second = ops.sum(h * h), ops.sum(h * W * h)
    first.backward()
    with pytest.raises(GraphError, match=r"a second backward\(\) through '(mul|exp|gelu)'"):
        second.backward()
    x.zero_grad()
    h = middle(x)
    first, second = ops.sum(h * h), ops.sum(h * W * h)
    first.backward(retain=True)
    second.backward()
    np.testing.assert_allclose(x.grad, pb.grad(lambda x: ops.sum(middle(x) ** 2 * (1.0 + W)))(X), rtol=1e-14)


def test_intermediate_values_keep_theirs_on_request(gap):
    x = pb.tensor(X)
    h = ops.exp(x)
    assert h.retain_grad() is h
    k = h * 3.0
    y = ops.sum(k)
    y.retain_grad()
    y.backward()
    assert gap((x.grad, h.grad, y.grad), (3 * np.exp(X), np.full(3, 3.0), np.asarray(1.0))) < 1e-15
    assert k.grad is None


def test_leaves_that_are_not_reached(gap):
    x, other = pb.tensor(X), pb.tensor(W)
    ops.sum(x * ops.stop_gradient(other)).backward()
    assert gap(x.grad, W) == 0 and other.grad is None
    x = pb.tensor(2.0)
    x.backward()
    assert float(x.grad) == 1.0


def test_a_value_whose_leaves_are_gone():
    """`x = x * 2` leaves nobody to look at the gradient."""
    x = pb.tensor(X)
    x = x * 2.0
    with pytest.raises(GraphError, match=r"reached no leaf: this value does not depend on any pb\.tensor that is still there"):
        ops.sum(x).backward()
    h = (pb.tensor(X) * 2.0).retain_grad()
    ops.sum(h).backward()
    assert h.grad is not None


def test_backward_is_refused_inside_traces_and_transforms():
    x = pb.tensor(X)
    y = ops.sum(x * x)
    inside = r"backward\(\) inside a compiled or mapped function.*use pb\.grad or pb\.value_and_grad"
    for transform in (pb.compile, jax.jit):
        with pytest.raises(GraphError, match=inside):
            transform(lambda a: ops.sum(x * a).backward())(jnp.asarray(W))
        with pytest.raises(GraphError, match=inside):  # made outside, but walked inside
            transform(lambda a: y.backward())(jnp.asarray(W))
    with pytest.raises(GraphError, match=inside):
        jax.vmap(lambda a: ops.sum(x * a).backward())(jnp.ones((2, 3)))
    with pytest.raises(GraphError, match=r"backward\(\) on a value that vjp or grad watches; it is for values made with pb\.tensor"):
        pb.grad(lambda w: (ops.sum(x * w).backward(), ops.sum(w))[1])(W)
    assert x.grad is None
    with pytest.raises(GraphError, match="closed over a tracked value and returned it"):
        pb.compile(lambda a: x * a)(jnp.asarray(W))


def test_functional_transforms_at_a_leaf(gap):
    """grad inside, backward outside: the result is tracked and goes on."""
    for f, g in (
        (lambda x: ops.sum(pb.grad(loss)(x, W) ** 2), lambda x: jnp.sum(jax.grad(jax_loss)(x, W) ** 2)),
        (lambda x: ops.sum(pb.hvp(lambda x: loss(x, W), (x,), (W,))), lambda x: jnp.sum(jax.hessian(jax_loss)(x, W) @ W)),
        (lambda x: ops.sum(pb.jacobian(gelu)(x)), lambda x: jnp.sum(jax.jacrev(lambda x: jax.nn.gelu(x, approximate=True))(x))),
        (lambda x: pb.compile(loss)(x, W), lambda x: jax_loss(x, W)),
    ):
        x = pb.tensor(X)
        f(x).backward()
        assert gap(x.grad, jax.grad(g)(X)) < 1e-13


# Looks


def test_reprs():
    x = pb.tensor(X)
    assert repr(x) == "Tensor([ 0.5  -1.25  2.  ], float64[3], leaf)"
    assert repr(pb.tensor(1.0)) == "Tensor(1.0, float64[], leaf)"
    assert repr(pb.tensor(np.ones((20, 10)))) == "Tensor(..., float64[20,10], leaf)"
    with pb.scope("head"):
        assert repr(x[:1] * 2.0) == "Tensor([1.], float64[1], from 'head/mul')"
    assert repr(pb.tap(x, name="here")).endswith("from 'here')")
    seen = []
    pb.compile(lambda a: (seen.append(repr(pb.grad(lambda a: (seen.append(repr(a * a)), ops.sum(a))[1])(a))), a)[1])(jnp.asarray(X))
    assert seen[0].startswith("Tensor(float64[3], from 'mul', level ") and seen[0].endswith(", traced)")
    assert str(x) == repr(x) and f"{x}" == repr(x)


def test_draw():
    x, w = pb.tensor(X), pb.tensor(W)
    with pb.scope("head"), pb.rules({"gelu": "straight_through"}):
        h = gelu(x)
        y = ops.sum(h * w + h)
    assert pb.draw(y) == (
        "#0 head/sum -> float64[]\n"
        "  #1 head/add -> float64[3]\n"
        "    #2 head/mul -> float64[3]\n"
        "      #3 head/gelu -> float64[3] rule=straight_through\n"
        "        #4 leaf -> float64[3]\n"
        "      #5 leaf -> float64[3]\n"
        "    #3 head/gelu (above)"
    )
    with pytest.raises(GraphError, match="draw of a ndarray: only a tracked value has a graph"):
        pb.draw(X)  # type: ignore[arg-type]


def test_draw_of_a_deep_graph_does_not_recurse():
    y = pb.tensor(1.0)
    for _ in range(3000):
        y = ops.neg(y)
    assert len(pb.draw(y).splitlines()) == 3001
