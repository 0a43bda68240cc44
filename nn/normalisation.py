"""Layer, root-mean-square and group normalisation as layers.

The statistics, scale and bias are at work in at least float32 under every policy; only y comes out narrow.
"""

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from .. import ops
from ..lib.errors import ConfigError
from .casting import to_compute
from .module import Module, param, static


class LayerNorm(Module):
    """y = (x − mean)/√(variance + ε)·scale + bias over the last axis."""

    scale: Float[Array, " D"] | None = param(default=None)
    bias: Float[Array, " D"] | None = param(default=None)
    eps: float = static(default=1e-5)

    @classmethod
    def init(cls, width: int, *, scale: bool = True, bias: bool = True, eps: float = 1e-5, dtype: DTypeLike = jnp.float32) -> "LayerNorm":
        """Scale 1, bias 0."""
        return cls(jnp.ones(width, dtype) if scale else None, jnp.zeros(width, dtype) if bias else None, eps)

    def __call__(self, x: Float[Array, "... D"]):
        return to_compute(ops.layer_norm(x, self.scale, self.bias, eps=self.eps))


class RMSNorm(Module):
    """y = x/√(mean x² + ε)·scale over the last axis. Its ε is 1e-6; torch's RMSNorm takes that of the dtype unless told."""

    scale: Float[Array, " D"] | None = param(default=None)
    eps: float = static(default=1e-6)

    @classmethod
    def init(cls, width: int, *, scale: bool = True, eps: float = 1e-6, dtype: DTypeLike = jnp.float32) -> "RMSNorm":
        """Scale 1."""
        return cls(jnp.ones(width, dtype) if scale else None, eps)

    def __call__(self, x: Float[Array, "... D"]):
        return to_compute(ops.rms_norm(x, self.scale, eps=self.eps))


class GroupNorm(Module):
    """y = (x − mean)/√(variance + ε)·scale + bias, the statistics over each group of channels and all positions of an example.

    x is (batch, ..., channels): channels last, where torch has them second. One group is layer normalisation over everything
    but the batch, as many groups as channels are instance normalisation.
    """

    scale: Float[Array, " C"] | None = param(default=None)
    bias: Float[Array, " C"] | None = param(default=None)
    groups: int = static(kw_only=True)
    eps: float = static(default=1e-5)

    def __post_init__(self):
        for name in ("scale", "bias"):
            p = getattr(self, name)
            if self.groups < 1 or p is not None and p.shape[0] % self.groups:
                raise ConfigError(f"GroupNorm: {self.groups} groups do not divide {'the' if p is None else p.shape[0]} channels")

    @classmethod
    def init(
        cls, channels: int, groups: int, *, scale: bool = True, bias: bool = True, eps: float = 1e-5, dtype: DTypeLike = jnp.float32
    ) -> "GroupNorm":
        """Scale 1, bias 0."""
        return cls(jnp.ones(channels, dtype) if scale else None, jnp.zeros(channels, dtype) if bias else None, eps, groups=groups)

    def __call__(self, x: Float[Array, "B ... C"]):
        return to_compute(ops.group_norm(x, self.scale, self.bias, groups=self.groups, eps=self.eps))
