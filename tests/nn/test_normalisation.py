"""RMSNorm and GroupNorm against their formulas and torch; LayerNorm is among the layers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import nn

B, P, C = 2, 5, 6


def random(seed: int, *shape: int, dtype=jnp.float64):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def rms(p, x):
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * p["scale"]


def grouped(p, x, groups=3):
    parts = x.reshape(B, P, groups, C // groups)
    mean = parts.mean((1, 3), keepdims=True)
    variance = ((parts - mean) ** 2).mean((1, 3), keepdims=True)
    return ((parts - mean) / jnp.sqrt(variance + 1e-5)).reshape(x.shape) * p["scale"] + p["bias"]


@pytest.mark.parametrize("kind", ["rms", "group"])
def test_values_and_gradients_are_those_of_the_formula(kind):
    with jax.enable_x64(True):
        scale, bias, x, y_bar = random(1, C), random(2, C), random(3, B, P, C), random(4, B, P, C)
        m, formula = (nn.RMSNorm(scale), rms) if kind == "rms" else (nn.GroupNorm(scale, bias, groups=3), grouped)
        y, pullback = pb.vjp(lambda m, x: m(x), m, x)
        wanted, back = jax.vjp(formula, nn.named_parameters(m), x)
        np.testing.assert_allclose(y, wanted, rtol=1e-12, atol=1e-14)
        for got, want in zip(jax.tree.leaves(pullback(y_bar)), jax.tree.leaves(back(y_bar)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_they_equal_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed: normalisation is not compared with its own")
    with jax.enable_x64(True):
        scale, bias, x = random(1, C), random(2, C), random(3, B, P, C)
        give = lambda v: torch.tensor(np.array(v))
        theirs = torch.nn.functional.rms_norm(give(x), (C,), give(scale), eps=1e-6)
        np.testing.assert_allclose(nn.RMSNorm(scale)(x), theirs.numpy(), rtol=1e-12)
        theirs = torch.nn.functional.group_norm(give(x.swapaxes(1, 2)), 3, give(scale), give(bias))  # channels second
        np.testing.assert_allclose(nn.GroupNorm(scale, bias, groups=3)(x), theirs.numpy().swapaxes(1, 2), rtol=1e-10)


def test_one_group_and_as_many_as_channels():
    x = random(3, B, P, C, dtype=jnp.float32)
    one, each = nn.GroupNorm.init(C, 1)(x), nn.GroupNorm.init(C, C)(x)
    np.testing.assert_allclose(one.mean((1, 2)), np.zeros(B), atol=1e-6)
    np.testing.assert_allclose(each.mean(1), np.zeros((B, C)), atol=1e-6)
    np.testing.assert_allclose(each.std(1), np.ones((B, C)), rtol=1e-3)


def test_first_values_and_what_is_left_out():
    assert list(nn.named_parameters(nn.RMSNorm.init(C))) == ["scale"]
    np.testing.assert_array_equal(nn.RMSNorm.init(C).scale, np.ones(C))
    assert nn.named_parameters(nn.RMSNorm()) == nn.named_parameters(nn.RMSNorm.init(C, scale=False)) == {}
    assert list(nn.named_parameters(nn.GroupNorm.init(C, 2))) == ["scale", "bias"]
    assert nn.GroupNorm.init(C, 2, scale=False, bias=False)(random(0, B, C, dtype=jnp.float32)).shape == (B, C)
    assert nn.named_parameters(nn.RMSNorm.init(C, dtype=jnp.bfloat16))["scale"].dtype == jnp.bfloat16
    with pytest.raises(pb.PullbackError, match="GroupNorm: 4 groups do not divide 6 channels"):
        nn.GroupNorm.init(C, 4)
    with pytest.raises(pb.PullbackError, match="GroupNorm: 0 groups"):
        nn.GroupNorm(groups=0)
    with pytest.raises(pb.PullbackError, match="rms_norm: scale of shape"):
        nn.RMSNorm.init(C)(jnp.ones((2, 3)))


def test_statistics_are_wide_and_only_the_output_is_narrow():
    x = 1000 + random(3, 4, C, dtype=jnp.float32)
    for m in (nn.RMSNorm.init(C), nn.GroupNorm.init(C, 2)):
        with pb.precision("bfloat16"):
            y = m(x)
        assert y.dtype == jnp.bfloat16
        np.testing.assert_allclose(np.asarray(y, np.float32), m(x), rtol=2**-7, atol=1e-3)
