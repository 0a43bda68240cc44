"""One cycle: up to the peak and down to almost nothing, the whole run long. Smith & Topin 2018, "super-convergence"."""

from collections.abc import Callable, Sequence

import jax.numpy as jnp

from ..lib.errors import ConfigError
from .schedules import Schedule, Value, length


def cosine_onecycle_schedule(
    transition_steps: float,
    peak_value: Value,
    pct_start: float = 0.3,
    div_factor: Value = 25.0,
    final_div_factor: Value = 1e4,
) -> Schedule:
    """Half a cosine up and half a cosine down:

        peak/div_factor  →  peak at step ⌊pct_start·steps⌋  →  peak/(div_factor·final_div_factor) at step `transition_steps`

    and there it stays. torch's OneCycleLR(total_steps=n) has its peak at step pct_start·n − 1, not rounded, and its end at
    n − 1: the same for n = steps + 1 and a pct_start of (⌊pct_start·steps⌋ + 1)/n.
    """
    first, last = peak_value / div_factor, peak_value / (div_factor * final_div_factor)
    wave = lambda start, end, s: end + (start - end) / 2 * (jnp.cos(jnp.pi * s) + 1)
    return through(wave, [first, peak_value, last], corners(transition_steps, pct_start))


def linear_onecycle_schedule(
    transition_steps: float,
    peak_value: Value,
    pct_start: float = 0.3,
    pct_final: float = 0.85,
    div_factor: Value = 25.0,
    final_div_factor: Value = 1e4,
) -> Schedule:
    """Three lines:

        peak/div_factor  →  peak at step ⌊pct_start·steps⌋  →  peak/div_factor at step ⌊pct_final·steps⌋
                         →  peak/(div_factor·final_div_factor) at step `transition_steps`

    and there it stays. torch's OneCycleLR(three_phase=True, anneal_strategy="linear") has its corners a step earlier, as in
    `cosine_onecycle_schedule`, and its second at 2·pct_start·n − 2: its way down is as long as its way up.
    """
    first, last = peak_value / div_factor, peak_value / (div_factor * final_div_factor)
    line = lambda start, end, s: start + (end - start) * s
    return through(line, [first, peak_value, first, last], corners(transition_steps, pct_start, pct_final))


def through(shape: Callable, values: Sequence[Value], corners: Sequence[float]) -> Schedule:
    """The first value at step 0, each other at its corner, the last ever after; shape(start, end, s) in between, s from 0 to 1."""

    def schedule(count):
        count = jnp.maximum(count, 0)
        starts, ends = jnp.stack((0, *corners[:-1])), jnp.stack(corners)  # weakly typed, as Python's numbers are
        level = jnp.stack([jnp.asarray(value, float) for value in values])  # the widest enabled, also beside an int32 step
        pieces = shape(level[:-1], level[1:], (count - starts) / jnp.maximum(ends - starts, 1))
        return jnp.append(pieces, level[-1])[jnp.sum(count >= ends)]

    return schedule


def corners(transition_steps: float, *fractions: float) -> list[float]:
    """The steps at which the pieces end: each fraction of the whole, rounded down, and the whole."""
    steps = length("transition_steps", transition_steps)
    if not all(0 <= fraction < 1 for fraction in fractions):
        raise ConfigError(f"a cycle with corners at {', '.join(map(str, fractions))} of it; expected fractions from 0 up to, but not, 1")
    found = [*(int(fraction * steps) for fraction in fractions), steps]
    if any(a >= b for a, b in zip(found, found[1:])):
        raise ConfigError(f"a cycle of {steps} steps would have its corners at steps {', '.join(map(str, found))}; expected them to rise")
    return found
