"""The numbers of an optimiser: carried by the state, given per step, never constants of the program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import nn
from pullback.lib.errors import ConfigError, UnknownName

PARAMS = {"w": np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(3, 4), "b": np.ones(4, np.float32)}
GRADS = {"w": np.random.default_rng(0).standard_normal((3, 4), np.float32), "b": np.array([0.5, -2.0, 3.0, 1.0], np.float32)}


def test_changing_the_rate_does_not_retrace():
    optimiser, traces = nn.chain(nn.clip_by_global_norm(1.0), nn.adamw(0.125, weight_decay=0.0)), []

    @jax.jit
    def step(state):
        traces.append(1)
        return optimiser.update(GRADS, state, PARAMS)

    state = optimiser.init(PARAMS)
    for rate in (0.125, 0.5, jnp.float32(0.25), 3):
        state = nn.with_hyperparameters(state, learning_rate=rate)
        assert nn.hyperparameters(state)["learning_rate"] == rate
        updates, state = step(state)
        np.testing.assert_allclose(np.abs(updates["w"]), rate, rtol=1e-4)  # the same gradient each step: Adam moves by its rate
    assert len(traces) == 1


def test_no_number_is_a_constant_of_the_program():
    params = {"w": jnp.ones((2, 3))}
    for optimiser, odd in (
        (nn.adam(43 / 1024, 898 / 1024, 1011 / 1024, 3 / 1024, 47 / 1024), (43, 898, 1011, 3, 47)),
        (nn.adamw(43 / 1024, 898 / 1024, 1011 / 1024, 3 / 1024, 47 / 1024, eps_root=5 / 1024), (43, 898, 1011, 3, 47, 5)),
        (nn.lion(43 / 1024, 898 / 1024, 1011 / 1024, 47 / 1024), (43, 898, 1011, 47)),
        (nn.rmsprop(43 / 1024, 898 / 1024, 3 / 1024, momentum=47 / 1024), (43, 898, 3, 47)),
        (nn.adagrad(43 / 1024, eps=3 / 1024), (43, 3)),
        (nn.sgd(43 / 1024, 898 / 1024), (43, 898)),
        (nn.ema(898 / 1024), (898,)),
        (nn.clip(43 / 1024), (43,)),
        (nn.clip_by_block_rms(43 / 1024), (43,)),
        (nn.clip_by_global_norm(43 / 1024), (43,)),
    ):
        state = optimiser.init(params)
        program = str(jax.make_jaxpr(optimiser.update)(params, state, params))
        assert not [number for number in odd if str(number / 1024) in program], program
        assert sorted(1024 * float(x) for x in state.hyper.values()) == sorted(odd)
    constant = nn.sgd(lambda count: 43 / 1024)  # the text does show a constant
    assert str(43 / 1024) in str(jax.make_jaxpr(constant.update)(params, constant.init(params)))


def test_a_traced_rate_is_used_as_given():
    state, traces = nn.sgd(7.0).init(PARAMS), []  # carries 7, which an array given later overrules

    @jax.jit
    def step(rate):
        traces.append(1)
        return nn.sgd(rate).update(GRADS, state)[0]

    for rate in (0.5, 0.25):
        np.testing.assert_allclose(step(rate)["w"], -rate * GRADS["w"], rtol=1e-6)
    assert len(traces) == 1


def test_a_sweep_is_a_vmap_over_states():
    optimiser = nn.adamw(1.0, weight_decay=0.1)

    def run(rate):
        state = nn.with_hyperparameters(optimiser.init(PARAMS), learning_rate=rate)
        params = PARAMS
        for _ in range(3):
            updates, state = optimiser.update(GRADS, state, params)
            params = nn.apply_updates(params, updates)
        return params

    rates = jnp.array([0.1, 0.01, 0.3])
    swept, one = jax.jit(jax.vmap(run))(rates), jax.jit(run)
    for i, rate in enumerate(rates):
        for name, p in one(rate).items():
            np.testing.assert_allclose(swept[name][i], p, rtol=1e-5, atol=1e-6)
    assert np.abs(swept["w"][0] - swept["w"][2]).min() > 0.1


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: nn.adamw(-1e-3), "learning_rate is -0.001"),
        (lambda: nn.adamw(float("nan")), "learning_rate is nan"),
        (lambda: nn.adamw("1e-3"), "learning_rate is '1e-3'; expected a number finite and 0 or more, an array or a schedule"),  # type: ignore
        (lambda: nn.adamw(1e-3, b1=1.0), "b1 is 1.0; expected a number from 0 up to, but not, 1"),
        (lambda: nn.adamw(1e-3, b2=1.5), "b2 is 1.5"),
        (lambda: nn.adamw(1e-3, b2=lambda count: 0.9), "b2 is <function"),  # type: ignore
        (lambda: nn.adamw(1e-3, eps=-1.0), "eps is -1.0"),
        (lambda: nn.adamw(1e-3, weight_decay=None), "weight_decay is None"),  # type: ignore
        (lambda: nn.adam(1e-3, eps_root=-1.0), "eps_root is -1.0"),
        (lambda: nn.lion(1e-3, b2=1.0), "b2 is 1.0"),
        (lambda: nn.rmsprop(1e-3, decay=1.0), "decay is 1.0"),
        (lambda: nn.rmsprop(1e-3, initial_scale=-1.0), "initial_scale is -1.0"),
        (lambda: nn.adagrad(1e-3, initial_accumulator_value=-0.1), "initial_accumulator_value is -0.1"),
        (lambda: nn.sgd(1e-3, momentum=-0.9), "momentum is -0.9"),
    ],
)
def test_settings_that_cannot_be_used(make, text):
    with pytest.raises(ConfigError) as error:
        make()
    assert text in str(error.value)


def test_numbers_that_the_state_does_not_carry():
    state = nn.chain(nn.clip_by_global_norm(1.0), nn.sgd(lambda count: 0.1, 0.9)).init({"w": jnp.ones(3)})
    assert sorted(nn.hyperparameters(state)) == ["max_norm", "momentum"]
    with pytest.raises(UnknownName, match="'momentun'.*did you mean 'momentum'"):
        nn.with_hyperparameters(state, momentun=0.5)
    with pytest.raises(UnknownName, match="'learning_rate'.*follow a schedule"):
        nn.with_hyperparameters(state, learning_rate=0.5)
