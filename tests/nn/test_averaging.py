"""Averages of weights against optax, torch and closed forms."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pullback import nn
from pullback.lib.errors import ConfigError, OperandError

AGAINST_OPTAX = {
    "ema": (nn.ema(0.9), optax.ema(0.9)),
    "ema, not debiased": (nn.ema(0.6, debias=False), optax.ema(0.6, debias=False)),
    "ema of a chain": (nn.chain(nn.sgd(0.1), nn.ema(0.5)), optax.chain(optax.sgd(0.1), optax.ema(0.5))),
}


@pytest.mark.parametrize("name", AGAINST_OPTAX)
def test_twenty_steps_equal_optax(name, equals_optax):
    equals_optax(*AGAINST_OPTAX[name])


def weights(steps: int) -> list[dict]:
    rng = np.random.default_rng(3)
    return [{"w": rng.normal(size=(2, 3)), "b": rng.normal(size=3)} for _ in range(steps)]


def test_the_average_of_weights_is_their_weighted_mean():
    with jax.enable_x64(True):
        optimiser, trail = nn.ema(0.8), weights(6)
        state = optimiser.init(trail[0])
        for t, params in enumerate(trail):
            averaged, state = optimiser.update(params, state)
            shares = 0.8 ** np.arange(t + 1)[::-1]
            for name, mean in averaged.items():
                want = np.average([p[name] for p in trail[: t + 1]], axis=0, weights=shares)
                np.testing.assert_allclose(mean, want, rtol=1e-12)


def test_the_first_average_is_the_first_value_for_any_decay():
    params = {"w": jnp.array([3.0, -2.0])}
    for decay in (0.0, 0.5, 0.9999):
        averaged, state = nn.ema(decay).update(params, nn.ema(decay).init(params))
        np.testing.assert_allclose(averaged["w"], params["w"], rtol=1e-6)
        assert state.count == 1


def test_narrow_weights_are_averaged_in_float32():
    params = {"w": jnp.full(4, 1.0, jnp.bfloat16)}
    optimiser = nn.ema(0.999)
    state = optimiser.init(params)
    for value in (1.0, 1.0, 2.0):
        averaged, state = optimiser.update({"w": jnp.full(4, value, jnp.bfloat16)}, state)
    assert averaged["w"].dtype == jnp.bfloat16 and state.ema["w"].dtype == jnp.float32
    np.testing.assert_allclose(state.ema["w"], 0.001 * (0.999**2 + 0.999 + 2), rtol=1e-4)  # 0.999 in float32


def test_the_decay_is_carried_by_the_state():
    params = {"w": jnp.array([3.0, -2.0])}
    optimiser = nn.ema(0.9, debias=False)
    state = nn.with_hyperparameters(optimiser.init(params), decay=0.25)
    np.testing.assert_allclose(optimiser.update(params, state)[0]["w"], 0.75 * params["w"], rtol=1e-6)


def test_incremental_updates_equal_optax_and_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed: averages are not compared with AveragedModel")
    trail = weights(8)
    model = torch.nn.Linear(3, 2, dtype=torch.float64)

    def put(values):
        with torch.no_grad():
            model.weight.copy_(torch.tensor(values["w"]))
            model.bias.copy_(torch.tensor(values["b"][:2]))

    put(trail[0])
    theirs = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.7))
    theirs.update_parameters(model)  # the first call copies
    with jax.enable_x64(True):
        slow: Any = jax.tree.map(jnp.asarray, trail[0])
        also: Any = slow
        for params in trail[1:]:
            slow, also = nn.incremental_update(params, slow, 0.3), optax.incremental_update(params, also, 0.3)
            put(params)
            theirs.update_parameters(model)
        for name in slow:
            np.testing.assert_allclose(slow[name], also[name], rtol=1e-12)
        np.testing.assert_allclose(slow["w"], theirs.module.get_parameter("weight").detach().numpy(), rtol=1e-12)
        np.testing.assert_allclose(slow["b"][:2], theirs.module.get_parameter("bias").detach().numpy(), rtol=1e-12)


def test_incremental_updates_keep_the_dtype_of_the_old():
    new, old = {"w": jnp.full(3, 2.0, jnp.float32)}, {"w": jnp.full(3, 1.0, jnp.bfloat16)}
    mean = nn.incremental_update(new, old, 0.5)["w"]
    assert mean.dtype == jnp.bfloat16 and np.all(mean == 1.5)


def test_what_does_not_fit():
    with pytest.raises(ConfigError, match="decay is 1.0; expected a number from 0 up to, but not, 1"):
        nn.ema(1.0)
    with pytest.raises(OperandError, match=r"new tensors: leaf \['w'\] has shape \(3,\), expected \(2, 3\)"):
        nn.incremental_update({"w": np.ones(3)}, {"w": np.ones((2, 3))}, 0.1)
