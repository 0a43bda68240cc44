import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import nn, ops
from pullback.lib.errors import ConfigError, UnknownName
from pullback.models.mlp import ACTIVATIONS, MLP

PLAIN = {"tanh": jnp.tanh, "relu": jax.nn.relu, "gelu": jax.nn.gelu, "silu": jax.nn.silu, "sigmoid": jax.nn.sigmoid}


def plain(params, x, activation):
    """The same in jax.numpy, from parameters by name."""
    last = len(params) // 2 - 1
    for i in range(last + 1):
        x = x @ params[f"layers.{i}.weight"].T + params[f"layers.{i}.bias"]
        x = x if i == last else PLAIN[activation](x)
    return x


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_values_and_gradients_are_those_of_the_formula(activation):
    key = jax.random.key(3)
    model, x = MLP.init(key, (3, 5, 2), activation), jax.random.normal(key, (6, 3))
    params, y_bar = nn.named_parameters(model), jax.random.normal(jax.random.key(4), (6, 2))
    np.testing.assert_allclose(model(x), plain(params, x, activation), rtol=1e-5, atol=1e-6)
    ours = pb.grad(lambda m: ops.sum(ops.mul(m(x), y_bar)))(model)
    theirs = jax.grad(lambda p: jnp.sum(plain(p, x, activation) * y_bar))(params)
    assert ours.keys() == theirs.keys() == {f"layers.{i}.{name}" for i in range(2) for name in ("weight", "bias")}
    for name, expected in theirs.items():
        assert np.linalg.norm(ours[name] - expected) <= 1e-5 * np.linalg.norm(expected), name


def test_two_widths_are_one_layer_without_an_activation():
    model, x = MLP.init(jax.random.key(0), (3, 2)), jnp.full((4, 3), 50.0)
    np.testing.assert_allclose(model(x), x @ model.layers[0].weight.T, rtol=1e-6)


@pytest.mark.parametrize("activation, variance", [("tanh", 1.0), ("sigmoid", 1.0), ("relu", 2.0), ("gelu", 2.0), ("silu", 2.0)])
def test_weights_start_at_the_scale_of_the_activation(activation, variance):
    model = MLP.init(jax.random.key(1), (64, 256, 64), activation)
    for layer in model.layers:
        assert float(jnp.var(layer.weight)) * layer.weight.shape[1] == pytest.approx(variance, rel=0.1)
        assert layer.bias is not None and not layer.bias.any()
    assert float(jnp.abs(model.layers[0].weight[:64] - model.layers[1].weight[:, :64]).max()) > 0.01


@pytest.mark.parametrize("widths", [(), (3,), (3, 0, 2), (-1, 2)])
def test_widths_that_will_not_do(widths):
    with pytest.raises(ConfigError, match="expected at least two"):
        MLP.init(jax.random.key(0), widths)


def test_an_unknown_activation_names_the_nearest():
    with pytest.raises(UnknownName, match="no activation 'rellu'; did you mean 'relu'"):
        MLP.init(jax.random.key(0), (3, 2), "rellu")
