"""What the machine does in a second at its best: products, and reading. Median rates of plain programs, in this process."""

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..lib.precision import policy

LONG = 0.01  # seconds of a product that is long enough to be measured
SIDES = (512, 1024, 2048, 4096, 8192)
REPEATS = 10


class Rates(NamedTuple):
    """product: floating-point operations per second. read: bytes per second."""

    product: float
    read: float


def rates() -> Rates:
    return Rates(product_rate(), read_rate(jnp.ones((8192, 8192), jnp.float32)))


def product_rate() -> float:
    """2·N³ operations a second in a product of two N by N matrices, in the dtype and the precision of the policy in force; N is the
    first of `SIDES` that takes long enough."""
    rule, rate = policy(), 0.0
    product = jax.jit(lambda a, b: jnp.matmul(a, b, precision=rule.product))
    for side in SIDES:
        matrix = jnp.ones((side, side), rule.compute)
        seconds = median_seconds(lambda matrix=matrix: product(matrix, matrix))
        rate = 2 * side**3 / seconds
        if seconds > LONG:
            break
    return rate


def read_rate(matrix: Float[Array, "N K"]) -> float:
    """Bytes a second at which a matrix-vector product reads its matrix; of a matrix much larger than the caches: those of memory."""
    vector = jnp.ones(matrix.shape[1])
    product = jax.jit(lambda w, x: w @ x)
    return matrix.nbytes / median_seconds(lambda: product(matrix, vector))


def median_seconds(run: Callable[[], jax.Array]) -> float:
    """Of calls after one that is not counted."""
    seconds = []
    for _ in range(1 + REPEATS):
        began = time.perf_counter()
        run().block_until_ready()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[1:])
