"""Schedules: functions from the step, counted from 0, to a value, under optax's names.

A step may be a Python int or a traced int32; a step below 0 reads as 0. The values (`init_value`, `peak_value`, ...) may be
traced too: built inside a compiled step from its arguments, a schedule bakes nothing in. The lengths are plain numbers.
Those that begin with a warm-up are in warmup.py, the cycles in onecycle.py.
"""

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
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


def exponential_decay(
    init_value: Value,
    transition_steps: float,
    decay_rate: Value,
    transition_begin: float = 0,
    staircase: bool = False,
    end_value: Value | None = None,
) -> Schedule:
    """A constant factor per `transition_steps`:  v(t) = init·rate^s,   s = max(t − begin, 0)/steps, with `staircase` ⌊s⌋.

    end_value: where it stops, a floor for a rate below 1, else a ceiling. With `transition_steps=0` the value stays at
    `init_value` for ever, as in optax.
    """
    steps, begin = length("transition_steps", transition_steps), length("transition_begin", transition_begin)
    if isinstance(decay_rate, numbers.Real) and not 0 < float(decay_rate) < math.inf:
        raise ConfigError(f"exponential_decay: decay_rate is {decay_rate!r}; expected a factor above 0")
    if steps == 0:
        return constant_schedule(init_value)

    def schedule(count):
        s = jnp.maximum(count - begin, 0) / steps
        value = init_value * jnp.power(decay_rate, jnp.floor(s) if staircase else s)
        if end_value is None:
            return value
        return jnp.where(jnp.less(decay_rate, 1), jnp.maximum(value, end_value), jnp.minimum(value, end_value))

    return schedule


def piecewise_constant_schedule(init_value: Value, boundaries_and_scales: Mapping[float, Value] | None = None) -> Schedule:
    """Steps: `init_value`, multiplied by `boundaries_and_scales[b]` from step b on, for each boundary b.

    {30: 0.1, 60: 0.1} is a tenth from step 30 and a hundredth from step 60: torch's `MultiStepLR([30, 60], gamma=0.1)`.
    """
    scales = {length("a boundary", b): scale for b, scale in (boundaries_and_scales or {}).items()}
    for boundary, scale in scales.items():
        if isinstance(scale, numbers.Real) and not 0 <= float(scale) < math.inf:
            raise ConfigError(f"piecewise_constant_schedule: the scale at {boundary} is {scale!r}; expected a factor, 0 or more")

    def schedule(count):
        value = init_value
        for boundary, scale in sorted(scales.items()):
            value = jnp.where(count < boundary, value, value * scale)
        return value

    return schedule


def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[float]) -> Schedule:
    """One schedule after the other: `schedules[i + 1]` takes over at step `boundaries[i]` and counts from 0 there."""
    between = len(schedules) - 1
    if len(boundaries) != between:
        raise ConfigError(f"join_schedules: {len(schedules)} schedules have {between} boundaries between them; got {len(boundaries)}")
    if list(boundaries) != sorted(boundaries):
        raise ConfigError(f"join_schedules: the boundaries {list(boundaries)} must rise")

    def schedule(count):
        count = jnp.maximum(count, 0)
        value = schedules[0](count)
        for boundary, after in zip(boundaries, schedules[1:]):
            value = jnp.where(count < boundary, value, after(count - boundary))
        return value

    return schedule


def length(name: str, steps: float) -> float:
    """A number of steps, finite and not below 0; as a float where it would overflow beside an int32 step."""
    if not isinstance(steps, numbers.Real) or not 0 <= float(steps) < math.inf:
        raise ConfigError(f"{name} is {steps!r}; expected a number of steps, 0 or more")
    return steps if steps < 2**31 else float(steps)
