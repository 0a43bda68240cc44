"""Self-attention as a layer."""

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .. import ops
from ..lib.errors import ConfigError
from ..lib.keys import named_key
from .dropout import Dropout
from .initialisers import Initialiser
from .linear import Linear
from .module import Module, static


class SelfAttention(Module):
    """y = dropout(proj(attention(q, k, v))),   q, k, v = thirds of qkv(x), each cut into `heads` of K = D/heads.

    qkv.weight is (3·D, D): queries, keys, values, and head after head in each. Dropout is on the output; the weights of
    attention have none.
    """

    qkv: Linear
    proj: Linear
    dropout: Dropout
    heads: int = static()
    causal: bool = static(default=False)

    def __post_init__(self):
        width = self.proj.weight.shape[0]
        if self.heads < 1 or width % self.heads:
            raise ConfigError(f"SelfAttention: {self.heads} heads do not divide the width {width}")

    @classmethod
    def init(
        cls,
        key: PRNGKeyArray,
        width: int,
        heads: int,
        *,
        causal: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        initialiser: Initialiser | None = None,
        proj_initialiser: Initialiser | None = None,
        dtype: DTypeLike = jnp.float32,
    ) -> "SelfAttention":
        """proj_initialiser: where the layer that writes to a residual stream starts otherwise than qkv."""
        return cls(
            Linear.init(named_key(key, "qkv"), width, 3 * width, bias=bias, initialiser=initialiser, dtype=dtype),
            Linear.init(named_key(key, "proj"), width, width, bias=bias, initialiser=proj_initialiser or initialiser, dtype=dtype),
            Dropout(dropout),
            heads,
            causal,
        )

    def __call__(self, x: Float[Array, "B T D"], mask: Bool[Array, "#B #H #T #T"] | None = None, *, train: bool = False):
        """mask: true where a query (third axis) may attend to a key (last axis)."""
        if x.ndim != 3:
            raise ConfigError(f"SelfAttention takes x (batch, time, width), not {x.shape}")
        B, T, D = x.shape
        q, k, v = [ops.reshape(part, shape=(B, T, self.heads, D // self.heads)) for part in ops.split(self.qkv(x), 3, axis=-1)]
        y = ops.attention(q, k, v, mask, causal=self.causal)
        return self.dropout(self.proj(ops.reshape(y, shape=(B, T, D))), train=train)
