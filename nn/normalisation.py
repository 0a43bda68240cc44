"""Layer normalisation as a layer."""

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from .. import ops
from .casting import to_compute
from .module import Module, param, static


class LayerNorm(Module):
    """y = (x − mean)/√(variance + ε)·scale + bias over the last axis.

    The statistics, scale and bias are at work in at least float32 under every policy; only y comes out narrow.
    """

    scale: Float[Array, " D"] | None = param(default=None)
    bias: Float[Array, " D"] | None = param(default=None)
    eps: float = static(default=1e-5)

    @classmethod
    def init(cls, width: int, *, scale: bool = True, bias: bool = True, eps: float = 1e-5, dtype: DTypeLike = jnp.float32) -> "LayerNorm":
        """Scale 1, bias 0."""
        return cls(jnp.ones(width, dtype) if scale else None, jnp.zeros(width, dtype) if bias else None, eps)

    def __call__(self, x: Float[Array, "... D"]):
        return to_compute(ops.layer_norm(x, self.scale, self.bias, eps=self.eps))
