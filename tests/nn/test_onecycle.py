"""One cycle against optax and torch."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pullback import nn
from pullback.lib.errors import ConfigError

CALLS = [
    ("cosine_onecycle_schedule", (40, 0.3), {}),
    ("cosine_onecycle_schedule", (31, 0.3, 0.45, 10.0, 20.0), {}),
    ("cosine_onecycle_schedule", (3, 0.3), {}),  # it starts at the peak
    ("linear_onecycle_schedule", (40, 0.3), {}),
    ("linear_onecycle_schedule", (31, 0.3, 0.25, 0.6, 10.0, 20.0), {}),
    ("linear_onecycle_schedule", (3, 0.3), {}),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]}{call[1]}")
def test_equals_optax(call, schedule_equals_optax):
    schedule_equals_optax(*call)


def test_twenty_steps_under_an_optimiser_equal_optax(equals_optax):
    equals_optax(nn.sgd(nn.cosine_onecycle_schedule(18, 0.3)), optax.sgd(optax.cosine_onecycle_schedule(18, 0.3)))


def torch_rates(total: int, **settings) -> list[float]:
    torch = pytest.importorskip("torch", reason="torch is not installed: one cycle is not compared with OneCycleLR")
    theirs = torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], lr=0.1)
    cycle = torch.optim.lr_scheduler.OneCycleLR(theirs, max_lr=0.3, total_steps=total, cycle_momentum=False, **settings)
    rates = [cycle.get_last_lr()[0]]
    for _ in range(total - 1):
        theirs.step()
        cycle.step()
        rates.append(cycle.get_last_lr()[0])
    return rates


def test_torch_has_its_corners_a_step_earlier():
    steps, top = 30, 9
    n = steps + 1
    two = torch_rates(n, pct_start=(top + 1) / n, div_factor=10.0, final_div_factor=50.0)
    three = torch_rates(n, pct_start=(top + 1) / n, div_factor=10.0, final_div_factor=50.0, three_phase=True, anneal_strategy="linear")
    with jax.enable_x64(True):
        counts = np.arange(n)
        ours = nn.cosine_onecycle_schedule(steps, 0.3, 0.3, 10.0, 50.0)
        np.testing.assert_allclose(jax.vmap(ours)(counts), two, rtol=1e-10)
        ours = nn.linear_onecycle_schedule(steps, 0.3, 0.3, 0.6, 10.0, 50.0)
        np.testing.assert_allclose(jax.vmap(ours)(counts), three, rtol=1e-10)


def test_values_may_be_traced_and_the_end_is_kept():
    def rates(peak, div, count):
        cycle = nn.cosine_onecycle_schedule(20, peak, div_factor=div), nn.linear_onecycle_schedule(20, peak, div_factor=div)
        return [schedule(count) for schedule in cycle]

    for args in ((0.5, 10.0, 3), (0.3, 5.0, 12), (0.3, 5.0, 17)):
        np.testing.assert_allclose(jax.jit(rates)(*args), rates(*args), rtol=1e-5)
    np.testing.assert_allclose(rates(0.5, 10.0, 10**6), [0.5 / 10 / 1e4] * 2, rtol=1e-6)
    assert rates(0.5, 10.0, -3) == rates(0.5, 10.0, jnp.int32(-1)) == rates(0.5, 10.0, 0)


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: nn.cosine_onecycle_schedule(-1, 0.3), "transition_steps is -1"),
        (lambda: nn.cosine_onecycle_schedule(0, 0.3), "a cycle of 0 steps would have its corners at steps 0, 0; expected them to rise"),
        (lambda: nn.cosine_onecycle_schedule(10, 0.3, 1.0), "a cycle with corners at 1.0 of it; expected fractions from 0 up to"),
        (lambda: nn.linear_onecycle_schedule(10, 0.3, float("nan")), "a cycle with corners at nan, 0.85 of it"),
        (lambda: nn.linear_onecycle_schedule(10, 0.3, 0.5, 0.4), "corners at steps 5, 4, 10"),
    ],
)
def test_cycles_that_cannot_be_used(make, text):
    with pytest.raises(ConfigError) as error:
        make()
    assert text in str(error.value)
