"""RMSProp against optax and torch, in every combination of its switches."""

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pullback import nn


def ramp(count):
    return 0.1 / (count + 1)


SWITCHES = [dict(zip(("eps_in_sqrt", "centered", "bias_correction"), switches)) for switches in itertools.product((True, False), repeat=3)]

AGAINST_OPTAX = {
    **{str(kw): (nn.rmsprop(0.1, 0.8, 1e-2, 0.3, **kw), optax.rmsprop(0.1, 0.8, 1e-2, 0.3, **kw)) for kw in SWITCHES},
    "default": (nn.rmsprop(0.1), optax.rmsprop(0.1)),
    "momentum": (nn.rmsprop(ramp, momentum=0.7), optax.rmsprop(ramp, momentum=0.7)),
    "nesterov": (
        nn.rmsprop(ramp, centered=True, momentum=0.7, nesterov=True),
        optax.rmsprop(ramp, centered=True, momentum=0.7, nesterov=True),
    ),
}


@pytest.mark.parametrize("name", AGAINST_OPTAX)
def test_twenty_steps_equal_optax(name, equals_optax):
    equals_optax(*AGAINST_OPTAX[name])


AGAINST_TORCH = {
    "RMSprop, its defaults": (nn.rmsprop(1e-2, 0.99, eps_in_sqrt=False), lambda torch, p: torch.optim.RMSprop(p)),
    "RMSprop, centred with momentum": (
        nn.rmsprop(0.03, 0.9, 1e-3, eps_in_sqrt=False, centered=True, momentum=0.8),
        lambda torch, p: torch.optim.RMSprop(p, lr=0.03, alpha=0.9, eps=1e-3, centered=True, momentum=0.8),
    ),
}


@pytest.mark.parametrize("name", AGAINST_TORCH)
def test_twenty_steps_equal_torch(name, equals_torch):
    equals_torch(*AGAINST_TORCH[name])


def test_gradients_that_hardly_change_leave_a_variance_of_0():
    """v − m² is a rounding error there, of either sign: optax's root of it is not a number."""
    grads = jnp.asarray(np.random.default_rng(0).uniform(1e3, 2e3, 64), jnp.float32)

    def last(optimiser: Any) -> np.ndarray:
        state = optimiser.init(grads)
        for _ in range(60):
            updates, state = optimiser.update(grads, state, grads)
        return np.asarray(updates)

    assert np.isfinite(last(nn.rmsprop(1e-3, 0.5, centered=True))).all()
    assert np.isnan(last(optax.rmsprop(1e-3, 0.5, centered=True))).any()
