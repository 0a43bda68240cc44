"""Statistics of cotangents: what the walk sees, the same in eager mode, in a program and in a loop, and never in the way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.lib.errors import OperandError

RNG = np.random.default_rng(0)
W = jnp.asarray(RNG.normal(size=(3, 6, 6)) / 2, "float32")
X = jnp.asarray(RNG.normal(size=(4, 6)), "float32")


def power(bar):
    """The sum of squares: a statistic that shows every element."""
    return jnp.vdot(bar, bar)


def block(h, w):
    with pb.scope("block"):
        return ops.gelu(pb.tap(h @ w, name="before")) + h


def unrolled(weights, x):
    for i in range(3):
        with pb.scope(f"layers.{i}"):
            x = block(x, weights[i])
    with pb.scope("head"):
        return ops.mean(x * x)


def looped(weights, x):
    x, ys = pb.scan(lambda h, w: (block(h, w), ops.sum(h)), x, weights)
    with pb.scope("head"):
        return ops.mean(x * x) + ops.mean(ys)


def checkpointed(weights, x):
    x, _ = pb.scan(lambda h, w: (pb.checkpoint(block)(h, w), None), x, weights)
    with pb.scope("head"):
        return ops.mean(x * x)


def watched(loss, stat=power, where="*"):
    def step(weights, x):
        with pb.collecting(stat, where) as out:
            gradient = pb.grad(loss, argnums=(0, 1))(weights, x)
        return gradient, out

    return step


def equal(ours, theirs, rtol=2e-5):
    assert set(ours) == set(theirs)
    for label, values in theirs.items():
        assert jnp.shape(ours[label]) == jnp.shape(values), label
        np.testing.assert_allclose(ours[label], values, rtol=rtol, atol=1e-9, err_msg=label)


def by_jax():
    """The cotangents of each block's output and of what stands before its gelu, by perturbing them with zeros."""

    def loss(shifts):
        x = X
        for i in range(3):
            u = x @ W[i] + shifts["before"][i]
            x = jax.nn.gelu(u) + x + shifts["out"][i]
        return jnp.mean(x * x)

    zeros = jnp.zeros((3, *X.shape))
    return jax.grad(loss)({"before": zeros, "out": zeros})


@pytest.mark.parametrize("loss", [unrolled, looped, checkpointed])
def test_a_program_collects_what_eager_mode_collects(loss):
    step = watched(loss)
    eager = step(W, X)
    for program in (pb.compile(step), jax.jit(step)):
        compiled = program(W, X)
        for ours, theirs in zip(compiled[0], eager[0]):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
        equal(compiled[1], eager[1])


def test_the_statistics_are_those_of_the_true_cotangents():
    truth = by_jax()
    out = watched(unrolled)(W, X)[1]
    for i in range(3):
        np.testing.assert_allclose(out[f"layers.{i}.block/before"], power(truth["before"][i]), rtol=1e-4)
        np.testing.assert_allclose(out[f"layers.{i}.block/add"], power(truth["out"][i]), rtol=1e-4)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])
def test_a_loop_has_one_row_per_iteration(compiled, reverse):
    def loss(weights, x):
        return ops.mean(ops.pow_constant(pb.scan(lambda h, w: (block(h, w), None), x, weights, reverse=reverse)[0], exponent=2))

    step = watched(loss, where="block/*")
    weights = W[::-1] if reverse else W
    out = (pb.compile(step) if compiled else step)(weights, X)[1]
    truth = by_jax()
    rows = jnp.stack([power(bar) for bar in truth["before"]])
    np.testing.assert_allclose(out["block/before"], rows[::-1] if reverse else rows, rtol=1e-4)
    assert out["block/matmul"].shape == (3,)


