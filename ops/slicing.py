"""Basic indexing: slices and new axes, which are known before any number is. `indexing.py` has the rest.

A key is what x[...] was given, made hashable: `(start, stop, step)` for a slice, `None` for a new axis; axes past its end
stay whole.
"""

import builtins

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from .op import primitive

Key = tuple[tuple[int | None, int | None, int | None] | None, ...]


@primitive()
def slice(x: Float[Array, "..."], *, key: Key):
    """y = x[key].   x̄ = zeros in the shape of x with ȳ where it was cut out."""
    x = jnp.asarray(x)
    starts, sizes, steps = cuts(key, x.shape)
    back = tuple(a for a, step in enumerate(steps) if step < 0)
    limits = [lo + (n - 1) * step + 1 if n else lo for lo, n, step in zip(starts, sizes, map(abs, steps))]
    y = lax.rev(lax.slice(x, starts, limits, [abs(step) for step in steps]), back)
    return jnp.expand_dims(y, new_axes(key))


@slice.rule
def slice_backward(res, y_bar, *, key):
    return (slice_transpose(y_bar, key=key, shape=res.x.shape),)


@primitive()
def slice_transpose(y: Float[Array, "..."], *, key: Key, shape: tuple[int, ...]):
    """x = zeros(shape) with x[key] = y.   ȳ = x̄[key].

    Padding, where a scatter would do the same: XLA fuses it, and a sum of several reads each once.
    """
    y = jnp.squeeze(jnp.asarray(y), new_axes(key))
    starts, sizes, steps = cuts(key, shape)
    back = tuple(a for a, step in enumerate(steps) if step < 0)
    gaps = [abs(step) - 1 for step in steps]
    after = [full - lo - n - builtins.max(n - 1, 0) * gap for full, lo, n, gap in zip(shape, starts, sizes, gaps)]
    return lax.pad(lax.rev(y, back), jnp.zeros((), y.dtype), list(zip(starts, after, gaps)))


@slice_transpose.rule
def slice_transpose_backward(res, x_bar, *, key, shape):
    return (slice(x_bar, key=key),)


def cuts(key: Key, shape: tuple[int, ...]) -> tuple[list[int], list[int], list[int]]:
    """(lowest index taken, how many are taken, step) for every axis of the whole array."""
    starts, sizes, steps = [], [], []
    cut = [k for k in key if k is not None]
    for (start, stop, step), n in zip([*cut, *[(None, None, None)] * (len(shape) - len(cut))], shape):
        taken = range(n)[builtins.slice(start, stop, step)]
        starts.append(min(taken[0], taken[-1]) if taken else 0)
        sizes.append(len(taken))
        steps.append(taken.step)
    return starts, sizes, steps


def new_axes(key: Key) -> tuple[int, ...]:
    """Where the new axes stand in the result."""
    return tuple(a for a, k in enumerate(key) if k is None)
