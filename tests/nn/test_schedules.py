"""Schedules without a warm-up against optax, torch and their closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pullback import nn
from pullback.lib.errors import ConfigError

# name, arguments, keyword arguments: the same call on both sides
CALLS = [
    ("constant_schedule", (0.3,), {}),
    ("linear_schedule", (0.1, 0.7, 20), {}),
    ("linear_schedule", (0.7, 0.0, 9), {"transition_begin": 13}),
    ("linear_schedule", (0.2, 0.4, 0), {}),
    ("cosine_decay_schedule", (0.3, 25), {}),
    ("cosine_decay_schedule", (0.3, 25), {"alpha": 0.1, "exponent": 1.7}),
    ("cosine_decay_schedule", (0.3, 2**40), {}),
    ("exponential_decay", (0.3, 5, 0.7), {}),
    ("exponential_decay", (0.3, 5, 0.7), {"transition_begin": 6, "staircase": True}),
    ("exponential_decay", (0.3, 5, 0.7), {"end_value": 0.1}),
    ("exponential_decay", (0.3, 5, 1.3), {"end_value": 0.6}),
    ("exponential_decay", (0.3, 0, 0.5), {}),
    ("piecewise_constant_schedule", (0.3, {30: 0.1, 10: 0.5}), {}),
    ("piecewise_constant_schedule", (0.3, {0: 0.5, 44: 2.0}), {}),
    ("piecewise_constant_schedule", (0.3,), {}),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]}{call[1]}")
def test_equals_optax(call, schedule_equals_optax):
    schedule_equals_optax(*call)


def test_joined_schedules_equal_optax():
    parts = [nn.linear_schedule(0.0, 1.0, 5), nn.constant_schedule(0.5), nn.cosine_decay_schedule(0.4, 10)]
    counts = np.arange(45)
    with jax.enable_x64(True):
        for boundaries in ([5, 20], [0, 20], [8, 8]):
            ours, theirs = nn.join_schedules(parts, boundaries), optax.join_schedules(parts, boundaries)
            np.testing.assert_allclose(jax.vmap(ours)(counts), jax.vmap(theirs)(counts), rtol=1e-14)


def test_steps_equal_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed: steps are not compared with MultiStepLR")
    theirs = torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], lr=0.3)
    steps = torch.optim.lr_scheduler.MultiStepLR(theirs, [5, 12], gamma=0.2)
    ours, want = nn.piecewise_constant_schedule(0.3, {5: 0.2, 12: 0.2}), []
    for _ in range(20):
        want.append(steps.get_last_lr()[0])
        theirs.step()
        steps.step()
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.vmap(ours)(np.arange(20)), want, rtol=1e-12)


def test_a_count_below_0_reads_as_0():
    schedules = nn.linear_schedule(0.1, 0.7, 20), nn.cosine_decay_schedule(0.3, 25), nn.exponential_decay(0.3, 5, 0.7)
    for schedule in (*schedules, nn.piecewise_constant_schedule(0.3, {4: 0.5})):
        assert schedule(-5) == schedule(jnp.int32(-1)) == schedule(0)


def test_values_may_be_traced():
    def rates(init, end, rate, count):
        return (
            nn.cosine_decay_schedule(init, 20, alpha=end)(count),
            nn.exponential_decay(init, 5, rate, end_value=end)(count),
            nn.piecewise_constant_schedule(init, {3: rate})(count),
        )

    for args in ((0.5, 0.2, 0.7, 3), (0.3, 0.1, 0.2, 12), (0.2, 0.4, 1.2, 12)):
        np.testing.assert_allclose(jax.jit(rates)(*args), rates(*args), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: nn.linear_schedule(0, 1, -1), "transition_steps is -1; expected a number of steps, 0 or more"),
        (lambda: nn.linear_schedule(0, 1, 5, transition_begin=-2), "transition_begin is -2"),
        (lambda: nn.linear_schedule(0, 1, float("nan")), "transition_steps is nan"),
        (lambda: nn.linear_schedule(0, 1, "5"), "transition_steps is '5'"),  # type: ignore
        (lambda: nn.cosine_decay_schedule(1, 0), "decay_steps is 0"),
        (lambda: nn.cosine_decay_schedule(1, -3), "decay_steps is -3"),
        (lambda: nn.join_schedules([], []), "0 schedules"),
        (lambda: nn.join_schedules([nn.constant_schedule(1)] * 2, [3, 4]), "2 schedules have 1 boundaries between them; got 2"),
        (lambda: nn.join_schedules([nn.constant_schedule(1)] * 3, [5, 4]), "[5, 4] must rise"),
        (lambda: nn.exponential_decay(1, -1, 0.5), "transition_steps is -1"),
        (lambda: nn.exponential_decay(1, 5, 0.0), "decay_rate is 0.0; expected a factor above 0"),
        (lambda: nn.exponential_decay(1, 5, float("nan")), "decay_rate is nan"),
        (lambda: nn.piecewise_constant_schedule(1, {-3: 0.1}), "a boundary is -3"),
        (lambda: nn.piecewise_constant_schedule(1, {3: -0.1}), "the scale at 3 is -0.1; expected a factor, 0 or more"),
    ],
)
def test_lengths_that_cannot_be_used(make, text):
    with pytest.raises(ConfigError) as error:
        make()
    assert text in str(error.value)
