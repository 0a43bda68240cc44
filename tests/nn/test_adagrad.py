"""Adagrad against optax and torch."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pullback import nn


def ramp(count):
    return 0.1 / (count + 1)


AGAINST_OPTAX = {
    "adagrad default": (nn.adagrad(0.3), optax.adagrad(0.3)),
    "adagrad numbers": (nn.adagrad(0.3, 2.0, 0.5), optax.adagrad(0.3, 2.0, 0.5)),
    "adagrad, schedule": (nn.adagrad(ramp, 0.0, 0.0), optax.adagrad(ramp, 0.0, 0.0)),
}


@pytest.mark.parametrize("name", AGAINST_OPTAX)
def test_twenty_steps_equal_optax(name, equals_optax):
    equals_optax(*AGAINST_OPTAX[name])


AGAINST_TORCH = {
    "Adagrad": (nn.adagrad(0.1, 0.0, 0.0), lambda torch, p: torch.optim.Adagrad(p, lr=0.1, eps=0.0)),
    "Adagrad, another start": (
        nn.adagrad(0.1, 0.4, 0.0),
        lambda torch, p: torch.optim.Adagrad(p, lr=0.1, eps=0.0, initial_accumulator_value=0.4),
    ),
}


@pytest.mark.parametrize("name", AGAINST_TORCH)
def test_twenty_steps_equal_torch(name, equals_torch):
    equals_torch(*AGAINST_TORCH[name])


def test_a_sum_of_0_moves_nothing_and_nan_stays():
    params = jnp.ones(3)
    optimiser = nn.adagrad(0.1, 0.0, 0.0)
    updates, state = optimiser.update(jnp.array([0.0, np.nan, -2.0]), optimiser.init(params), params)
    np.testing.assert_allclose(updates, [0.0, np.nan, 0.1], rtol=1e-6)
    np.testing.assert_array_equal(state.sum_of_squares, [0.0, np.nan, 4.0])
