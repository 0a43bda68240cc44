"""Layers one after the other: names, scopes, training, gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import nn, ops

KEYS = [jax.random.key(i) for i in range(3)]
X = jnp.asarray(np.random.default_rng(0).normal(size=(5, 3)), jnp.float32)


def model() -> nn.Sequential:
    layers = (nn.Linear.init(KEYS[0], 3, 4), nn.Gelu(), ops.tanh, nn.Dropout(0.5), nn.Linear.init(KEYS[1], 4, 2))
    return nn.Sequential(layers)


def test_it_is_one_layer_after_the_other():
    m = model()
    wanted = m[4](ops.tanh(ops.gelu(m[0](X))))  # type: ignore[operator]
    np.testing.assert_array_equal(m(X), wanted)
    np.testing.assert_allclose(jax.jit(lambda m, x: m(x))(m, X), wanted, rtol=1e-6)
    assert nn.Sequential(())(X) is X


def test_names_are_positions():
    m = model()
    assert list(nn.named_parameters(m)) == ["layers.0.weight", "layers.0.bias", "layers.4.weight", "layers.4.bias"]
    new = {name: p + 1 for name, p in nn.named_parameters(m).items()}
    np.testing.assert_array_equal(nn.named_parameters(nn.with_parameters(m, new))["layers.4.bias"], np.ones(2))
    assert len(m) == 5 and [type(layer).__name__ for layer in m] == ["Linear", "Gelu", "Function", "Dropout", "Linear"]
    tail = m[3:]
    assert isinstance(tail, nn.Sequential) and len(tail) == 2 and m[-1] is m.layers[4] and tail[1] is m[4]
    with pytest.raises(IndexError):
        m[5]


def test_training_is_passed_on_to_the_layers_that_ask():
    m = model()
    with pb.keys(7, 2):
        y = m(X, train=True)
    hidden = ops.tanh(ops.gelu(m[0](X)))  # type: ignore[operator]
    with pb.keys(7, 2), pb.scope("layers.3"):
        dropped = nn.Dropout(0.5)(hidden, train=True)
    np.testing.assert_allclose(y, m[4](dropped), rtol=1e-6)  # type: ignore[operator]
    assert not np.array_equal(y, m(X))
    nested = nn.Sequential((nn.Sequential((nn.Dropout(0.5),)), nn.Relu()))
    with pb.keys(7, 2):
        assert not np.array_equal(nested(X, train=True), nn.Relu()(X))


def test_gradients_go_by_name():
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda p: p.astype(jnp.float64), model())
        verdict = pb.check(lambda m, x: m(x), wide, X.astype(jnp.float64))
    assert verdict.ok, verdict
    gradient = pb.grad(lambda m: ops.sum(ops.square(m(X))))(model())
    assert list(gradient) == ["layers.0.weight", "layers.0.bias", "layers.4.weight", "layers.4.bias"]
    with pb.rules({"layers.1/gelu": "straight_through"}):  # a rule by its place
        other = pb.grad(lambda m: ops.sum(ops.square(m(X))))(model())
    assert not np.allclose(other["layers.0.weight"], gradient["layers.0.weight"])


@pytest.mark.parametrize(
    "layers, text",
    [
        (nn.Relu(), r"takes a tuple of layers, not a Relu: nn.Sequential\(\(first, second\)\)"),
        ((nn.Relu(), 3), "Sequential.layers.1 is 3; expected a module or a function of one argument"),
    ],
)
def test_what_is_no_layer(layers, text):
    with pytest.raises(pb.PullbackError, match=text):
        nn.Sequential(layers)
    with pytest.raises(pb.PullbackError, match="Sequential is made from values for layers"):
        nn.Sequential(nn.Relu(), nn.Relu())  # type: ignore[call-arg]
