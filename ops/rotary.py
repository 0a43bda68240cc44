"""Rotary position embedding."""

from typing import Literal, get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..lib.errors import OperandError, near
from ..lib.precision import accumulator
from . import joining
from .arithmetic import add, mul, sub
from .identity import cast
from .op import fused
from .rule import is_float
from .shape import broadcasts, reshape

Pairs = Literal["halves", "interleaved"]


@fused(saves=("positions",))
def rotary(
    x: Float[Array, "... T H K"],
    positions: Int[Array, "... T"] | None = None,
    *,
    offset: int = 0,
    base: float = 10000.0,
    pairs: Pairs = "halves",
):
    """Each pair of numbers of a head turned by an angle that grows with its place in time:

        (a, b) ↦ (a·cos θ − b·sin θ, a·sin θ + b·cos θ),   θ = position·base^(−2i/K) for pair i of K/2.

    x̄ = ȳ turned by −θ.   No residuals; x is not kept. A score q·k of turned q and k depends on the difference of their positions.
    positions: integers, (T,) or one row for each example; by default 0 … T − 1. `offset` is added, as for the first token after
    a cache. pairs: "halves" takes i and i + K/2 together (GPT-NeoX, Llama in Hugging Face's layout), "interleaved" 2i and 2i + 1
    (the paper, Llama as published). Weights of one convention do not serve the other.
    Angles are held in `accumulator(dtype)`: at position 10⁵ a float32 angle is good to 0.004.
        Su et al. 2021, arXiv 2104.09864
    """
    if jnp.ndim(x) < 3 or x.shape[-1] % 2:
        raise OperandError(f"rotary: x of shape {jnp.shape(x)}; expected (..., time, heads, width) with an even width")
    if pairs not in get_args(Pairs):
        raise OperandError(f"rotary: pairs {pairs!r}" + near(str(pairs), get_args(Pairs)))
    if positions is not None and not jnp.issubdtype(jnp.result_type(positions), jnp.integer):
        raise OperandError(f"rotary: positions are {jnp.result_type(positions)}; expected integers")
    if positions is not None and not (jnp.ndim(positions) and broadcasts(positions.shape, x.shape[:-2])):
        raise OperandError(f"rotary: positions of shape {jnp.shape(positions)} do not broadcast to (..., T) = {x.shape[:-2]}")
    y = turned(x, angles(x, positions, offset, base), pairs)
    return y.astype(x.dtype) if is_float(x) else y


def angles(x, positions, offset: int, base: float):
    """θ, (…, T, 1, K/2)."""
    dtype, (time, _, width) = accumulator(x.dtype), x.shape[-3:]
    frequency = jnp.asarray(base ** (-np.arange(0, width, 2) / width), dtype)
    place = jnp.arange(time) if positions is None else positions
    return (place.astype(dtype) + offset)[..., None, None] * frequency


def paired(shape: tuple[int, ...], pairs: Pairs) -> tuple[tuple[int, ...], int]:
    """(the shape in which the two of a pair lie along an axis of their own, that axis)."""
    half = shape[-1] // 2
    return ((*shape[:-1], 2, half), -2) if pairs == "halves" else ((*shape[:-1], half, 2), -1)


def turned(x, angle, pairs: Pairs):
    shape, axis = paired(x.shape, pairs)
    a, b = jnp.unstack(x.reshape(shape), axis=axis)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([a * cos - b * sin, a * sin + b * cos], axis).reshape(x.shape)


@rotary.rule
def rotary_backward(res, y_bar, *, offset, base, pairs):
    # a rotation is undone by the angle −θ, and its inverse is its transpose
    return turned(y_bar, -angles(y_bar, res.positions, offset, base), pairs), None


@rotary.composite
def rotary_composite(x, positions=None, *, offset=0, base=10000.0, pairs: Pairs = "halves"):
    angle = angles(x, positions, offset, base)
    shape, axis = paired(x.shape, pairs)
    a, b = joining.unstack(cast(reshape(x, shape=shape), dtype=angle.dtype.name), axis=axis)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    y = joining.stack(sub(mul(a, cos), mul(b, sin)), add(mul(a, sin), mul(b, cos)), axis=axis)
    return cast(reshape(y, shape=x.shape), dtype=x.dtype.name)
