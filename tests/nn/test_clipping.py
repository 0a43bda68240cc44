"""Clipping by the global norm, by the size of each leaf, by value."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pullback import nn
from pullback.lib.errors import ConfigError


def gradients(size: float = 1.0) -> dict:
    draw = np.random.default_rng(0).standard_normal
    return {"scale": size * draw(()), "bias": size * draw(7), "blocks": (size * draw((3, 4)), None, [size * draw((2, 3, 2))])}


def clip(max_norm, grads):
    optimiser = nn.clip_by_global_norm(max_norm)
    return optimiser.update(grads, optimiser.init(grads))


def close(got, want, rtol):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol), got, want)


@pytest.mark.parametrize("size", [0.0, 1e-3, 0.1, 1.0, 1e6])
def test_equals_optax(size):
    with jax.enable_x64(True):
        grads = jax.tree.map(jnp.asarray, gradients(size))
        np.testing.assert_allclose(nn.global_norm(grads), optax.tree.norm(grads), rtol=1e-12)
        theirs = optax.clip_by_global_norm(0.7)
        got, state = clip(0.7, grads)
        close(got, theirs.update(grads, theirs.init(grads))[0], 1e-12)
        np.testing.assert_allclose(state.norm, optax.tree.norm(grads), rtol=1e-12)  # before clipping
        np.testing.assert_allclose(nn.global_norm(got), min(0.7, float(state.norm)), rtol=1e-12)


def test_below_the_limit_the_gradients_are_the_same_bits():
    grads = jax.tree.map(lambda g: jnp.asarray(g, jnp.float32), gradients())
    got, _ = clip(float(nn.global_norm(grads)) * (1 + 1e-6), grads)
    assert jax.tree.all(jax.tree.map(np.array_equal, got, grads))
    got, _ = clip(np.inf, grads)
    assert jax.tree.all(jax.tree.map(np.array_equal, got, grads))


def test_the_norm_of_narrow_gradients_is_summed_in_float32():
    grads = {"w": jnp.full((300, 300), 0.01, jnp.bfloat16), "h": jnp.full(4096, 100.0, jnp.float16)}  # in float16: inf
    want = np.sqrt(sum(np.sum(np.asarray(g, np.float64) ** 2) for g in grads.values()))
    got, state = clip(1.0, grads)
    assert state.norm.dtype == nn.global_norm(grads).dtype == jnp.float32
    np.testing.assert_allclose(state.norm, want, rtol=1e-6)
    assert {name: g.dtype for name, g in got.items()} == {name: g.dtype for name, g in grads.items()}
    np.testing.assert_allclose(np.asarray(got["h"], np.float64), 100.0 / want, rtol=2**-10)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 1e30])
def test_a_norm_that_is_not_finite_spoils_every_update(bad):
    grads = {"a": jnp.array([bad, 1.0], jnp.float32), "b": jnp.array([3.0], jnp.float32)}
    got, state = jax.jit(lambda grads: clip(1.0, grads))(grads)
    assert not np.isfinite(state.norm)
    assert all(np.all(np.isnan(g)) for g in got.values())


def test_the_limit_is_carried_by_the_state():
    grads = {"w": jnp.array([3.0, 4.0])}
    optimiser, traces = nn.clip_by_global_norm(1.0), []

    @jax.jit
    def step(state):
        traces.append(1)
        return optimiser.update(grads, state)

    state = optimiser.init(grads)
    for limit in (1.0, 2.0, 10.0):
        state = nn.with_hyperparameters(state, max_norm=limit)
        got, state = step(state)
        np.testing.assert_allclose(nn.global_norm(got), min(limit, 5.0), rtol=1e-6)
        np.testing.assert_allclose(state.norm, 5.0)
    assert len(traces) == 1
    np.testing.assert_allclose(nn.global_norm(jax.jit(clip)(jnp.float32(0.5), grads)[0]), 0.5, rtol=1e-6)  # a traced limit


LIMITS = {nn.clip_by_global_norm: "max_norm", nn.clip_by_block_rms: "threshold", nn.clip: "max_delta"}


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), None, "1"])
def test_limits_that_cannot_be_used(limit):
    for make, name in LIMITS.items():
        with pytest.raises(ConfigError, match=f"{name} is .*; expected a number above 0"):
            make(limit)


@pytest.mark.parametrize("name", ["clip", "clip_by_block_rms"])
@pytest.mark.parametrize("limit", [0.3, 0.7])
def test_leaf_by_leaf_equals_optax(name, limit):
    with jax.enable_x64(True):
        grads = jax.tree.map(jnp.asarray, gradients())
        ours, theirs = getattr(nn, name)(limit), getattr(optax, name)(limit)
        got, want = (o.update(grads, o.init(grads))[0] for o in (ours, theirs))
        close(got, want, 1e-12)
        assert not jax.tree.all(jax.tree.map(np.array_equal, got, grads))
        assert jax.tree.all(jax.tree.map(np.array_equal, nn.clip(np.inf).update(grads, nn.clip(np.inf).init(grads))[0], grads))


def test_leaf_by_leaf_with_numbers_that_are_not_finite():
    grads = {"a": jnp.array([np.inf, -1.0, np.nan], jnp.bfloat16), "b": jnp.array([np.inf, 1.0]), "c": jnp.array([3.0, -4.0])}
    by_value, by_size = (o.update(grads, o.init(grads))[0] for o in (nn.clip(2.0), nn.clip_by_block_rms(1.0)))
    assert by_value["a"].dtype == by_size["a"].dtype == jnp.bfloat16
    np.testing.assert_array_equal(np.asarray(by_value["a"], np.float32), [2.0, -1.0, np.nan])
    np.testing.assert_array_equal(by_value["c"], [2.0, -2.0])
    assert np.isnan(by_size["b"]).all()  # and the leaf beside it is as it would be alone
    np.testing.assert_allclose(by_size["c"], np.array([3.0, -4.0]) / np.sqrt(12.5), rtol=1e-6)


def test_torch_clips_by_value_too():
    torch = pytest.importorskip("torch", reason="torch is not installed: clipping is not compared with clip_grad_value_")
    g = np.random.default_rng(0).standard_normal(50)
    parameter = torch.nn.Parameter(torch.zeros(50, dtype=torch.float64))
    parameter.grad = torch.tensor(g)
    torch.nn.utils.clip_grad_value_([parameter], 0.4)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(nn.clip(0.4).update(g, nn.clip(0.4).init(g))[0], parameter.grad.numpy())


def test_known_faults(known_faults):
    for case in known_faults("clip_grad_norm"):
        grads = [jnp.asarray([float(x) for x in g], jnp.float32) for g in case["inputs"]["grads"]]
        got, state = clip(case["attrs"]["max_norm"], grads)
        np.testing.assert_allclose(state.norm, float(case["attrs"]["expect_norm"]), rtol=1e-6, err_msg=case["id"])
        if case["expect_out"] == {"nonfinite": True}:
            assert all(np.all(np.isnan(g)) for g in got), case["id"]
        else:
            for g, want in zip(got, case["expect_out"], strict=True):
                np.testing.assert_allclose(g, want, **case["tolerance"], err_msg=case["id"])


def test_torch_divides_by_a_little_more():
    torch = pytest.importorskip("torch", reason="torch is not installed: clipping is not compared with clip_grad_norm_")
    leaves = jax.tree.leaves(gradients())
    tensors = [torch.nn.Parameter(torch.zeros(g.shape, dtype=torch.float64)) for g in leaves]
    for tensor, g in zip(tensors, leaves):
        tensor.grad = torch.tensor(g)
    norm = float(torch.nn.utils.clip_grad_norm_(tensors, 0.7))
    with jax.enable_x64(True):
        got, state = clip(0.7 * norm / (norm + 1e-6), leaves)
        np.testing.assert_allclose(state.norm, norm, rtol=1e-12)
        for g, tensor in zip(got, tensors):
            np.testing.assert_allclose(g, tensor.grad.numpy(), rtol=1e-12)
