"""The two-layer perceptron of a transformer block."""

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, PRNGKeyArray

from .. import ops
from ..lib.keys import named_key
from .dropout import Dropout
from .initialisers import Initialiser
from .linear import Linear
from .module import Module


class MLP(Module):
    """y = dropout(proj(gelu(fc(x))));   fc widens D to F, proj comes back."""

    fc: Linear
    proj: Linear
    dropout: Dropout

    @classmethod
    def init(
        cls,
        key: PRNGKeyArray,
        width: int,
        hidden: int,
        *,
        bias: bool = True,
        dropout: float = 0.0,
        initialiser: Initialiser | None = None,
        proj_initialiser: Initialiser | None = None,
        dtype: DTypeLike = jnp.float32,
    ) -> "MLP":
        """proj_initialiser: where the layer that writes to a residual stream starts otherwise than fc."""
        return cls(
            Linear.init(named_key(key, "fc"), width, hidden, bias=bias, initialiser=initialiser, dtype=dtype),
            Linear.init(named_key(key, "proj"), hidden, width, bias=bias, initialiser=proj_initialiser or initialiser, dtype=dtype),
            Dropout(dropout),
        )

    def __call__(self, x: Float[Array, "B ... D"], *, train: bool = False):
        return self.dropout(self.proj(ops.gelu(self.fc(x))), train=train)
