"""Self-attention as a layer."""

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

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
        q, k, v = self.heads_of(x)
        return self.dropout(self.joined(ops.attention(q, k, v, mask, causal=self.causal)), train=train)

    def extend(
        self, x: Float[Array, "B T D"], keys: Float[Array, "B H S K"], values: Float[Array, "B H S K"], start: Int[Array, " B"]
    ) -> tuple[Float[Array, "B T D"], Float[Array, "B H S K"], Float[Array, "B H S K"]]:
        """(y, keys, values) for T further positions of texts whose earlier keys and values are kept.

        Row b has `start[b]` of its S places filled; its new ones go to the places start[b] … start[b] + T − 1, of which there must
        be as many. Each position attends to all places up to its own. No dropout.
        """
        if not self.causal:
            raise ConfigError("SelfAttention.extend: only causal attention can go on from what came before")
        q, k, v = self.heads_of(x)
        keys, values = written(keys, k, start), written(values, v, start)
        seen = jnp.arange(keys.shape[2]) <= (start[:, None] + jnp.arange(x.shape[1]))[:, :, None]
        y = ops.attention(q, jnp.swapaxes(keys, 1, 2), jnp.swapaxes(values, 1, 2), seen[:, None])
        return self.joined(y), keys, values

    def heads_of(self, x: Float[Array, "B T D"]) -> list[Float[Array, "B T H K"]]:
        """Queries, keys and values."""
        if x.ndim != 3:
            raise ConfigError(f"SelfAttention takes x (batch, time, width), not {x.shape}")
        B, T, D = x.shape
        return [ops.reshape(part, shape=(B, T, self.heads, D // self.heads)) for part in ops.split(self.qkv(x), 3, axis=-1)]

    def joined(self, y: Float[Array, "B T H K"]) -> Float[Array, "B T D"]:
        """The projection of what the heads found."""
        return self.proj(ops.reshape(y, shape=(*y.shape[:2], y.shape[2] * y.shape[3])))


def written(places: Float[Array, "B H S K"], new: Float[Array, "B T H K"], start: Int[Array, " B"]) -> Float[Array, "B H S K"]:
    """The places with new ones from start[b] on in row b."""
    # One row after the other: mapped over rows it would be a scatter, for which XLA copies all places, several times; without the
    # barrier it would be done again for every use, each time on a copy.
    new = jnp.swapaxes(new, 1, 2).astype(places.dtype)

    def write(row, places):
        one = jax.lax.dynamic_slice_in_dim(new, row, 1)
        return jax.lax.dynamic_update_slice(places, one, (row, 0, start[row], 0))

    return jax.lax.optimization_barrier(jax.lax.fori_loop(0, len(new), write, places))
