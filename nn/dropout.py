"""Dropout as a layer."""

from jaxtyping import Array, Float

from .. import ops
from ..autograd.random import draws, key
from ..lib.errors import ConfigError
from .module import Module, static


class Dropout(Module):
    """y = x/(1 − rate) with probability 1 − rate, else 0, when training;   y = x otherwise, and for rate 0.

    `train` is asked for at each call: a module does not remember a mode. A training call needs `with pb.keys(seed, step):`
    around it, inside the step; the mask of an example follows from seed, step, scope and the example's global index alone.
    """

    rate: float = static()

    def __post_init__(self):
        if not 0 <= self.rate <= 1:
            raise ConfigError(f"Dropout: rate {self.rate}; expected a probability from 0 to 1")

    def __call__(self, x: Float[Array, "B ..."], *, train: bool):
        if not train or self.rate == 0:
            return x
        return ops.dropout(x, key("dropout"), draws().first_example, rate=self.rate)
