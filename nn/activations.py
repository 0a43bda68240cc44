"""Activation functions as modules, to stand among layers: each is the op of its name and holds no arrays."""

from jaxtyping import Array, Float

from .. import ops
from .module import Module, static


class Relu(Module):
    """y = max(x, 0)."""

    def __call__(self, x: Float[Array, "..."]):
        return ops.relu(x)


class LeakyRelu(Module):
    """y = x where x > 0, else negative_slope·x."""

    negative_slope: float = static(default=0.01)

    def __call__(self, x: Float[Array, "..."]):
        return ops.leaky_relu(x, negative_slope=self.negative_slope)


class Elu(Module):
    """y = x where x > 0, else alpha·(eˣ − 1)."""

    alpha: float = static(default=1.0)

    def __call__(self, x: Float[Array, "..."]):
        return ops.elu(x, alpha=self.alpha)


class Gelu(Module):
    """y = x·Φ(x), in the tanh form; `GeluErf` is the form with erf, which torch's GELU has by default."""

    def __call__(self, x: Float[Array, "..."]):
        return ops.gelu(x)


class GeluErf(Module):
    """y = x·Φ(x), Φ the distribution of N(0, 1)."""

    def __call__(self, x: Float[Array, "..."]):
        return ops.gelu_erf(x)


class Silu(Module):
    """y = x·σ(x)."""

    def __call__(self, x: Float[Array, "..."]):
        return ops.silu(x)


class Mish(Module):
    """y = x·tanh(log(1 + eˣ))."""

    def __call__(self, x: Float[Array, "..."]):
        return ops.mish(x)


class Tanh(Module):
    """y = tanh x."""

    def __call__(self, x: Float[Array, "..."]):
        return ops.tanh(x)


class Sigmoid(Module):
    """y = σ(x) = 1/(1 + e⁻ˣ)."""

    def __call__(self, x: Float[Array, "..."]):
        return ops.sigmoid(x)


class Softplus(Module):
    """y = log(1 + eˣ)."""

    def __call__(self, x: Float[Array, "..."]):
        return ops.softplus(x)


class Softmax(Module):
    """y = eˣ/Σ eˣ along an axis."""

    axis: int = static(default=-1)

    def __call__(self, x: Float[Array, "..."]):
        return ops.softmax(x, axis=self.axis)
