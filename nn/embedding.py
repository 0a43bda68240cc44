"""A table that is looked up by integers."""

import math

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .. import ops
from .casting import to_compute
from .initialisers import Initialiser, normal
from .module import Module, param


class Embedding(Module):
    """y = the rows of `weight` (V, D) at ids;   rows that are named several times add up their cotangents.

    A traced id outside 0 … V − 1 gives NaN. Under a narrow precision policy the rows are cast, not the table.
    """

    weight: Float[Array, "V D"] = param()

    @classmethod
    def init(
        cls, key: PRNGKeyArray, count: int, width: int, *, initialiser: Initialiser | None = None, dtype: DTypeLike = jnp.float32
    ) -> "Embedding":
        """`count` rows of `width`, by default N(0, 1/width): rows of length about 1."""
        initialiser = initialiser or normal(1 / math.sqrt(width))
        return cls(initialiser(key, (count, width), dtype))

    def __call__(self, ids: Int[Array, "..."]):
        return to_compute(ops.embedding(self.weight, ids))

    def rows(self, n: int):
        """The rows 0 … n − 1, such as those of the first n positions: a slice, whose pullback scatters nothing."""
        return to_compute(ops.index(self.weight, slice(0, n)))
