"""The affine layer."""

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, PRNGKeyArray

from .. import ops
from .casting import to_compute
from .initialisers import Initialiser, lecun_normal
from .module import Module, param


class Linear(Module):
    """y = x·Wᵀ + b over the last axis of x;   weight is (out, in).

    Under a narrow precision policy x, W and b are cast on their way in, and y comes out narrow.
    """

    weight: Float[Array, "O I"] = param()
    bias: Float[Array, " O"] | None = param(default=None)

    @classmethod
    def init(
        cls,
        key: PRNGKeyArray,
        inputs: int,
        outputs: int,
        *,
        bias: bool = True,
        initialiser: Initialiser | None = None,
        dtype: DTypeLike = jnp.float32,
    ) -> "Linear":
        """The weight from `initialiser` (by default `lecun_normal()`), the bias 0 (`bias=False`: none)."""
        initialiser = initialiser or lecun_normal()
        return cls(initialiser(key, (outputs, inputs), dtype), jnp.zeros(outputs, dtype) if bias else None)

    def __call__(self, x: Float[Array, "... I"]):
        return ops.linear(to_compute(x), to_compute(self.weight), to_compute(self.bias))
