"""First values of parameters: `initialiser(key, shape, dtype=jnp.float32) -> array`.

`zeros` and `ones` are initialisers, everything else makes one. A weight is (out, in, *window), as in `Linear`; jax's
initialisers read (in, out) unless told `in_axis=1, out_axis=0`, and then draw the same values from the same key. Draws are made
in at least float32 and rounded to `dtype`.
"""

import math
import numbers
from collections.abc import Sequence
from typing import Literal, Protocol

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Key

from ..lib.errors import ConfigError, UnknownName, near
from ..lib.precision import accumulator

Shape = Sequence[int]
Mode = Literal["fan_in", "fan_out", "fan_avg"]
Distribution = Literal["normal", "truncated_normal", "uniform"]


class Initialiser(Protocol):
    """A function of a key and a shape."""

    def __call__(self, key: Key[Array, ""], shape: Shape, dtype: DTypeLike = jnp.float32) -> Float[Array, "..."]: ...


def zeros(key: Key[Array, ""], shape: Shape, dtype: DTypeLike = jnp.float32) -> Float[Array, "..."]:
    """All 0; the key is not used."""
    return jnp.zeros(shape, dtype)


def ones(key: Key[Array, ""], shape: Shape, dtype: DTypeLike = jnp.float32) -> Float[Array, "..."]:
    """All 1; the key is not used."""
    return jnp.ones(shape, dtype)


def normal(std: float) -> Initialiser:
    """N(0, std²). GPT-2: `normal(0.02)`."""
    finite("std", std)
    return scaled(jax.random.normal, std)


def truncated_normal(std: float, lower: float = -2.0, upper: float = 2.0) -> Initialiser:
    """std·z, with z ~ N(0, 1) kept within [lower, upper]: at ±2 the values have a standard deviation of 0.8796·std."""
    finite("std", std)
    if not lower < upper:
        raise ConfigError(f"truncated_normal keeps what lies in [lower, upper], which is empty for [{lower}, {upper}]")
    return scaled(lambda key, shape, dtype: jax.random.truncated_normal(key, lower, upper, shape, dtype), std)


def uniform(low: float, high: float) -> Initialiser:
    """U[low, high)."""
    if not -math.inf < low <= high < math.inf:
        raise ConfigError(f"uniform: low={low}, high={high}; expected finite numbers with low <= high")
    return scaled(lambda key, shape, dtype: jax.random.uniform(key, shape, dtype, low, high), 1.0)


# Standard deviation of N(0, 1) kept within ±2:  √(1 − 4·φ(2) / (2·Φ(2) − 1)) = 0.8796
TRUNCATED_STD = math.sqrt(1 - 4 * math.exp(-2) / math.sqrt(2 * math.pi) / math.erf(math.sqrt(2)))


def variance_scaling(scale: float, mode: Mode, distribution: Distribution) -> Initialiser:
    """Mean 0 and variance scale / fan.

    mode: `fan_in` = in·window, `fan_out` = out·window, or `fan_avg`, their mean, for a weight (out, in, *window).
    distribution: `normal`, `truncated_normal` (at ±2 of the untruncated one, the variance corrected for it) or `uniform`.
    """
    finite("scale", scale)
    known("mode", mode, ("fan_in", "fan_out", "fan_avg"))
    known("distribution", distribution, ("normal", "truncated_normal", "uniform"))

    def initialise(key, shape, dtype=jnp.float32):
        std = math.sqrt(scale / max(fan(shape, mode), 1))
        if distribution == "uniform":
            return uniform(-math.sqrt(3) * std, math.sqrt(3) * std)(key, shape, dtype)
        return (normal(std) if distribution == "normal" else truncated_normal(std / TRUNCATED_STD))(key, shape, dtype)

    return initialise


def lecun_normal() -> Initialiser:
    """Variance 1/fan_in, truncated normal. LeCun et al. 1998, section 4.6"""
    return variance_scaling(1.0, "fan_in", "truncated_normal")


def lecun_uniform() -> Initialiser:
    """Variance 1/fan_in, uniform."""
    return variance_scaling(1.0, "fan_in", "uniform")


def glorot_normal() -> Initialiser:
    """Variance 2/(fan_in + fan_out), truncated normal (torch's xavier_normal_ is not truncated). Glorot & Bengio 2010"""
    return variance_scaling(1.0, "fan_avg", "truncated_normal")


def glorot_uniform() -> Initialiser:
    """Variance 2/(fan_in + fan_out), uniform. Glorot & Bengio 2010, eq. 16"""
    return variance_scaling(1.0, "fan_avg", "uniform")


def he_normal() -> Initialiser:
    """Variance 2/fan_in, truncated normal (torch's kaiming_normal_ is not truncated). He et al. 2015, eq. 10"""
    return variance_scaling(2.0, "fan_in", "truncated_normal")


def he_uniform() -> Initialiser:
    """Variance 2/fan_in, uniform."""
    return variance_scaling(2.0, "fan_in", "uniform")


def scaled(draw, factor: float) -> Initialiser:
    """factor · draw(key, shape), in at least float32."""

    def initialise(key, shape, dtype=jnp.float32):
        if not jnp.issubdtype(dtype, jnp.floating):
            raise ConfigError(f"an initialiser was asked for {jnp.dtype(dtype).name}; parameters are floating")
        wide = accumulator(dtype)
        return (draw(key, tuple(shape), wide) * jnp.asarray(factor, wide)).astype(dtype)

    return initialise


def fan(shape: Shape, mode: Mode) -> float:
    """Inputs to an output, outputs of an input, or their mean."""
    if len(shape) < 2:
        raise ConfigError(f"a weight of shape {tuple(shape)} has no inputs and outputs; expected (out, in, ...), or use normal or uniform")
    outputs, inputs, window = shape[0], shape[1], math.prod(shape[2:])
    return {"fan_in": inputs, "fan_out": outputs, "fan_avg": (inputs + outputs) / 2}[mode] * window


def finite(name: str, value: float) -> None:
    if not isinstance(value, numbers.Real) or not 0 <= float(value) < math.inf:
        raise ConfigError(f"{name} is {value!r}; expected a finite number, 0 or more")


def known(name: str, value: str, names: tuple[str, ...]) -> None:
    if value not in names:
        raise UnknownName(f"variance_scaling has no {name} {value!r}" + near(str(value), names))
