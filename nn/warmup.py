"""Schedules that begin with a warm-up: a line up to the peak, so that the first steps do no harm.

The arguments mean the same in all: the line goes from `init_value` to `peak_value`, reached at step `warmup_steps`; `decay_steps`
is the length of the whole, warm-up included. With `init_value=0` the first update is a no-op: step 0 has rate 0;
`init_value=peak/(warmup_steps + 1)` wastes none. `warmup_steps=0` starts at the peak.
"""

import jax.numpy as jnp

from ..lib.errors import ConfigError
from .schedules import Schedule, Value, constant_schedule, half_wave, join_schedules, length, linear_schedule


def warmup_constant_schedule(init_value: Value, peak_value: Value, warmup_steps: float) -> Schedule:
    """A line from `init_value` to `peak_value`, reached at step `warmup_steps`; then constant.

    With `init_value=0` the first update is a no-op: step 0 has rate 0. `init_value=peak/(warmup_steps + 1)` wastes none.
    `warmup_steps=0` is the peak from the start (optax 0.2 gives `init_value` for ever).
    """
    if length("warmup_steps", warmup_steps) == 0:
        return constant_schedule(peak_value)
    return linear_schedule(init_value, peak_value, warmup_steps)


def warmup_cosine_decay_schedule(
    init_value: Value,
    peak_value: Value,
    warmup_steps: float,
    decay_steps: float,
    end_value: Value = 0.0,
    exponent: Value = 1.0,
) -> Schedule:
    """A line from `init_value` to `peak_value`, reached at step `warmup_steps`; then half a cosine to `end_value`.

    decay_steps: length of the whole, warm-up included; `end_value` is reached at this step and kept.
    With `init_value=0` the first update is a no-op: step 0 has rate 0. `init_value=peak/(warmup_steps + 1)` wastes none.
    `warmup_steps=0` starts at the peak. A `peak_value` of 0 decays to 0 whatever `end_value` says, as in optax.
    """
    warmup, decay = spans(warmup_steps, decay_steps)

    def cosine(count):
        end = jnp.where(jnp.equal(peak_value, 0), 0.0, end_value)
        return end + (peak_value - end) * half_wave(count, decay, exponent)

    return join_schedules([linear_schedule(init_value, peak_value, warmup), cosine], [warmup])


def warmup_linear_decay_schedule(
    init_value: Value, peak_value: Value, warmup_steps: float, decay_steps: float, end_value: Value = 0.0
) -> Schedule:
    """A line up from `init_value` to `peak_value`, reached at step `warmup_steps`; then a line to `end_value`.

    optax has no name for it: it is its `join_schedules` of two `linear_schedule`s. The arguments mean what they mean in
    `warmup_cosine_decay_schedule`; with `init_value=0` the first update is a no-op here as well.
    """
    warmup, decay = spans(warmup_steps, decay_steps)
    return join_schedules([linear_schedule(init_value, peak_value, warmup), linear_schedule(peak_value, end_value, decay)], [warmup])


def warmup_inverse_sqrt_schedule(init_value: Value, peak_value: Value, warmup_steps: float) -> Schedule:
    """A line from `init_value` to `peak_value`, reached at step W = `warmup_steps`; then  v(t) = peak·√(W/t), without end.

    Vaswani et al. 2017, section 5.3, where peak = 1/√(width·W); they count steps from 1, so their first rate is v(1).
    `warmup_steps=0` is  peak/√max(t, 1). optax and torch have no name for it.
    """
    warmup = length("warmup_steps", warmup_steps)
    first = max(warmup, 1)

    def falling(count):  # counted from the end of the warm-up
        return peak_value * jnp.sqrt(first / jnp.maximum(count + warmup, first))

    return widely(join_schedules([linear_schedule(init_value, peak_value, warmup), falling], [warmup]))


def warmup_stable_decay_schedule(
    init_value: Value,
    peak_value: Value,
    warmup_steps: float,
    stable_steps: float,
    decay_steps: float,
    end_value: Value = 0.0,
    exponent: Value = 1.0,
) -> Schedule:
    """A line from `init_value` to `peak_value`, reached at step `warmup_steps`; the peak for `stable_steps`; then the decay

        v = end + (peak − end)·(1 − s^exponent),   s from 0 to 1,     a line; `exponent=0.5` is the 1 − √s of Hägele et al.

    to `end_value` at step `decay_steps`, the length of the whole. A run can be taken up from any step of the plateau and
    decayed from there. optax and torch have no name for it.     Hu et al. 2024 (MiniCPM), section 4; Hägele et al. 2024
    """
    stable = length("stable_steps", stable_steps)
    warmup, rest = spans(warmup_steps, decay_steps)
    if rest <= stable:
        raise ConfigError(f"decay_steps={decay_steps} counts warm-up and plateau too, so it must be above {warmup_steps} + {stable_steps}")

    def falling(count):
        s = jnp.clip(count / (rest - stable), 0, 1)
        return end_value + (peak_value - end_value) * (1 - s**exponent)

    parts = [linear_schedule(init_value, peak_value, warmup), constant_schedule(peak_value), falling]
    return widely(join_schedules(parts, [warmup, warmup + stable]))


def spans(warmup_steps: float, decay_steps: float) -> tuple[float, float]:
    """Lengths of warm-up and decay, from `decay_steps` that counts both."""
    warmup, total = length("warmup_steps", warmup_steps), length("decay_steps", decay_steps)
    if total <= warmup:
        raise ConfigError(f"decay_steps={decay_steps} counts the warm-up too, so it must be above warmup_steps={warmup_steps}")
    return warmup, total - warmup


def widely(schedule: Schedule) -> Schedule:
    """The schedule of the step as a float, the widest enabled: an int32 step divided by a number is a float32 even under x64."""
    return lambda count: schedule(jnp.asarray(count, float))
