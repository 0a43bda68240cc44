"""scan: the gradients of jax.lax.scan to any order, the same in a Python loop and in a compiled one, with only the carries kept."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.lib.errors import OperandError
from pullback.ops.activation import gelu

pytestmark = pytest.mark.usefixtures("x64")


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)  # of NumPy: at import, JAX would make it float32


W, U, X, XS, V = array(3, 3) / 2, array(2, 3, seed=1), array(2, 3, seed=2), array(4, 2, 2, seed=3), array(3, 3, seed=4)
IDS = np.asarray([2, 0, 1, 2], np.int32)
EACH = array(4, 1, 1, seed=5)  # weighs the iterations apart
PARAMETERS = {"w": W, "u": U, "x": X, "xs": XS}


def jax_gelu(x):
    return jax.nn.gelu(x, approximate=True)


def recurrent(ns, gelu, scan, **options):
    """Floats and integers in the carry and in xs, weights from outside, outputs of which one is not used."""

    def loss(p):
        def body(carry, row):
            h, i = carry
            x, k = row["x"], row["ids"]
            h = ns.tanh(ns.matmul(h, p["w"]) + ns.matmul(x, p["u"]) * (1.0 + i)) + p["w"][k]
            return (h, i + k), {"y": gelu(h), "i": i, "unused": h * h}

        (h, i), ys = scan(body, (p["x"], jnp.int32(1)), {"x": p["xs"], "ids": jnp.asarray(IDS)}, **options)
        return ns.sum(h * h * i) + ns.sum(ys["y"] * ys["y"] * ys["i"][:, None, None] * EACH)

    return loss


def weighed(ns, grad, f, order: int):
    """The gradient of order n in a tree of parameters: each one is weighed and differentiated again."""
    along = lambda g, p: functools.reduce(lambda a, b: a + b, [ns.sum(g(p)[k] * v * (1.0 + v)) for k, v in PARAMETERS.items()])
    for _ in range(order - 1):
        f = functools.partial(along, grad(f))
    return grad(f)


@pytest.mark.parametrize("order", [1, 2])
def test_gradients_compiled(order, gap, jit):
    theirs = jit(weighed(jnp, jax.grad, recurrent(jnp, jax_gelu, jax.lax.scan), order))(PARAMETERS)
    assert gap(jit(weighed(ops, pb.grad, recurrent(ops, gelu, pb.scan), order))(PARAMETERS), theirs) < 1e-12


@pytest.mark.parametrize("order", [1, 2])
def test_the_python_loop_equals_the_compiled_one(order, gap, jit):
    f = weighed(ops, pb.grad, recurrent(ops, gelu, pb.scan), order)
    assert gap(f(PARAMETERS), jit(f)(PARAMETERS)) < 1e-13


@pytest.mark.parametrize("options", [{"reverse": True}, {"length": 4}, {"reverse": True, "length": 4}], ids=str)
def test_options(options, gap, jit):
    f = lambda ns, gelu, scan: recurrent(ns, gelu, scan, **options)
    theirs = jit(jax.value_and_grad(f(jnp, jax_gelu, jax.lax.scan)))(PARAMETERS)
    ours = pb.value_and_grad(f(ops, gelu, pb.scan))
    assert gap(ours(PARAMETERS), theirs) < 1e-13
    assert gap(jit(ours)(PARAMETERS), theirs) < 1e-13


def only_a_weight(ns, scan):
    """Nothing but what the body closes over is tracked."""

    def loss(w):
        h, ys = scan(lambda h, _: (ns.tanh(ns.matmul(h, w)), h), jnp.asarray(X), None, length=3)
        return ns.sum(h * h) + ns.sum(ys * ys * ys)

    return loss


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("order", [1, 2])
def test_length_alone(n, order, gap, jit):
    def f(ns, scan):
        def loss(w):
            h, ys = scan(lambda h, _: (ns.tanh(ns.matmul(h, w)), h), ns.matmul(X, w), None, length=n)
            return ns.sum(h * h) + ns.sum(ys * ys * ys)

        return loss

    def derivative(ns, grad, f):
        return grad(f) if order == 1 else grad(lambda w: ns.sum(grad(f)(w) * V))

    theirs = jit(derivative(jnp, jax.grad, f(jnp, jax.lax.scan)))(W)
    ours = derivative(ops, pb.grad, f(ops, pb.scan))
    assert gap(ours(W), theirs) < 1e-13
    assert gap(jit(ours)(W), theirs) < 1e-13


def test_third_order(gap, jit):
    def third(ns, grad, scan):
        f = only_a_weight(ns, scan)
        return grad(lambda w: ns.sum(grad(lambda w: ns.sum(grad(f)(w) * V))(w) * W))

    assert gap(jit(third(ops, pb.grad, pb.scan))(W), jit(third(jnp, jax.grad, jax.lax.scan))(W)) < 1e-12


def test_only_a_closed_over_weight_is_tracked(gap, jit):
    mixed = lambda ns, grad, scan: lambda w: ns.sum(grad(only_a_weight(ns, scan))(w) * V)
    theirs = jit(lambda w: (jax.grad(only_a_weight(jnp, jax.lax.scan))(w), jax.grad(mixed(jnp, jax.grad, jax.lax.scan))(w)))(W)
    ours = lambda w: (pb.grad(only_a_weight(ops, pb.scan))(w), pb.grad(mixed(ops, pb.grad, pb.scan))(w))
    assert gap(jit(ours)(W), theirs) < 1e-13
    assert gap(ours(W), theirs) < 1e-13


def test_the_carry_and_the_weight_at_different_levels(gap, jit):
    """d/dw of |d/dx|² and d/dx of |d/dw|²: the inner level is once that of the carry, once that of what is closed over."""

    def f(ns, grad, scan):
        def loss(x, w):
            h, ys = scan(lambda h, _: (ns.tanh(ns.matmul(h, w)), h * h), x, None, length=3)
            return ns.sum(h * h) + ns.sum(ys * ys)

        weight = lambda w: ns.sum(grad(lambda x: loss(x, w))(X) ** 2)
        start = lambda x: ns.sum(grad(lambda w: loss(x, w))(W) ** 2)
        return lambda x, w: (grad(weight)(w), grad(start)(x))

    theirs = jit(f(jnp, jax.grad, jax.lax.scan))(X, W)
    assert gap(jit(f(ops, pb.grad, pb.scan))(X, W), theirs) < 1e-12
    assert gap(f(ops, pb.grad, pb.scan)(X, W), theirs) < 1e-12


def test_a_derivative_in_the_seed_of_a_closed_vjp(gap, jit):
    """The body runs again inside a level that was not open when it was recorded."""

    def f(ns, vjp, grad, scan):
        def derivative(w):
            _, pullback = vjp(only_a_weight(ns, scan), w)
            return grad(lambda s: ns.sum(pullback(s * s)[0] * V))(w[0, 0])

        return derivative

    theirs = jit(f(jnp, jax.vjp, jax.grad, jax.lax.scan))(W)
    assert gap(jit(f(ops, pb.vjp, pb.grad, pb.scan))(W), theirs) < 1e-13
    assert gap(f(ops, pb.vjp, pb.grad, pb.scan)(W), theirs) < 1e-13


def scan_in_scan(ns, scan, checkpoint):
    def loss(w):
        def outer(h, x):
            h, _ = scan(lambda h, x: (ns.tanh(ns.matmul(h, w) + x), None), h, x)
            return h, ns.sum(h * w[0])

        h, ys = scan(outer, jnp.asarray(X), jnp.asarray(array(2, 3, 2, 3, seed=6)))
        return ns.sum(h * h) + ns.sum(ys * ys)

    return loss


def checkpoint_in_scan(ns, scan, checkpoint):
    def loss(w):
        block = checkpoint(lambda h, x: ns.tanh(ns.matmul(h, w) + x))
        h, ys = scan(lambda h, x: (block(block(h, x), x), h), jnp.asarray(X), jnp.asarray(array(3, 2, 3, seed=6)))
        return ns.sum(h * h) + ns.sum(ys * ys * ys)

    return loss


def scan_in_checkpoint(ns, scan, checkpoint):
    def loss(w):
        def whole(h, xs):
            h, ys = scan(lambda h, x: (ns.tanh(ns.matmul(h, w) + x), h * w[0]), h, xs)
            return ns.sum(h * h) + ns.sum(ys * ys * ys)

        return checkpoint(whole)(jnp.asarray(X), jnp.asarray(array(3, 2, 3, seed=6)))

    return loss


def vjp_in_scan(ns, scan, checkpoint):
    """A derivative inside the body: two levels meet in one iteration."""

    def loss(w):
        grad = pb.grad if ns is ops else jax.grad
        energy = lambda h, x: ns.sum(ns.tanh(ns.matmul(h, w) * x))
        h, _ = scan(lambda h, x: (h - 0.1 * grad(energy)(h, x), None), jnp.asarray(X), jnp.asarray(array(3, 2, 3, seed=6)))
        return ns.sum(h * h * h)

    return loss


@pytest.mark.parametrize("nest", [scan_in_scan, checkpoint_in_scan, scan_in_checkpoint, vjp_in_scan])
def test_nests(nest, gap, jit):
    both = lambda ns, grad, f: lambda w: (grad(f)(w), grad(lambda w: ns.sum(grad(f)(w) * V))(w))
    theirs = jit(both(jnp, jax.grad, nest(jnp, jax.lax.scan, lambda f: f)))(W)
    assert gap(jit(both(ops, pb.grad, nest(ops, pb.scan, pb.checkpoint)))(W), theirs) < 1e-12
    assert gap(pb.grad(nest(ops, pb.scan, pb.checkpoint))(W), theirs[0]) < 1e-13


def test_the_other_transforms_go_through(gap, jit):
    ours, theirs = only_a_weight(ops, pb.scan), only_a_weight(jnp, jax.lax.scan)
    wanted = jit(lambda w: (jax.jvp(theirs, (w,), (V,)), jax.jvp(jax.grad(theirs), (w,), (V,))[1], jax.jacrev(jax.grad(theirs))(w)))(W)
    mine = jit(lambda w: (pb.jvp(ours, (w,), (V,)), pb.hvp(ours, (w,), (V,)), pb.hessian(ours)(w)))(W)
    assert gap(mine, wanted) < 1e-12
    batch = array(3, 3, 3, seed=7)
    assert gap(jax.vmap(pb.grad(ours))(batch), jax.vmap(jax.grad(theirs))(batch)) < 1e-13


# What a body may do. Every body is one function of x, in all modes.

BODIES = {
    "returns its inputs": lambda ns, x, scan: scan(lambda c, y: (c, y), x, ns.stack([x, x * 2.0])),
    "returns what it closes over": lambda ns, x, scan: scan(lambda c, _: (x, c), x * 2.0, None, length=3),
    "swaps the carry": lambda ns, x, scan: scan(lambda c, _: ((c[1], c[0]), c[0] * x), (x, x * x), None, length=3),
    "ignores the carry": lambda ns, x, scan: scan(lambda c, y: (y * y, c), x, ns.stack([x, x * 2.0])),
    "carries nothing": lambda ns, x, scan: scan(lambda c, y: (None, y * y * x), None, ns.stack([x, x * 2.0])),
    "gives nothing": lambda ns, x, scan: scan(lambda c, y: (c * y, None), x, ns.stack([x, x * 2.0])),
    "forgets to constants": lambda ns, x, scan: scan(lambda c, _: (jnp.ones((2, 3)), c), x, None, length=3),
    "forgets to a number": lambda ns, x, scan: scan(lambda c, y: (1.0, y * c + y), 0.0, ns.stack([x, x * 2.0])),
    "carries a bool": lambda ns, x, scan: scan(lambda c, _: ((c[0] * x, ~c[1]), c[0]), (x, jnp.asarray(True)), None, length=3),
    "gives numbers": lambda ns, x, scan: scan(lambda c, y: (c * y, (1.0, 2, c)), x, ns.stack([x, x * 2.0])),
    "starts from a number": lambda ns, x, scan: scan(lambda c, y: (c * y[0, 0] + y[0, 1], c), 0.0, ns.stack([x, x * 2.0])),
    "starts from an integer": lambda ns, x, scan: scan(lambda c, y: (c * y[0, 0] + y[0, 1], c), 0, ns.stack([x, x * 2.0])),
    "walks NumPy arrays": lambda ns, x, scan: scan(lambda c, r: (c * r[0] + r[1] * x, c), x, (np.arange(3), np.ones((3, 2, 3)))),
    "draws": lambda ns, x, scan: scan(
        lambda c, k: (c * jax.random.normal(k, (2, 3)), c), x, jax.random.split(jax.random.key(0), 3)
    ),
    "has an untracked start": lambda ns, x, scan: scan(lambda c, _: (c * x, c), jnp.ones((2, 3)), None, length=3),
}  # fmt: skip


def judged(ns, result):
    """Σ y³ over the floats that it gave, weighed apart."""
    floats = [y for y in jax.tree.leaves(result) if jnp.issubdtype(y.dtype, jnp.floating)]
    return functools.reduce(lambda a, b: a + b, [ns.sum(y * y * y) * (i + 1.5) for i, y in enumerate(floats)])


@pytest.mark.parametrize("body", BODIES)
def test_bodies(body, gap, jit):
    ours, theirs = (lambda x: judged(ops, BODIES[body](ops, x, pb.scan))), (lambda x: judged(jnp, BODIES[body](jnp, x, jax.lax.scan)))
    wanted = jit(lambda x: (jax.value_and_grad(theirs)(x), jax.grad(lambda x: jnp.sum(jax.grad(theirs)(x) ** 2))(x)))(jnp.asarray(X))
    first, second = pb.value_and_grad(ours), pb.grad(lambda x: ops.sum(pb.grad(ours)(x) ** 2))
    assert gap(jit(lambda x: (first(x), second(x)))(X), wanted) < 1e-12
    assert gap(first(X), wanted[0]) < 1e-13


@pytest.mark.parametrize("n", [0, 3])
def test_values_without_a_derivative(n, gap, jit):
    xs = jnp.asarray(array(n, 2, 3))
    body = lambda ns: lambda c, x: (ns.tanh(c * x), (c, x[0]))
    theirs = jax.lax.scan(body(jnp), jnp.asarray(X), xs)
    assert gap(pb.scan(body(ops), X, xs), theirs) < 1e-15
    assert gap(jit(lambda x, xs: pb.scan(body(ops), x, xs))(X, xs), theirs) < 1e-15


REFUSED = {
    "two lengths": (lambda x: pb.scan(lambda c, _: (c, c), x, (jnp.ones(3), jnp.ones(2))), r"one length; .* say \[2, 3\]"),
    "another length": (lambda x: pb.scan(lambda c, _: (c, c), x, jnp.ones(3), 4), r"one length; .* say \[3, 4\]"),
    "no length": (lambda x: pb.scan(lambda c, _: (c, c), x), r"one length; .* say \[\]"),
    "a scalar in xs": (lambda x: pb.scan(lambda c, _: (c, c), x, x[0, 0]), "which has no leading axis to walk along"),
    "numbers in xs": (lambda x: pb.scan(lambda c, _: (c, c), x, [1.0, 2.0]), "xs holds 1.0, which has no leading axis"),
    "no pair": (lambda x: pb.scan(lambda c, _: c, x, jnp.ones(3)), r"the body gave a .*; expected a pair \(carry, y\)"),
    "another structure": (lambda x: pb.scan(lambda c, _: ((c, c), c), x, jnp.ones(3)), r"carry enters the body with structure .*\(\*\)"),
    "another shape": (lambda x: pb.scan(lambda c, _: (c[0], None), x, jnp.ones(3)), r"float64\[2, 3\] and leaves it as float64\[3\]"),
    "another dtype": (lambda x: pb.scan(lambda c, _: (c * x, None), jnp.ones((2, 3), "float32"), jnp.ones(3)), r"as float32.*as float64"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_refused(what, mode, jit):
    f, text = REFUSED[what]
    g = pb.grad(lambda x: judged(ops, f(x)))
    with pytest.raises(OperandError, match=text):
        (g if mode == "eager" else jit(g))(jnp.asarray(X))


@pytest.mark.parametrize("order, traces", [(0, 2), (1, 5), (2, 11), (3, 23)])
def test_how_often_the_body_is_traced(order, traces):
    """A dry run and the loop forward; per order the loop itself doubles, and one dry run is added."""
    count = 0

    def loss(w):
        def body(h, _):
            nonlocal count
            count += 1
            return ops.tanh(ops.matmul(h, w)), None

        return ops.sum(pb.scan(body, jnp.asarray(X), length=3)[0])

    f = loss
    for _ in range(order):
        f = functools.partial(lambda g, w: ops.sum(g(w) * V), pb.grad(f))
    jax.jit(f).lower(W)
    assert count == traces


def test_the_python_loop_runs_the_body_once_per_iteration_and_pullback():
    count = 0

    def body(c, x):
        nonlocal count
        count += 1
        return c * x, None

    y, pullback = pb.vjp(lambda x: pb.scan(body, x, jnp.ones((5, 2, 3)))[0], X)
    assert count == 5
    pullback(jnp.asarray(X))
    assert count == 10


def test_only_the_carries_are_kept():
    """XLA's temporary memory beside jax.checkpoint inside jax.lax.scan, which keeps the same, and beside a bare jax.lax.scan."""
    x, ws = jnp.ones((512, 64), "float32"), jnp.ones((10, 64, 64), "float32") / 64

    def chain(ns, gelu, scan, wrap):
        def loss(ws):
            block = wrap(lambda h, w: ns.tanh(gelu(ns.matmul(h, w))))
            h, _ = scan(lambda h, w: (block(h, w), None), x, ws)
            return ns.sum(h * h)

        return loss

    temp = lambda program: program.lower(ws).compile().memory_analysis().temp_size_in_bytes
    ours = temp(jax.jit(pb.grad(chain(ops, gelu, pb.scan, lambda f: f))))
    assert ours <= 1.1 * temp(jax.jit(jax.grad(chain(jnp, jax_gelu, jax.lax.scan, jax.checkpoint))))
    assert ours <= temp(jax.jit(jax.grad(chain(jnp, jax_gelu, jax.lax.scan, lambda f: f)))) / 3
    assert pb.compile(pb.grad(chain(ops, gelu, pb.scan, lambda f: f))).plan(ws).temp <= 1.1 * ours
