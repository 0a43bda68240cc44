"""Schedules: functions from the step, counted from 0, to a value, under optax's names.

A step may be a Python int or a traced int32; a step below 0 reads as 0. The values (`init_value`, `peak_value`, ...) may be
traced too: built inside a compiled step from its arguments, a schedule bakes nothing in. The lengths are plain numbers.
"""

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..lib.errors import ConfigError

Value = float | Float[Array, ""]
Schedule = Callable[[Any], Any]  # step -> value


def constant_schedule(value: Value) -> Schedule:
    """`value` at every step."""
    return lambda count: value


def linear_schedule(init_value: Value, end_value: Value, transition_steps: float, transition_begin: float = 0) -> Schedule:
    """A straight line:  v(t) = (init − end)·(1 − s) + end,   s = clip(t − begin, 0, steps) / steps.

    With `transition_steps=0` there is no line and the value stays at `init_value` for ever, as in optax.
    """
    steps, begin = length("transition_steps", transition_steps), length("transition_begin", transition_begin)
    if steps == 0:
        return constant_schedule(init_value)

    def schedule(count):
        left = 1 - jnp.clip(count - begin, 0, steps) / steps
        return (init_value - end_value) * left + end_value

    return schedule


def cosine_decay_schedule(init_value: Value, decay_steps: float, alpha: Value = 0.0, exponent: Value = 1.0) -> Schedule:
    """Half a cosine:  v(t) = init·((1 − α)·c(t)^exponent + α),   c(t) = (1 + cos(π·min(t, steps)/steps)) / 2.

    It ends at `alpha * init_value` and stays there. Loshchilov & Hutter 2017, eq. 5, one period.
    """
    steps = length("decay_steps", decay_steps)
    if steps == 0:
        raise ConfigError("cosine_decay_schedule: decay_steps is 0; expected a length above 0, or use constant_schedule")
    return lambda count: init_value * ((1 - alpha) * half_wave(count, steps, exponent) + alpha)


def half_wave(count, steps: float, exponent: Value):
    """From 1 down to 0 over `steps`."""
    t = jnp.clip(count, 0, float(steps))
    return (0.5 * (1 + jnp.cos(jnp.pi * t / steps))) ** exponent


def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[float]) -> Schedule:
    """One schedule after the other: `schedules[i + 1]` takes over at step `boundaries[i]` and counts from 0 there."""
    between = len(schedules) - 1
    if len(boundaries) != between:
        raise ConfigError(f"join_schedules: {len(schedules)} schedules have {between} boundaries between them; got {len(boundaries)}")
    if list(boundaries) != sorted(boundaries):
        raise ConfigError(f"join_schedules: the boundaries {list(boundaries)} must rise")

    def schedule(count):
        value = schedules[0](count)
        for boundary, after in zip(boundaries, schedules[1:]):
            value = jnp.where(count < boundary, value, after(count - boundary))
        return value

    return schedule


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


def spans(warmup_steps: float, decay_steps: float) -> tuple[float, float]:
    """Lengths of warm-up and decay, from `decay_steps` that counts both."""
    warmup, total = length("warmup_steps", warmup_steps), length("decay_steps", decay_steps)
    if total <= warmup:
        raise ConfigError(f"decay_steps={decay_steps} counts the warm-up too, so it must be above warmup_steps={warmup_steps}")
    return warmup, total - warmup


def length(name: str, steps: float) -> float:
    """A number of steps, finite and not below 0; as a float where it would overflow beside an int32 step."""
    if not isinstance(steps, numbers.Real) or not 0 <= float(steps) < math.inf:
        raise ConfigError(f"{name} is {steps!r}; expected a number of steps, 0 or more")
    return steps if steps < 2**31 else float(steps)
