"""The walk, on ops that are defined here: the engine knows no other."""

import gc
import sys
import weakref
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.autograd.graph import EXPLORING, leaf
from pullback.autograd.scope import setting
from pullback.autograd.walk import COLLECT, FREED, reached, walk
from pullback.lib.errors import RuleError, RuleOrderError

pytestmark = pytest.mark.usefixtures("x64", "registry")


@pytest.fixture
def square():
    """y = x²: a primitive in five lines."""

    @pb.primitive(saves=("x",))
    def square(x):
        return x * x

    @square.rule
    def square_backward(res, y_bar):
        return (ops.mul(y_bar, ops.mul(2.0, res.x)),)

    return square


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


def test_the_engine_works_on_ops_that_were_defined_here(square, cube, gap):
    x, c = array(4), array(4, seed=1)
    ours = lambda x: ops.sum(ops.mul(c, square(cube(x))))
    theirs = lambda x: jnp.sum(c * x**6)
    assert gap(pb.grad(ours)(x), jax.grad(theirs)(x)) < 1e-13
    second = lambda grad, f, total: lambda x: total(grad(f)(x))
    assert gap(pb.grad(second(pb.grad, ours, ops.sum))(x), jax.grad(second(jax.grad, theirs, jnp.sum))(x)) < 1e-13


def test_fan_out_adds_up(gap):
    x = array(3)

    def ours(x):
        h = ops.tanh(x)
        return ops.sum(h * h * x + ops.exp(h) - h + x)

    theirs = lambda x: jnp.sum(jnp.tanh(x) ** 2 * x + jnp.exp(jnp.tanh(x)) - jnp.tanh(x) + x)
    assert gap(pb.grad(ours)(x), jax.grad(theirs)(x)) < 1e-14


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (lambda x: ops.mul(x, x), lambda x: x * x),
        (lambda x: ops.sub(x, x) + x, lambda x: x),
        (lambda x: ops.matmul(x, x), lambda x: x @ x),
        (lambda x: ops.concatenate([x, x, x]), lambda x: jnp.concatenate([x, x, x])),
    ],
    ids=["mul", "sub", "matmul", "concatenate"],
)
def test_the_same_operand_twice_gets_both_cotangents(ours, theirs, gap):
    x = array(3, 3)
    (y, pullback), (z, jax_pullback) = pb.vjp(ours, x), jax.vjp(theirs, x)
    y_bar = array(*z.shape, seed=1)
    assert gap(y, z) < 1e-15
    assert gap(pullback(y_bar), jax_pullback(y_bar)) < 1e-14


def test_two_to_the_sixty_paths_are_sixty_nodes():
    pulled = []

    def f(x):
        for _ in range(60):
            x = ops.add(x, x)
        return x

    with setting(COLLECT, lambda node, y_bars: pulled.append(node.order)):
        assert float(pb.grad(f)(1.0)) == 2.0**60
    assert len(pulled) == 60
    assert pulled == sorted(pulled, reverse=True)


def test_each_node_is_pulled_once_in_reverse_birth_order():
    pulled = []

    def f(x):
        a = ops.exp(x)
        b = ops.mul(a, x)
        c = ops.add(ops.tanh(a), ops.mul(b, b))  # a is pulled only after all of its users
        return ops.mul(c, a)

    with setting(COLLECT, lambda node, y_bars: pulled.append((node.order, node.op.name))):
        pb.grad(f)(0.3)
    assert [name for _, name in pulled] == ["mul", "add", "mul", "tanh", "mul", "exp"]
    assert len(set(pulled)) == len(pulled) and pulled == sorted(pulled, reverse=True)


