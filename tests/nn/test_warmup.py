"""Schedules with a warm-up against optax and their closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import nn
from pullback.lib.errors import ConfigError

COUNTS = np.arange(45)

# name, arguments, keyword arguments: the same call on both sides
CALLS = [
    ("warmup_constant_schedule", (0.0, 0.3, 7), {}),
    ("warmup_constant_schedule", (0.5, 0.3, 1), {}),
    ("warmup_cosine_decay_schedule", (0.0, 0.3, 7, 31), {}),
    ("warmup_cosine_decay_schedule", (0.1, 0.3, 1, 40), {"end_value": 0.02, "exponent": 2.0}),
    ("warmup_cosine_decay_schedule", (0.1, 0.3, 0, 20), {"end_value": 0.5}),
    ("warmup_cosine_decay_schedule", (0.1, 0.0, 5, 20), {"end_value": 0.5}),
    ("warmup_cosine_decay_schedule", (0.1, 0.3, 19.0, 20), {}),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]}{call[1]}")
def test_equals_optax(call, schedule_equals_optax):
    schedule_equals_optax(*call)


def test_warmup_then_linear_decay_has_its_closed_form():
    with jax.enable_x64(True):
        for warmup, decay in ((7, 31), (0, 20), (1, 2)):
            ours = nn.warmup_linear_decay_schedule(0.1, 0.3, warmup, decay, end_value=0.05)
            want = np.interp(COUNTS, [warmup - 1e-9, warmup, decay] if warmup == 0 else [0, warmup, decay], [0.1, 0.3, 0.05])
            np.testing.assert_allclose(jax.vmap(ours)(COUNTS), want, rtol=1e-12)


def test_warmup_then_inverse_square_root_has_its_closed_form():
    with jax.enable_x64(True):
        for warmup in (7, 1, 0):
            ours = nn.warmup_inverse_sqrt_schedule(0.1, 0.3, warmup)
            after = 0.3 * np.sqrt(max(warmup, 1) / np.maximum(COUNTS, max(warmup, 1)))
            want = np.where(COUNTS < warmup, 0.1 + 0.2 * COUNTS / max(warmup, 1), after)
            np.testing.assert_allclose(jax.vmap(ours)(COUNTS), want, rtol=1e-12)
            np.testing.assert_allclose(jax.vmap(ours)(COUNTS.astype(np.int32)), want, rtol=1e-12)
        width, warmup = 512, 10  # the rate of Vaswani et al., whose steps count from 1
        ours = nn.warmup_inverse_sqrt_schedule(0.0, (width * warmup) ** -0.5, warmup)
        n = COUNTS[1:]
        np.testing.assert_allclose(jax.vmap(ours)(n), width**-0.5 * np.minimum(n**-0.5, n * warmup**-1.5), rtol=1e-12)


@pytest.mark.parametrize("exponent", [1.0, 0.5])
def test_warmup_stable_decay_has_its_closed_form(exponent):
    with jax.enable_x64(True):
        for warmup, stable, decay in ((7, 11, 31), (0, 5, 20), (4, 0, 20)):
            ours = nn.warmup_stable_decay_schedule(0.1, 0.3, warmup, stable, decay, 0.05, exponent)
            s = np.clip((COUNTS - warmup - stable) / (decay - warmup - stable), 0, 1)
            want = np.where(COUNTS < warmup, 0.1 + 0.2 * COUNTS / max(warmup, 1), 0.05 + 0.25 * (1 - s**exponent))
            for kind in (np.int64, np.int32):
                np.testing.assert_allclose(jax.vmap(ours)(COUNTS.astype(kind)), want, rtol=1e-12)


def test_ends_are_exact_in_float32():
    ours = nn.warmup_cosine_decay_schedule(0.0, 3e-4, 100, 2000, end_value=3e-5)
    line = nn.warmup_linear_decay_schedule(0.0, 3e-4, 100, 2000, end_value=3e-5)
    for schedule in (ours, line):
        assert schedule(0) == 0 and schedule(2000) == schedule(10**6) == jnp.float32(3e-5)
        values = np.asarray(jax.vmap(schedule)(jnp.arange(2001)))
        assert values.argmax() == 100 and values.max() == pytest.approx(3e-4, rel=1e-6)
        assert np.all(np.diff(values[:101]) > 0) and np.all(np.diff(values[100:]) <= 0)


REST = {nn.warmup_constant_schedule: (), nn.warmup_inverse_sqrt_schedule: (), nn.warmup_stable_decay_schedule: (10, 30)}


@pytest.mark.parametrize(
    "make",
    [
        nn.warmup_constant_schedule,
        nn.warmup_cosine_decay_schedule,
        nn.warmup_linear_decay_schedule,
        nn.warmup_inverse_sqrt_schedule,
        nn.warmup_stable_decay_schedule,
    ],
)
def test_warmup_of_no_step_and_of_one(make):
    rest = REST.get(make, (30,))
    none, one = make(0.0, 1.0, 0, *rest), make(0.0, 1.0, 1, *rest)
    assert none(0) == 1 and one(0) == 0 and one(1) == 1
    assert make(1.0 / 5, 1.0, 4, *rest)(0) == pytest.approx(0.2)  # peak/(warm-up + 1): no wasted step


def test_a_count_below_0_reads_as_0():
    cosine, root = nn.warmup_cosine_decay_schedule(0.1, 0.3, 7, 31), nn.warmup_inverse_sqrt_schedule(0.1, 0.3, 0)
    for schedule in (cosine, root, nn.warmup_stable_decay_schedule(0.1, 0.3, 4, 5, 20)):
        assert schedule(-5) == schedule(jnp.int32(-1)) == schedule(0)


def test_values_may_be_traced():
    def rates(init, peak, end, count):
        return (
            nn.warmup_cosine_decay_schedule(init, peak, 5, 20, end_value=end)(count),
            nn.warmup_linear_decay_schedule(init, peak, 5, 20, end_value=end)(count),
            nn.warmup_constant_schedule(init, peak, 5)(count),
            nn.warmup_inverse_sqrt_schedule(init, peak, 5)(count),
            nn.warmup_stable_decay_schedule(init, peak, 5, 3, 20, end_value=end)(count),
        )

    for args in ((0.1, 0.5, 0.2, 3), (0.0, 0.3, 0.1, 12), (0.2, 0.0, 0.1, 12)):
        np.testing.assert_allclose(jax.jit(rates)(*args), rates(*args), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: nn.warmup_constant_schedule(0, 1, -1), "warmup_steps is -1"),
        (lambda: nn.warmup_cosine_decay_schedule(0, 1, -1, 10), "warmup_steps is -1"),
        (
            lambda: nn.warmup_cosine_decay_schedule(0, 1, 10, 10),
            "decay_steps=10 counts the warm-up too, so it must be above warmup_steps=10",
        ),
        (lambda: nn.warmup_linear_decay_schedule(0, 1, 10, 5), "decay_steps=5 counts the warm-up too"),
        (lambda: nn.warmup_inverse_sqrt_schedule(0, 1, -1), "warmup_steps is -1"),
        (lambda: nn.warmup_stable_decay_schedule(0, 1, 5, -1, 10), "stable_steps is -1"),
        (
            lambda: nn.warmup_stable_decay_schedule(0, 1, 5, 5, 10),
            "decay_steps=10 counts warm-up and plateau too, so it must be above 5 + 5",
        ),
    ],
)
def test_lengths_that_cannot_be_used(make, text):
    with pytest.raises(ConfigError) as error:
        make()
    assert text in str(error.value)


def test_known_faults(known_faults):
    for case in known_faults("lr_warmup"):
        peak, warmup = case["attrs"]["peak"], case["attrs"]["warmup"]
        right = [case["expect_out"], *case.get("accept_out", [])]
        for init in (0.0, peak / (warmup + 1)):
            schedule = nn.warmup_constant_schedule(init, peak, warmup)
            values = [float(schedule(step)) for step in case["inputs"]["step"]]
            assert any(np.allclose(values, want, **case["tolerance"]) for want in right), (case["id"], init, values)