def test_what_is_not_reduced_gets_rows_too():
    out = watched(looped, stat=lambda bar: bar, where="*/before")(W, X)[1]
    assert set(out) == {"block/before"} and out["block/before"].shape == (3, 4, 6)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_loop_in_a_loop_has_rows_of_rows(compiled):
    def loss(weights, x):
        def outer(h, i):
            return pb.scan(lambda h, w: (block(h, w), None), h, weights)[0], None

        return ops.mean(pb.scan(outer, x, jnp.arange(2))[0])

    step = watched(loss, where="block/*")
    out = (pb.compile(step) if compiled else step)(W, X)[1]

    def written_out(weights, x):
        for i in range(6):
            with pb.scope(f"at{i}"):
                x = block(x, weights[i % 3])
        return ops.mean(x)

    flat = watched(written_out)(W, X)[1]
    for op in ("before", "gelu", "add", "matmul"):
        rows = jnp.stack([flat[f"at{i}.block/{op}"] for i in range(6)]).reshape(2, 3)
        np.testing.assert_allclose(out[f"block/{op}"], rows, rtol=1e-4, atol=1e-9)


def test_a_label_that_occurs_twice_adds_up():
    def loss(x):
        with pb.scope("mlp"):
            return ops.sum(ops.exp(x) * X) + ops.sum(ops.exp(2.0 * x) * X * X)

    with pb.collecting(power, where="mlp/exp") as out:
        pb.grad(loss)(X)
    np.testing.assert_allclose(out["mlp/exp"], power(X) + power(X * X), rtol=1e-5)


def test_statistics_that_cannot_be_added_are_an_error():
    def loss(x):
        return ops.sum(ops.exp(x) * X) + ops.sum(ops.exp(x[:2]) * X[:2])

    text = r"shapes \(2, 6\) and \(4, 6\) fall on the label 'exp'.*pb.scope or pb.tap"
    with pb.collecting(where="exp"), pytest.raises(OperandError, match=text):
        pb.grad(loss)(X)


def test_where_is_a_glob_on_scope_and_op():
    def labels(where):
        return set(watched(unrolled, where=where)(W, X)[1])

    assert labels("*/gelu") == {f"layers.{i}.block/gelu" for i in range(3)}
    assert labels("layers.[12].*/before") == {"layers.1.block/before", "layers.2.block/before"}
    assert labels("head/*") == {"head/mean", "head/mul"}
    assert labels("nothing/*") == set()


def test_a_tap_is_the_identity_and_reaches_every_order():
    f = lambda x: ops.sum(ops.pow_constant(pb.tap(x, name="here"), exponent=3))
    np.testing.assert_allclose(f(X), jnp.sum(X**3), rtol=1e-5)
    np.testing.assert_allclose(pb.grad(lambda x: ops.sum(pb.grad(f)(x) * X))(X), 6 * X * X, rtol=1e-5)
    with pb.scope("net"), pb.collecting(lambda bar: bar) as out:
        pb.grad(f)(X)
    np.testing.assert_allclose(out["net/here"], 3 * X**2, rtol=1e-5)


def test_backward_of_the_exploring_face_is_collected():
    x = pb.tensor(X)
    with pb.collecting(power) as out:
        ops.sum(ops.exp(x) * X).backward()
    np.testing.assert_allclose(out["exp"], power(X), rtol=1e-6)


def test_collectors_nest_and_the_inner_one_counts():
    with pb.collecting(power) as outer:
        with pb.collecting(power) as inner:
            pb.grad(lambda x: ops.sum(ops.exp(x)))(X)
    assert inner and not outer


@pytest.mark.parametrize("loss", [unrolled, looped, checkpointed])
def test_gradients_are_the_same_to_the_bit(loss):
    plain = pb.grad(loss, argnums=(0, 1))
    for with_statistics, without in ((watched(loss), plain), (pb.compile(watched(loss)), pb.compile(plain))):
        for ours, theirs in zip(with_statistics(W, X)[0], without(W, X)):
            np.testing.assert_array_equal(ours, theirs)


def test_statistics_see_values_at_the_second_order():
    """The first walk of a second derivative is itself recorded; a statistic is given plain arrays all the same."""
    seen = []

    def stat(bar):
        seen.append(type(bar).__name__)
        return power(bar)

    def slope(x):
        with pb.collecting(stat, where="exp"):
            return ops.sum(pb.grad(lambda x: ops.sum(ops.exp(x)))(x) * X)

    np.testing.assert_allclose(pb.grad(slope)(X), jnp.exp(X) * X, rtol=1e-5)
    assert seen and "Tensor" not in seen
