"""Recurrent layers: the LSTM, one step and whole sequences."""

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, PRNGKeyArray

from .. import ops
from ..autograd.scan import scan
from ..lib.errors import ConfigError
from ..lib.keys import named_key
from ..lib.precision import accumulator
from .casting import to_compute
from .initialisers import Initialiser, lecun_normal
from .module import Module, param

State = tuple[Float[Array, "B H"], Float[Array, "B H"]]  # (h, c): what is seen, what is remembered


class LSTMCell(Module):
    """One step of an LSTM: x and (h, c) give the next (h, c).

        i, f, g, o = quarters of  x·W_ihᵀ + h·W_hhᵀ + b
        c ← σ(f)·c + σ(i)·tanh(g)          h ← σ(o)·tanh(c)

    weight_ih is (4·H, I), weight_hh (4·H, H), bias (4·H): gates in the order i, f, g, o, as in torch, whose two biases are
    one here, their sum. c is held in at least float32 under every policy; h comes out in the dtype of the compute.
    Hochreiter & Schmidhuber 1997; Gers, Schmidhuber & Cummins 2000 for the forget gate
    """

    weight_ih: Float[Array, "4*H I"] = param()
    weight_hh: Float[Array, "4*H H"] = param()
    bias: Float[Array, " 4*H"] | None = param(default=None)

    @classmethod
    def init(
        cls,
        key: PRNGKeyArray,
        inputs: int,
        hidden: int,
        *,
        bias: bool = True,
        forget_bias: float = 1.0,
        initialiser: Initialiser | None = None,
        dtype: DTypeLike = jnp.float32,
    ) -> "LSTMCell":
        """Weights from `initialiser` (by default `lecun_normal()`); the bias 0, but `forget_bias` at the forget gate, which
        is open at first then (Jozefowicz, Zaremba & Sutskever 2015)."""
        initialiser = initialiser or lecun_normal()
        return cls(
            initialiser(named_key(key, "weight_ih"), (4 * hidden, inputs), dtype),
            initialiser(named_key(key, "weight_hh"), (4 * hidden, hidden), dtype),
            jnp.zeros(4 * hidden, dtype).at[hidden : 2 * hidden].set(forget_bias) if bias else None,
        )

    def __call__(self, x: Float[Array, "B I"], state: State | None = None) -> State:
        """state: zeros if it is not given."""
        z = self.inputs(x)
        return self.step(z, state or self.start(z.shape[0], z.dtype))

    def inputs(self, x: Float[Array, "... I"]):
        """z = x·W_ihᵀ + b: what does not depend on the state, for any number of steps at once."""
        return ops.linear(to_compute(x), to_compute(self.weight_ih), to_compute(self.bias))

    def start(self, batch: int, dtype: DTypeLike = jnp.float32) -> State:
        """h and c of 0, for a compute in dtype."""
        shape = (batch, self.weight_hh.shape[1])
        return jnp.zeros(shape, dtype), jnp.zeros(shape, accumulator(dtype))

    def step(self, z: Float[Array, "B 4*H"], state: State) -> State:
        """The next (h, c), given what comes from x."""
        h, c = state
        i, f, g, o = ops.split(z + ops.linear(h, to_compute(self.weight_hh)), 4, axis=-1)
        c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
        h = ops.sigmoid(o) * ops.tanh(c)
        return (h if h.dtype == z.dtype else ops.astype(h, z.dtype)), c


class LSTM(Module):
    """An `LSTMCell` over the time axis of x (batch, time, inputs): y (batch, time, hidden) holds h of every step.

        y, (h, c) = lstm(x)             y, (h, c) = lstm(x, (h, c))     # go on where it stopped

    One loop however long the sequence (`pb.scan`); the products with x are one product before it. In the pullback only h and
    c of every step are kept, everything else is computed again.
    """

    cell: LSTMCell

    @classmethod
    def init(cls, key: PRNGKeyArray, inputs: int, hidden: int, **options) -> "LSTM":
        """options: those of `LSTMCell.init`."""
        return cls(LSTMCell.init(named_key(key, "cell"), inputs, hidden, **options))

    def __call__(self, x: Float[Array, "B T I"], state: State | None = None):
        if x.ndim != 3:
            raise ConfigError(f"LSTM takes x (batch, time, inputs), not {x.shape}; LSTMCell takes one step")
        z = ops.swapaxes(self.cell.inputs(x), 0, 1)

        def body(state: State, z):
            h, c = self.cell.step(z, state)
            return (h, c), h

        last, y = scan(body, state or self.cell.start(x.shape[0], z.dtype), z)
        return ops.swapaxes(y, 0, 1), last