def test_a_chain_of_100_000_nodes():
    """Recorded, walked and freed without recursion."""
    n = 100_000
    assert sys.getrecursionlimit() < n / 10
    gc.collect()
    gc.disable()
    try:
        x = leaf(jnp.float64(1.0), EXPLORING)
        y = x
        for _ in range(n):
            y = ops.neg(y)
        end = walk([y], [jnp.float64(3.0)])
        assert float(end[x.node][0]) == 3.0
        assert len(reached([y], -1)) == n + 1
        middle = y.node
        for _ in range(n // 2):
            middle = middle.parents[0][0]
        middle, last = weakref.ref(middle), weakref.ref(y.node)
        assert middle() is not None
        del y, end
        assert middle() is None and last() is None
    finally:
        gc.enable()


def test_cotangents_are_freed_as_the_walk_goes():
    references, most = [], 0

    def look(node, y_bars):
        nonlocal most
        references.append(weakref.ref(y_bars[0]))
        most = max(most, sum(reference() is not None for reference in references))

    def f(x):
        for _ in range(100):
            x = ops.tanh(x)
        return ops.sum(x)

    _, pullback = pb.vjp(f, array(4))
    with setting(COLLECT, look):
        pullback(jnp.float64(1.0))
    assert len(references) == 101
    assert most <= 4


def test_a_free_walk_drops_the_residuals_on_its_way():
    x = leaf(array(3), EXPLORING)
    y = ops.sum(ops.exp(x))
    (exp_node, _) = y.node.parents[0]
    residual = weakref.ref(exp_node.residuals.out)
    walk([y], [jnp.float64(1.0)], free=True)
    assert residual() is None and exp_node.residuals is FREED and exp_node.parents == ()


# What a rule is given and what it owes


class TopResiduals(NamedTuple):
    where: jax.Array


@pytest.fixture
def top():
    """(largest, where it is, smallest): an integer output between two floats."""
    seen = []

    @pb.fused(saves=("x",), residuals=TopResiduals)
    def top(x):
        where = jnp.argmax(x)
        return (x[where], where, jnp.min(x)), TopResiduals(where)

    @top.rule
    def top_backward(res, y_bar):
        seen.append(y_bar)
        largest, none, smallest = y_bar
        return (jnp.zeros(res.x.shape).at[res.where].add(largest).at[jnp.argmin(res.x)].add(smallest),)

    @top.composite
    def top_composite(x):
        return ops.max(x), jnp.argmax(x.value), ops.min(x)

    return top, seen


def test_an_unreached_output_is_zero_and_an_integer_one_is_none(top):
    op, seen = top
    x = jnp.asarray([0.5, -2.0, 3.0])

    def f(x):
        largest, where, smallest = op(x)
        assert isinstance(where, jax.Array) and where == 2  # not tracked
        assert isinstance(smallest, pb.Tensor)
        return ops.mul(largest, 5.0)

    np.testing.assert_array_equal(pb.grad(f)(x), [0.0, 0.0, 5.0])
    ((largest, where, smallest),) = seen
    assert where is None and largest.shape == smallest.shape == ()


@pytest.fixture
def affine():
    """y = Σ wᵢ·xᵢ + b, with an optional operand and a static that has a default."""

    @pb.primitive(saves=("x", "w"))
    def affine(x, w, b=None, *, scale: float = 2.0):
        y = scale * jnp.sum(x * w)
        return y if b is None else y + b

    @affine.rule
    def affine_backward(res, y_bar, *, scale):
        y_bar_scaled = ops.mul(y_bar, scale)
        return ops.mul(y_bar_scaled, res.w), ops.mul(y_bar_scaled, res.x), None if res.b is None else y_bar

    return affine


def test_optional_operands_and_static_defaults(affine, gap):
    x, w, b = array(3), array(3, seed=1), jnp.float64(0.5)
    theirs = lambda x, w, b=0.0, scale=2.0: scale * jnp.sum(x * w) + b
    assert gap(pb.grad(affine, (0, 1))(x, w), jax.grad(theirs, (0, 1))(x, w)) < 1e-15
    assert gap(pb.grad(affine, (0, 1))(x, w, None), jax.grad(theirs, (0, 1))(x, w)) < 1e-15
    assert gap(pb.grad(lambda *xs: affine(*xs, scale=3.0), (0, 1, 2))(x, w, b), jax.grad(theirs, (0, 1, 2))(x, w, b, 3.0)) < 1e-15
    assert gap(pb.grad(lambda w: affine(x, w))(w), 2 * x) < 1e-15  # only the second is tracked


def broken(rule):
    """An op of two operands with this rule."""

    @pb.primitive()
    def broken(x, y):
        return x + jnp.sum(y)

    broken.rule(rule)
    return broken


BREACHES = {
    "shape": (lambda res, z_bar: (z_bar, z_bar), r"'broken' gave shape \(3,\) for operand 1 of shape \(2,\); did the rule forget sum_to\?"),
    "none": (lambda res, z_bar: (z_bar, None), r"'broken' gave None for operand 1, which can be perturbed; give zeros"),
    "few": (lambda res, z_bar: (z_bar,), r"'broken' gave a tuple of 1; expected a tuple of 2"),
    "bare": (lambda res, z_bar: z_bar, r"'broken' gave a .*; expected a tuple of 2"),
    "list": (lambda res, z_bar: [z_bar, z_bar], r"'broken' gave a list; expected a tuple of 2"),
    "number": (lambda res, z_bar: (z_bar, 0.0), r"'broken' gave a float for operand 1; expected an array of shape \(2,\)"),
}


@pytest.mark.parametrize("breach", BREACHES)
@pytest.mark.parametrize("order", [1, 2])
def test_a_rule_that_breaks_its_contract_is_named(breach, order):
    rule, text = BREACHES[breach]
    op = broken(rule)

    def f(x, y):
        with pb.scope("blocks.2"):
            return ops.sum(op(x, y))

    g = pb.grad(f, (0, 1)) if order == 1 else pb.grad(lambda x, y: ops.sum(ops.mul(*2 * (pb.grad(f, 1)(x, y),))))
    with pytest.raises(RuleError, match=rf"blocks\.2.*{text}"):
        g(array(3), array(2))


def test_what_nobody_wants_is_not_owed():
    """None for an operand that is not tracked at this call is no breach."""
    op = broken(lambda res, z_bar: (z_bar, None))
    np.testing.assert_array_equal(pb.grad(lambda x: ops.sum(op(x, array(2))))(array(3)), np.ones(3))


def test_an_op_without_a_rule_and_a_fused_op_without_a_composite():
    @pb.primitive()
    def bare(x):
        return x

    @pb.fused(saves=("x",))
    def sealed(x):
        return 2 * x

    @sealed.rule
    def sealed_backward(res, y_bar):
        return (2 * y_bar,)

    with pytest.raises(pb.PullbackError, match="'bare' has no rule 'exact'"):
        pb.grad(bare)(1.0)
    assert pb.grad(sealed)(1.0) == 2.0
    with pytest.raises(RuleOrderError, match="'sealed'.*no.* @sealed.composite|'sealed'.*it has none"):
        pb.grad(pb.grad(sealed))(1.0)


def test_a_derivative_in_the_seed_of_a_closed_vjp(cube, square, unexplored, gap):
    """Primitives allow it. A fused op has thrown its operands away by then, and says what to do."""
    x = array(3)
    _, pullback = pb.vjp(square, x)
    assert gap(pb.grad(lambda s: ops.sum(pullback(ops.mul(s, x))[0]))(2.0), jnp.sum(2 * x * x)) < 1e-15
    _, pullback = pb.vjp(cube, x)
    with pytest.raises(
        RuleOrderError, match="'cube'.*was not open when it was recorded; call vjp inside the function that you differentiate"
    ):
        pb.grad(lambda s: ops.sum(pullback(ops.mul(s, x))[0]))(2.0)
    remedied = pb.grad(lambda s: ops.sum(pb.vjp(cube, x)[1](ops.mul(s, x))[0]))(2.0)
    assert gap(remedied, jnp.sum(3 * x**3)) < 1e-14
