"""Scopes: where am I, in nodes and in the names of XLA's ops."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.autograd.scope import SCOPE

X = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4)), "float32")
W = jnp.asarray(np.random.default_rng(1).normal(size=(4, 4)), "float32")


def names_of(f, *args) -> set[str]:
    """The op names of a compiled program: `jit(f)/scope/.../primitive`."""
    return set(re.findall(r'op_name="([^"]+)"', str(jax.jit(f).lower(*args).compile().as_text())))


def test_scopes_nest_and_end():
    seen = []
    with pb.scope("blocks.0"):
        seen.append(SCOPE.get())
        with pb.scope("mlp"), pb.scope("fc"):
            seen.append(SCOPE.get())
        seen.append(SCOPE.get())
    assert seen == ["blocks.0", "blocks.0.mlp.fc", "blocks.0"] and SCOPE.get() == ""


def test_a_scope_ends_with_an_error():
    with pytest.raises(ZeroDivisionError), pb.scope("a"):
        raise ZeroDivisionError
    assert SCOPE.get() == ""


def test_nodes_carry_their_scope():
    x = pb.tensor(X)
    with pb.scope("blocks.0"):
        y = ops.exp(x)
    z = ops.tanh(y)
    assert y.node.label == "blocks.0/exp" and z.node.label == "tanh"
    assert "blocks.0/exp" in pb.draw(z)


def test_the_walk_works_in_the_scope_of_the_node():
    """Seen by a rule that is recorded, at the second order."""
    seen = []

    def loss(x):
        with pb.scope("head"):
            y = ops.exp(x)
        return ops.sum(y)

    def slope(x):
        gradient = pb.grad(loss)(x)
        seen.append(gradient.node.label)
        return ops.sum(gradient)

    with pb.scope("outer"):
        pb.grad(slope)(X)
        assert SCOPE.get() == "outer"
    assert seen == ["outer.head/backward/mul"]


@pytest.mark.parametrize("loop", [False, True], ids=["written out", "scan"])
def test_names_in_xla_carry_the_scope_in_both_directions(loop):
    def block(h, w):
        with pb.scope("blocks"), pb.scope("mlp"):
            return ops.gelu(h @ w)

    def loss(w, x):
        if loop:
            x, _ = pb.scan(lambda h, w: (block(h, w), None), x, jnp.stack([w, w]) if not isinstance(w, pb.Tensor) else ops.stack([w, w]))
        else:
            x = block(block(x, w), w)
        with pb.scope("head"):
            return ops.mean(x * x)

    names = names_of(pb.grad(loss), W, X)
    forward = {name for name in names if "blocks/mlp" in name and "backward" not in name}
    backward = {name for name in names if "blocks.mlp/backward" in name}
    assert any("dot_general" in name for name in forward), names
    assert any("dot_general" in name for name in backward), names
    assert any("head" in name and "backward" in name for name in names)
    work = {name for name in names if "dot_general" in name or "tanh" in name}
    assert work and all("blocks" in name or "head" in name for name in work)


def test_sums_of_cotangents_are_in_the_scope_of_what_they_reach():
    """Of a value that is used twice, in the scope in which it was made."""

    def loss(x):
        with pb.scope("body"):
            y = ops.exp(x)
        return ops.sum(ops.mul(ops.sin(y), ops.cos(y)))

    sums = {name for name in names_of(pb.grad(loss), X) if name.endswith("jit(add)/add")}
    assert sums and all("body/backward" in name for name in sums), sums


def test_eager_scopes_leave_no_name_behind():
    with pb.scope("a"):
        pb.grad(lambda x: ops.sum(ops.exp(x)))(X)
    assert not any(name.startswith("a/") or "/a/" in name for name in names_of(lambda x: jnp.exp(x), X))
