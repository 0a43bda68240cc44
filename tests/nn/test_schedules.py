"""Schedules against optax and their closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pullback import nn
from pullback.lib.errors import ConfigError

COUNTS = np.arange(45)

# name, arguments, keyword arguments: the same call on both sides
CALLS = [
    ("constant_schedule", (0.3,), {}),
    ("linear_schedule", (0.1, 0.7, 20), {}),
    ("linear_schedule", (0.7, 0.0, 9), {"transition_begin": 13}),
    ("linear_schedule", (0.2, 0.4, 0), {}),
    ("cosine_decay_schedule", (0.3, 25), {}),
    ("cosine_decay_schedule", (0.3, 25), {"alpha": 0.1, "exponent": 1.7}),
    ("cosine_decay_schedule", (0.3, 2**40), {}),
    ("warmup_constant_schedule", (0.0, 0.3, 7), {}),
    ("warmup_constant_schedule", (0.5, 0.3, 1), {}),
    ("warmup_cosine_decay_schedule", (0.0, 0.3, 7, 31), {}),
    ("warmup_cosine_decay_schedule", (0.1, 0.3, 1, 40), {"end_value": 0.02, "exponent": 2.0}),
    ("warmup_cosine_decay_schedule", (0.1, 0.3, 0, 20), {"end_value": 0.5}),
    ("warmup_cosine_decay_schedule", (0.1, 0.0, 5, 20), {"end_value": 0.5}),
    ("warmup_cosine_decay_schedule", (0.1, 0.3, 19.0, 20), {}),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]}{call[1]}")
def test_equals_optax(call):
    name, args, kwargs = call
    ours, theirs = getattr(nn, name)(*args, **kwargs), getattr(optax, name)(*args, **kwargs)
    with jax.enable_x64(True):
        traced = jax.jit(lambda counts: (jax.vmap(ours)(counts), jax.vmap(theirs)(counts)))
        for kind in (np.int64, np.int32):  # a line over an int32 step is a float32, there and here
            np.testing.assert_allclose(*traced(COUNTS.astype(kind)), rtol=1e-12, atol=1e-14)
        for count in (0, 1, 7, 19, 44):  # a Python int
            np.testing.assert_allclose(ours(count), theirs(count), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(ours(jnp.int32(8)), theirs(8), rtol=1e-6)  # float32


def test_joined_schedules_equal_optax():
    parts = [nn.linear_schedule(0.0, 1.0, 5), nn.constant_schedule(0.5), nn.cosine_decay_schedule(0.4, 10)]
    with jax.enable_x64(True):
        for boundaries in ([5, 20], [0, 20], [8, 8]):
            ours, theirs = nn.join_schedules(parts, boundaries), optax.join_schedules(parts, boundaries)
            np.testing.assert_allclose(jax.vmap(ours)(COUNTS), jax.vmap(theirs)(COUNTS), rtol=1e-14)


def test_warmup_then_linear_decay_has_its_closed_form():
    with jax.enable_x64(True):
        for warmup, decay in ((7, 31), (0, 20), (1, 2)):
            ours = nn.warmup_linear_decay_schedule(0.1, 0.3, warmup, decay, end_value=0.05)
            want = np.interp(COUNTS, [warmup - 1e-9, warmup, decay] if warmup == 0 else [0, warmup, decay], [0.1, 0.3, 0.05])
            np.testing.assert_allclose(jax.vmap(ours)(COUNTS), want, rtol=1e-12)


def test_ends_are_exact_in_float32():
    ours = nn.warmup_cosine_decay_schedule(0.0, 3e-4, 100, 2000, end_value=3e-5)
    line = nn.warmup_linear_decay_schedule(0.0, 3e-4, 100, 2000, end_value=3e-5)
    for schedule in (ours, line):
        assert schedule(0) == 0 and schedule(2000) == schedule(10**6) == jnp.float32(3e-5)
        values = np.asarray(jax.vmap(schedule)(jnp.arange(2001)))
        assert values.argmax() == 100 and values.max() == pytest.approx(3e-4, rel=1e-6)
        assert np.all(np.diff(values[:101]) > 0) and np.all(np.diff(values[100:]) <= 0)


@pytest.mark.parametrize("make", [nn.warmup_constant_schedule, nn.warmup_cosine_decay_schedule, nn.warmup_linear_decay_schedule])
def test_warmup_of_no_step_and_of_one(make):
    rest = () if make is nn.warmup_constant_schedule else (30,)
    none, one = make(0.0, 1.0, 0, *rest), make(0.0, 1.0, 1, *rest)
    assert none(0) == 1 and one(0) == 0 and one(1) == 1
    assert make(1.0 / 5, 1.0, 4, *rest)(0) == pytest.approx(0.2)  # peak/(warm-up + 1): no wasted step


def test_a_count_below_0_reads_as_0():
    for schedule in (nn.linear_schedule(0.1, 0.7, 20), nn.cosine_decay_schedule(0.3, 25), nn.warmup_cosine_decay_schedule(0.1, 0.3, 7, 31)):
        assert schedule(-5) == schedule(jnp.int32(-1)) == schedule(0)


def test_values_may_be_traced():
    @jax.jit
    def rates(init, peak, end, count):
        args = (init, peak, 5, 20)
        return (
            nn.warmup_cosine_decay_schedule(*args, end_value=end)(count),
            nn.warmup_linear_decay_schedule(*args, end_value=end)(count),
            nn.warmup_constant_schedule(init, peak, 5)(count),
            nn.cosine_decay_schedule(peak, 20, alpha=end)(count),
        )

    for init, peak, end, count in ((0.1, 0.5, 0.2, 3), (0.0, 0.3, 0.1, 12), (0.2, 0.0, 0.1, 12)):
        want = (
            nn.warmup_cosine_decay_schedule(init, peak, 5, 20, end)(count),
            nn.warmup_linear_decay_schedule(init, peak, 5, 20, end)(count),
            nn.warmup_constant_schedule(init, peak, 5)(count),
            nn.cosine_decay_schedule(peak, 20, alpha=end)(count),
        )
        np.testing.assert_allclose(rates(init, peak, end, count), want, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: nn.linear_schedule(0, 1, -1), "transition_steps is -1; expected a number of steps, 0 or more"),
        (lambda: nn.linear_schedule(0, 1, 5, transition_begin=-2), "transition_begin is -2"),
        (lambda: nn.linear_schedule(0, 1, float("nan")), "transition_steps is nan"),
        (lambda: nn.linear_schedule(0, 1, "5"), "transition_steps is '5'"),  # type: ignore
        (lambda: nn.cosine_decay_schedule(1, 0), "decay_steps is 0"),
        (lambda: nn.cosine_decay_schedule(1, -3), "decay_steps is -3"),
        (lambda: nn.warmup_constant_schedule(0, 1, -1), "warmup_steps is -1"),
        (lambda: nn.warmup_cosine_decay_schedule(0, 1, -1, 10), "warmup_steps is -1"),
        (
            lambda: nn.warmup_cosine_decay_schedule(0, 1, 10, 10),
            "decay_steps=10 counts the warm-up too, so it must be above warmup_steps=10",
        ),
        (lambda: nn.warmup_linear_decay_schedule(0, 1, 10, 5), "decay_steps=5 counts the warm-up too"),
        (lambda: nn.join_schedules([], []), "0 schedules"),
        (lambda: nn.join_schedules([nn.constant_schedule(1)] * 2, [3, 4]), "2 schedules have 1 boundaries between them; got 2"),
        (lambda: nn.join_schedules([nn.constant_schedule(1)] * 3, [5, 4]), "[5, 4] must rise"),
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
