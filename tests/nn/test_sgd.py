"""Gradient descent against optax and torch."""

import optax
import pytest

from pullback import nn
from pullback.lib.errors import ConfigError


def ramp(count):
    return 0.1 / (count + 1)


AGAINST_OPTAX = {
    "sgd": (nn.sgd(0.3), optax.sgd(0.3)),
    "sgd, linear": (nn.sgd(nn.linear_schedule(0.3, 0.1, 15)), optax.sgd(optax.linear_schedule(0.3, 0.1, 15))),
    "sgd momentum": (nn.sgd(0.3, momentum=0.9), optax.sgd(0.3, momentum=0.9)),
    "sgd nesterov, schedule": (nn.sgd(ramp, 0.8, nesterov=True), optax.sgd(ramp, 0.8, nesterov=True)),
}


@pytest.mark.parametrize("name", AGAINST_OPTAX)
def test_twenty_steps_equal_optax(name, equals_optax):
    equals_optax(*AGAINST_OPTAX[name])


AGAINST_TORCH = {
    "SGD": (nn.sgd(0.03), lambda torch, p: torch.optim.SGD(p, lr=0.03)),
    "SGD, momentum": (nn.sgd(0.03, 0.9), lambda torch, p: torch.optim.SGD(p, lr=0.03, momentum=0.9)),
    "SGD, nesterov": (
        nn.sgd(0.03, 0.9, nesterov=True),
        lambda torch, p: torch.optim.SGD(p, lr=0.03, momentum=0.9, nesterov=True),
    ),
}


@pytest.mark.parametrize("name", AGAINST_TORCH)
def test_twenty_steps_equal_torch(name, equals_torch):
    equals_torch(*AGAINST_TORCH[name])


@pytest.mark.parametrize("make", [nn.sgd, nn.rmsprop])
def test_nesterov_needs_a_momentum(make):
    with pytest.raises(ConfigError, match=f"{make.__name__}: nesterov=True needs a momentum, for example momentum=0.9"):
        make(0.1, nesterov=True)
