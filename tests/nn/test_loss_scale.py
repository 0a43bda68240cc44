"""The loss scale: what a step does to it, and what a step that is skipped leaves alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import nn
from pullback.lib.errors import ConfigError

FAST = nn.LossScaling(initial=8.0, interval=2)


def trace(overflows, scaling=FAST):
    """The states after each step."""
    state, states = scaling.init(), []
    for overflow in overflows:
        state = scaling.update(state, jnp.bool_(not overflow))
        states.append(state)
    return states


@pytest.mark.parametrize(
    "overflows, scales", [([0, 0, 1, 0, 0], [8, 16, 8, 8, 16]), ([0, 1, 0, 0], [8, 4, 4, 8]), ([1, 1, 1, 0], [4, 2, 1, 1])]
)
def test_doubles_after_good_steps_and_halves_on_overflow(overflows, scales):
    states = trace(overflows)
    assert [float(state.scale) for state in states] == scales
    assert states[-1].skipped == sum(overflows)


def test_does_not_grow_to_infinity():
    states = trace([0] * 300, nn.LossScaling(interval=1))
    assert np.isfinite(float(states[-1].scale)) and states[-1].scale == 2.0**127


def test_gradients_come_back_exactly():
    """A power of two takes nothing from them, and those that float16 would have lost are there."""
    state, small = nn.LossScaling().init(), jnp.float32(2e-8)
    assert small.astype(jnp.float16) == 0
    scaled = {"a": (small * state.scale).astype(jnp.float16), "b": jnp.float32(0.1) * state.scale}
    grads = nn.unscaled(jax.tree.map(lambda g: g.astype(jnp.float32), scaled), state)
    assert abs(grads["a"] - small) < 1e-3 * small and grads["b"] == jnp.float32(0.1)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_one_bad_element_is_found(bad):
    tree = {"a": jnp.zeros(3), "b": (jnp.zeros((2, 2)), None)}
    assert nn.all_finite(tree) and nn.all_finite({})
    assert not nn.all_finite({**tree, "c": jnp.zeros(5).at[3].set(bad)})


def test_a_skipped_step_leaves_weights_moments_and_counters():
    """And NaN does not come through the choice."""
    params, optimiser = {"w": jnp.arange(3.0)}, nn.adamw(0.1)
    state = optimiser.init(params)
    updates, changed = optimiser.update({"w": jnp.array([1.0, jnp.nan, 2.0])}, state, params)
    new = nn.apply_updates(params, updates), changed
    assert int(jax.tree.leaves(changed)[0]) != int(jax.tree.leaves(state)[0])  # a counter is among them
    jax.tree.map(np.testing.assert_array_equal, nn.kept(jnp.bool_(False), new, (params, state)), (params, state))
    jax.tree.map(np.testing.assert_array_equal, nn.kept(jnp.bool_(True), new, (params, state)), new)


@pytest.mark.parametrize(
    "setting", [{"initial": 0.0}, {"initial": np.inf}, {"growth": 1.0}, {"backoff": 1.0}, {"interval": 0}, {"initial": np.nan}]
)
def test_settings_that_will_not_do(setting):
    with pytest.raises(ConfigError, match=f"loss scaling: {next(iter(setting))} is"):
        nn.LossScaling(**setting)
