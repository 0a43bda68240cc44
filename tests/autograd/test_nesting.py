"""Derivatives inside derivatives, and inside JAX's transforms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.autograd import graph
from pullback.autograd.scope import setting
from pullback.autograd.walk import COLLECT, EXPANDED
from pullback.lib.errors import RuleOrderError
from pullback.ops.activation import gelu

pytestmark = pytest.mark.usefixtures("x64")


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)  # of NumPy: at import, JAX would make it float32


X, Y, Z = array(3), array(3, seed=1), array(3, seed=2)


def jax_gelu(x):
    return jax.nn.gelu(x, approximate=True)


def test_perturbations_are_not_confused(gap, jit):
    """d/dx of x · d/dy (x·y·tanh y) at y = x²: the inner derivative must not see the outer x as its y."""
    f = lambda ns, grad: lambda x: x * grad(lambda y: x * y * ns.tanh(y))(x * x)
    for order in (1, 2, 3):
        mine, yours = f(ops, pb.grad), f(jnp, jax.grad)
        for _ in range(order):
            mine, yours = pb.grad(mine), jax.grad(yours)
        assert gap(mine(0.7), jit(yours)(0.7)) < 1e-13
    constant = lambda x: pb.grad(lambda y: x)(x)  # d x / dy = 0
    assert float(constant(2.0)) == 0.0 and float(pb.grad(constant)(2.0)) == 0.0


def test_a_pullback_stays_in_its_level():
    """A value of the outer level among the outputs is a constant to the inner one: nothing of its graph is walked."""
    pulled = []

    def outer(a):
        h = ops.exp(a)
        _, pullback = pb.vjp(lambda x: (h, x * 2.0), X)
        with setting(COLLECT, lambda node, y_bars: pulled.append(node.op.name)):
            np.testing.assert_array_equal(pullback((Y, Y))[0], 2 * Y)
        return ops.sum(h)

    pb.grad(outer)(X)
    assert pulled == ["mul"]


def test_third_order(gap, jit):
    c = jnp.float64(0.3)
    f = lambda ns, gelu: lambda x: ns.sum(gelu(x) * ns.tanh(x) * c)
    third = lambda ns, grad, f: lambda x: grad(lambda x: ns.sum(grad(lambda x: ns.sum(grad(f)(x) * Y))(x) * Z))(x)
    assert gap(third(ops, pb.grad, f(ops, gelu))(X), jit(third(jnp, jax.grad, f(jnp, jax_gelu)))(X)) < 1e-12


def mixed(ns, grad, gelu):
    """d/dc d/dx of c·gelu(x): at the walk only the cotangent of gelu is tracked, its operand is not."""
    return lambda c: ns.sum(grad(lambda x: ns.sum(c * gelu(x)))(X) * Y)


def penalty(ns, grad, gelu):
    """A gradient penalty: d/dw of |d/dx f(x, w)|², with a fused op first."""
    return lambda w: ns.sum(grad(lambda x: ns.sum(ns.tanh(gelu(x) * w)))(X) ** 2)


def through_jvp(ns, jvp, gelu):
    return lambda w: ns.sum(jvp(lambda x: gelu(x) * w, (X,), (Z,))[1] ** 2)


def test_mixed_partials_through_fused_ops(gap):
    for f in (mixed, penalty):
        expanded = []
        with setting(EXPANDED, expanded):
            ours = pb.grad(f(ops, pb.grad, gelu))(Y)
        assert gap(ours, jax.grad(f(jnp, jax.grad, jax_gelu))(Y)) < 1e-13
        assert expanded == ["gelu"]
    assert gap(pb.grad(through_jvp(ops, pb.jvp, gelu))(Y), jax.grad(through_jvp(jnp, jax.jvp, jax_gelu))(Y)) < 1e-13


def test_mixed_partials_with_a_leaf_of_the_exploring_face(gap):
    """`pb.tensor` watches from outside of every function."""
    c = pb.tensor(Y)
    mixed(ops, pb.grad, gelu)(c).backward()
    assert gap(c.grad, jax.grad(mixed(jnp, jax.grad, jax_gelu))(Y)) < 1e-13


def test_first_order_expands_no_composite():
    expanded = []
    with setting(EXPANDED, expanded):
        pb.grad(lambda x: ops.sum(gelu(x)))(X)
        pb.jacobian(gelu)(X)
        pb.vjp(pb.checkpoint(gelu), X)[1](Y)
    assert expanded == []


def test_a_closed_vjp_cannot_be_differentiated_in_its_seed(monkeypatch):
    monkeypatch.setattr(graph, "explored", False)
    _, pullback = pb.vjp(gelu, X)
    with pytest.raises(RuleOrderError, match="'gelu'.*call vjp inside the function that you differentiate"):
        pb.grad(lambda s: ops.sum(pullback(s * X)[0]))(2.0)
    with pytest.raises(RuleOrderError, match="call vjp inside"):
        pb.jvp(lambda s: pullback(s * X)[0], (2.0,), (1.0,))


def test_a_vjp_used_inside_an_outer_function(gap):
    f = lambda vjp, ns, gelu: lambda x: ns.sum(vjp(lambda z: gelu(z) * x, x)[1](ns.exp(x))[0])
    assert gap(pb.grad(f(pb.vjp, ops, gelu))(X), jax.grad(f(jax.vjp, jnp, jax_gelu))(X)) < 1e-13


def test_jax_transforms_around_ours(gap, jit):
    batch = array(4, 3, seed=3)
    f = lambda ns, gelu: lambda x: ns.sum(gelu(x) * ns.tanh(x))
    mine, yours = f(ops, gelu), f(jnp, jax_gelu)
    assert gap(jax.vmap(pb.grad(mine))(batch), jax.vmap(jax.grad(yours))(batch)) < 1e-14
    assert gap(jit(pb.value_and_grad(mine))(X), jax.value_and_grad(yours)(X)) < 1e-14
    assert gap(jit(jax.vmap(pb.hessian(mine)))(batch), jax.vmap(jax.hessian(yours))(batch)) < 1e-13
    assert gap(jax.vmap(lambda x: pb.jvp(mine, (x,), (Z,))[1])(batch), jax.vmap(lambda x: jax.jvp(yours, (x,), (Z,))[1])(batch)) < 1e-14
