"""Lion against optax and its own promises; torch has none."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pullback import nn


def ramp(count):
    return 0.1 / (count + 1)


AGAINST_OPTAX = {
    "lion default": (nn.lion(1e-2), optax.lion(1e-2)),
    "lion matrices": (nn.lion(1e-2, mask=nn.matrices), optax.lion(1e-2, mask=nn.matrices)),
    "lion numbers": (
        nn.lion(0.1, 0.5, 0.8, 0.2, {"bias": True, "weight": False}),
        optax.lion(0.1, 0.5, 0.8, weight_decay=0.2, mask={"bias": True, "weight": False}),
    ),
    "lion schedules": (
        nn.lion(ramp, weight_decay=lambda count: 0.01 * count, mask=None),
        optax.lion(ramp, weight_decay=lambda count: 0.01 * count),
    ),
}


@pytest.mark.parametrize("name", AGAINST_OPTAX)
def test_twenty_steps_equal_optax(name, equals_optax):
    equals_optax(*AGAINST_OPTAX[name])


def test_every_step_has_one_size():
    params = {"w": jnp.array([[1.0, 2.0, 3.0, 4.0]])}
    optimiser = nn.lion(0.5, weight_decay=0.0)
    updates, _ = optimiser.update({"w": jnp.array([[1e-20, -1e20, 0.0, 3.0]])}, optimiser.init(params), params)
    np.testing.assert_array_equal(updates["w"], [[-0.5, 0.5, 0.0, -0.5]])


def test_matrices_alone_decay_if_told():
    params = {"w": jnp.ones((2, 3)), "b": jnp.ones(3)}
    optimiser = nn.lion(0.5, weight_decay=0.1, mask=nn.matrices)
    updates, _ = optimiser.update(jax.tree.map(jnp.zeros_like, params), optimiser.init(params), params)
    assert np.all(updates["b"] == 0)
    np.testing.assert_allclose(updates["w"], -0.05 * np.ones((2, 3)), rtol=1e-6)
