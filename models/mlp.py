"""The multi-layer perceptron: affine layers with an activation between them.        Rumelhart, Hinton & Williams 1986"""

from collections.abc import Sequence

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, PRNGKeyArray

from .. import ops
from ..lib.errors import ConfigError, UnknownName, near
from ..lib.keys import named_key
from ..nn import Linear, Module, static
from ..nn.initialisers import he_normal, lecun_normal

ACTIVATIONS = {"tanh": ops.tanh, "relu": ops.relu, "gelu": ops.gelu, "silu": ops.silu, "sigmoid": ops.sigmoid}


class MLP(Module):
    """h₀ = x,   hᵢ = φ(Wᵢ·hᵢ₋₁ + bᵢ),   y = W·h + b without φ: logits, or numbers to be fitted.

        model = MLP.init(key, widths=(3, 16, 3), activation="tanh")
        model(x)                       # (B, 3) -> (B, 3)

    The perceptron inside a transformer block is another one: nn.MLP.
    """

    layers: tuple[Linear, ...]
    activation: str = static()

    @classmethod
    def init(cls, key: PRNGKeyArray, widths: Sequence[int], activation: str = "tanh", dtype: DTypeLike = jnp.float32) -> "MLP":
        """widths: of the input, the hidden layers and the output, at least two. activation: tanh, relu, gelu, silu or sigmoid.

        Weights start with variance 1/fan_in, under those that cut off one half, relu, gelu and silu, with 2/fan_in; biases at 0.
        """
        if len(widths) < 2 or min(widths) < 1:
            raise ConfigError(f"MLP: widths are {tuple(widths)}; expected at least two, those of input and output, each at least 1")
        if activation not in ACTIVATIONS:
            raise UnknownName(f"MLP: no activation {activation!r}" + near(str(activation), ACTIVATIONS))
        initialiser = lecun_normal() if activation in ("tanh", "sigmoid") else he_normal()
        layers = (
            Linear.init(named_key(key, f"layers.{i}"), inputs, outputs, initialiser=initialiser, dtype=dtype)
            for i, (inputs, outputs) in enumerate(zip(widths, widths[1:]))
        )
        return cls(tuple(layers), activation)

    def __call__(self, x: Float[Array, "... I"]) -> Float[Array, "... O"]:
        *hidden, last = self.layers
        for layer in hidden:
            x = ACTIVATIONS[self.activation](layer(x))
        return last(x)
