"""Tokens as batches: what is held back, what a step sees, and the whole of a text in consecutive windows.

Axes: B batch, T time (one context), N tokens of a split. Every batch is a pure function of (seed, step): a resumed run, a
second process or a skipped step sees the same data, and no position is kept anywhere.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.lib.stride_tricks import sliding_window_view

from .errors import ConfigError


class Batch(NamedTuple):
    """targets[b, t] is the token after inputs[b, t]."""

    inputs: Int[np.ndarray, "B T"]
    targets: Int[np.ndarray, "B T"]


class Window(NamedTuple):
    """A batch of validation. weights are 1 where there is a target and 0 in the padding: loss = Σ w·l / Σ w."""

    inputs: Int[np.ndarray, "B T"]
    targets: Int[np.ndarray, "B T"]
    weights: Float[np.ndarray, "B T"]


def split(tokens: Int[np.ndarray, " N"], fraction: float = 0.9, *, context: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """(training, validation): the first `fraction` of the tokens and the rest, as nanoGPT cuts them.

    Raises ConfigError where the corpus or either part is shorter than one context and the token after it.
    """
    if not 0 < fraction < 1:
        raise ConfigError(f"the training fraction is {fraction}; it lies between 0 and 1, for example 0.9")
    demand(tokens, context, "corpus")
    cut = int(len(tokens) * fraction)
    train, validation = tokens[:cut], tokens[cut:]
    demand(train, context, "training split")
    demand(validation, context, "validation split")
    return train, validation


def demand(tokens: np.ndarray, context: int, what: str) -> None:
    """One context of T inputs has T targets, the last of them token T + 1."""
    if context < 1:
        raise ConfigError(f"the context is {context}; it must be at least 1")
    if len(tokens) < context + 1:
        raise ConfigError(
            f"the {what} has {len(tokens):,} tokens; a context of {context:,} needs {context + 1:,}: more text or a shorter context"
        )


def demand_batch(batch: int) -> None:
    if batch < 1:
        raise ConfigError(f"the batch is {batch}; it must be at least 1")


class TokenStream:
    """Training batches: B windows of T tokens, each begun at a random place, every place equally likely.

        stream = TokenStream(train, context=64, batch=12, seed=1)
        inputs, targets = stream.at(step)

    The places are the words of the counter generator Philox4x64 under key = seed and counter = (block, 0, 0, step), so any
    step is found in constant time. Row b does not depend on B: a process that feeds part of a batch takes its rows. NumPy
    keeps this raw stream as it is between versions, which it does not promise for `Generator.integers`.
    Salmon et al. 2011, Parallel random numbers: as easy as 1, 2, 3.
    """

    def __init__(self, tokens: Int[np.ndarray, " N"], context: int, batch: int, seed: int = 0):
        demand(tokens, context, "training split")
        demand_batch(batch)
        self.context, self.batch, self.seed = context, batch, seed
        self.inputs = sliding_window_view(tokens[:-1], context)  # (N - T, T) without a copy
        self.targets = sliding_window_view(tokens[1:], context)

    def at(self, step: int) -> Batch:
        """The batch of a step >= 0, int32 (B, T)."""
        words = np.random.Philox(key=int(self.seed) % 2**128, counter=int(step) << 192).random_raw(self.batch)
        starts = words % np.uint64(len(self.inputs))  # the bias of 64 bits is below N / 2^64
        return Batch(self.inputs[starts].astype(np.int32, copy=False), self.targets[starts].astype(np.int32, copy=False))


def windows(tokens: Int[np.ndarray, " N"], context: int, batch: int) -> Iterator[Window]:
    """The whole split once: consecutive windows of T inputs, in batches of B, each of the N - 1 targets counted once.

    What is missing from the last window and the last batch is padded with id 0 and weight 0, so every batch has one shape.
    """
    demand(tokens, context, "validation split")
    demand_batch(batch)
    block = batch * context

    def window(start: int) -> Window:
        count = min(block, len(tokens) - 1 - start)
        inputs, targets, weights = np.zeros(block, np.int32), np.zeros(block, np.int32), np.zeros(block, np.float32)
        inputs[:count], targets[:count], weights[:count] = tokens[start : start + count], tokens[start + 1 : start + 1 + count], 1
        shape = batch, context
        return Window(inputs.reshape(shape), targets.reshape(shape), weights.reshape(shape))

    return (window(start) for start in range(0, len(tokens) - 1, block))
