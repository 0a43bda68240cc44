"""Activations as modules: each is the op of its name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import nn, ops

X = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4)), jnp.float32)

PAIRS = [
    (nn.Relu(), ops.relu),
    (nn.LeakyRelu(0.2), lambda x: ops.leaky_relu(x, negative_slope=0.2)),
    (nn.Elu(0.7), lambda x: ops.elu(x, alpha=0.7)),
    (nn.Gelu(), ops.gelu),
    (nn.GeluErf(), ops.gelu_erf),
    (nn.Silu(), ops.silu),
    (nn.Mish(), ops.mish),
    (nn.Tanh(), ops.tanh),
    (nn.Sigmoid(), ops.sigmoid),
    (nn.Softplus(), ops.softplus),
    (nn.Softmax(0), lambda x: ops.softmax(x, axis=0)),
]


@pytest.mark.parametrize("module, op", PAIRS, ids=lambda x: type(x).__name__)
def test_it_is_the_op(module, op):
    np.testing.assert_array_equal(module(X), op(X))
    assert nn.named_parameters(module) == {} and jax.tree.leaves(module) == []


def test_they_equal_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed: activations are not compared with its own")
    named = {"Relu": "ReLU", "LeakyRelu": "LeakyReLU", "Elu": "ELU", "GeluErf": "GELU", "Silu": "SiLU"}
    for name in ("Relu", "LeakyRelu", "Elu", "GeluErf", "Silu", "Mish", "Tanh", "Sigmoid", "Softplus"):
        theirs = getattr(torch.nn, named.get(name, name))()
        np.testing.assert_allclose(getattr(nn, name)()(X), theirs(torch.tensor(np.array(X))).numpy(), rtol=1e-5, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(nn.Gelu()(X), torch.nn.GELU(approximate="tanh")(torch.tensor(np.array(X))).numpy(), rtol=1e-5, atol=1e-6)


def test_settings_are_compiled_in():
    assert jax.tree.structure(nn.Elu(0.5)) != jax.tree.structure(nn.Elu(0.6))
    assert jax.tree.structure(nn.Elu(0.5)) == jax.tree.structure(nn.Elu(0.5))
