"""What is recorded: what it keeps, how long it lives, and the levels."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.autograd.graph import EXPLORING, LIVE, WATCHERS, leaf
from pullback.autograd.walk import reached
from pullback.lib.errors import GraphError, OperandError

pytestmark = pytest.mark.usefixtures("x64", "registry")


@pytest.fixture
def cube():
    """y = x³: a fused op in six."""

    @pb.fused(saves=("x",))
    def cube(x):
        return x**3

    @cube.rule
    def cube_backward(res, y_bar):
        return (3 * res.x**2 * y_bar,)

    @cube.composite
    def cube_composite(x):
        return ops.mul(x, ops.mul(x, x))

    return cube


def array(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def alive(references) -> int:
    return sum(reference() is not None for reference in references)


def kept_by(*outputs) -> list:
    """Weak references to the nodes behind some outputs, leaves apart, and to the arrays in their residuals."""
    nodes = [node for node in reached(outputs, -1) if node.op is not None]
    arrays = [x for node in nodes for x in jax.tree.leaves(node.residuals) if isinstance(x, jax.Array)]
    return [weakref.ref(x) for x in [*nodes, *arrays]]


@pytest.mark.parametrize("wrap", [lambda f: f, pb.checkpoint], ids=["plain", "checkpoint"])
def test_a_graph_dies_with_its_output(wrap, cube):
    gc.collect()
    gc.disable()
    try:
        x = ops.tanh(pb.tensor(array(4)))
        y = ops.sum(wrap(lambda x: ops.exp(cube(x + 1.0)))(x + 1.0))
        references = kept_by(y)
        assert alive(references) == len(references) > 3
        del y
        kept = kept_by(x)
        assert alive(references) == len(kept) == 2  # tanh and its output
    finally:
        gc.enable()


def test_the_graph_of_a_loop_dies_with_its_output():
    gc.collect()
    gc.disable()
    try:
        x = pb.tensor(array(4))
        carry, ys = pb.scan(lambda c, w: (ops.tanh(c * w), c), x, array(3, 4, seed=1))
        references = kept_by(carry, ys)
        assert len(references) > 3
        del carry, ys
        assert all(reference() is None or reference() is x.value for reference in references)
    finally:
        gc.enable()


def test_a_pullback_holds_the_graph_and_nothing_else_does(cube):
    gc.collect()
    gc.disable()
    try:
        references = []

        def f(x):
            y = ops.sum(ops.exp(cube(x)))
            references.extend(kept_by(y))
            return y

        _, pullback = pb.vjp(f, array(4))
        assert alive(references) == len(references)
        pullback(jnp.float64(1.0))
        assert alive(references) == len(references)  # it may be called again
        del pullback
        assert alive(references) == 0
    finally:
        gc.enable()


def test_only_what_is_saved_is_kept():
    """exp saves its output, tanh's operand is then free to go."""
    references = []

    def f(x):
        h = ops.add(x, 1.0)
        references.append(weakref.ref(h.value))
        return ops.sum(ops.exp(h))

    _, pullback = pb.vjp(f, array(4))
    assert references[0]() is None
    assert pullback(jnp.float64(1.0))[0].shape == (4,)


def test_a_bad_call_is_explained_for_tracked_operands_as_for_plain_ones():
    x = leaf(array(3), EXPLORING)
    for operand in (x, x.value):
        with pytest.raises(OperandError, match=r"shapes \(3,\), \(4,\) do not broadcast"):
            ops.add(operand, array(4))
        with pytest.raises(OperandError, match="no static 'axes'; did you mean 'axis'"):
            ops.sum(operand, axes=0)
        with pytest.raises(OperandError, match="statics such as axis go by keyword"):
            ops.sum(operand, 0)
        with pytest.raises(OperandError, match="operand 1 is a list"):
            ops.add(operand, [1.0, 2.0, 3.0])


def test_a_value_that_escaped_is_refused_with_what_to_do():
    escaped = []

    def f(x):
        escaped.append(ops.tanh(x))
        return ops.sum(x)

    pb.grad(f)(array(3))
    remedy = r"met a tracked value whose function has returned.*has_aux=True.*stop_gradient"
    with pb.scope("head"), pytest.raises(GraphError, match=r"mul \(head\) " + remedy):
        ops.mul(escaped[0], 2.0)
    with pytest.raises(GraphError, match=remedy):
        pb.grad(lambda x: ops.sum(ops.mul(x, escaped[0])))(array(3))
    with pytest.raises(GraphError, match=remedy):  # no op is called on it: it is only handed out again
        pb.vjp(lambda x: escaped[0], array(3))
    with pytest.raises(GraphError, match=remedy):
        pb.grad(lambda x: (ops.sum(x), {"h": escaped[0]}), has_aux=True)(array(3))
    with pytest.raises(GraphError, match=remedy):
        pb.checkpoint(ops.exp)(escaped[0])
    assert ops.stop_gradient(escaped[0]).shape == (3,)


def test_an_exception_leaves_no_level_open():
    before = LIVE.get(), WATCHERS.get()

    def f(x):
        raise ZeroDivisionError

    for transform in (pb.grad(f), pb.jacobian(f), lambda x: pb.jvp(f, (x,), (x,)), pb.grad(pb.checkpoint(f))):
        with pytest.raises(ZeroDivisionError):
            transform(array(3))
    assert (LIVE.get(), WATCHERS.get()) == before


def test_a_fused_op_keeps_its_operands_only_under_another_level(cube, unexplored):
    nodes = []

    def f(x):
        y = cube(x)
        nodes.append(y.node)
        return ops.sum(y)

    pb.vjp(f, array(3))
    assert nodes[0].operands is None
    pb.grad(lambda c: pb.vjp(f, array(3))[0] * c)(2.0)
    assert nodes[1].operands is not None
