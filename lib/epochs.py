"""Tokens in epochs: every window of a text once, in an order of its own each time, or in that of the text.

Axes: B batch, T time (one context), N tokens. Examples are numbered over all epochs: example n is window n % W of epoch n // W,
and step s takes the examples s·B to s·B + B − 1, of which host h of H has the h-th part. So a batch is a function of (seed, step,
host, hosts), any step is found at once, and how a step is cut into hosts or smaller batches changes nothing.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .errors import ConfigError
from .permutation import MOST, place
from .tokens import demand, demand_batch


class Examples(NamedTuple):
    """targets[b, t] is the token after inputs[b, t]. weights are 1 where there is a target and 0 in the padding, and None where
    nothing is padded."""

    inputs: Int[np.ndarray, "B T"]
    targets: Int[np.ndarray, "B T"]
    weights: Float[np.ndarray, "B T"] | None


class Epochs:
    """Training batches: W windows of T targets an epoch, none of them twice in one.

        stream = Epochs(train, context=64, batch=12, seed=1)
        inputs, targets, _ = stream.at(step)

    Packed (no `ends`), windows follow each other through the text as if it were one document: W = (N − 1) // T. What is left
    over, fewer than T targets, lies at the end of the text in even epochs and at its beginning in odd ones: of any two epochs that
    follow each other, each target is in one at least.

    Kept (`ends`: where each document ends, ascending, the last of them N), no window crosses the end of a document, and the last
    window of each is padded with id 0 and weight 0. So no target is left over; the first token of a document is none.

    shuffle: by the permutation of (seed, epoch), which is never made. tokens: may be mapped from a file, of which a batch reads its
    windows. vocabulary: batches with an id that is not below it are refused; the file is not read for that beforehand.
    """

    def __init__(
        self,
        tokens: Int[np.ndarray, " N"],
        context: int,
        batch: int,
        seed: int = 0,
        *,
        shuffle: bool = True,
        ends: Int[np.ndarray, " D"] | None = None,
        host: int = 0,
        hosts: int = 1,
        vocabulary: int | None = None,
    ):
        demand_batch(batch)
        if hosts < 1 or batch % hosts:
            raise ConfigError(f"the batch is {batch}; it must be a multiple of the {hosts} hosts")
        if not 0 <= host < hosts:
            raise ConfigError(f"host {host} of {hosts}; they are counted from 0 to {hosts - 1}")
        self.tokens, self.context, self.batch, self.seed = np.asarray(tokens), context, batch, seed
        self.shuffle, self.host, self.hosts, self.vocabulary = shuffle, host, hosts, vocabulary
        if ends is None:
            demand(tokens, context, "training split")
            self.ends, self.windows = None, (len(tokens) - 1) // context
        else:
            demand(tokens, min(context, 1), "training split")  # a document may be shorter than a context
            demand_ends(ends, len(tokens), "training split")
            self.ends = np.asarray(ends, np.int64)
            targets = np.diff(self.ends, prepend=0) - 1
            self.counted = np.cumsum(-(-targets // context))  # windows up to the end of each document
            self.windows = int(self.counted[-1])
        if not 1 <= self.windows <= MOST:
            raise ConfigError(f"the training split has {self.windows:,} windows; expected from 1 to {MOST:,}")

    @property
    def examples(self) -> int:
        """How many of a step are this host's: the rows of what `at` gives."""
        return self.batch // self.hosts

    def at(self, step: int) -> Examples:
        """The part of this host in the batch of a step >= 0: int32 (B/H, T), weights float32 or None."""
        if step < 0:
            raise ConfigError(f"step {step}; steps are counted from 0")
        first = int(step) * self.batch + self.host * self.examples
        inputs, targets = np.zeros((2, self.examples, self.context), np.int32)
        weights = None if self.ends is None else np.zeros(inputs.shape, np.float32)
        row = 0
        while row < self.examples:  # once for each epoch that the batch lies in
            epoch, index = divmod(first + row, self.windows)
            places = np.arange(index, min(index + self.examples - row, self.windows))
            if self.shuffle:
                places = place(places, self.windows, self.seed, epoch)
            for start, count in zip(*map(np.ndarray.tolist, self.found(places, epoch))):
                inputs[row, :count] = self.tokens[start : start + count]
                targets[row, :count] = self.tokens[start + 1 : start + 1 + count]
                if weights is not None:
                    weights[row, :count] = 1
                row += 1
        if self.vocabulary is not None:
            for ids in (inputs, targets):
                if ids.min() < 0 or ids.max() >= self.vocabulary:
                    raise ConfigError(f"step {step} has a token outside the vocabulary of {self.vocabulary:,}; the token file is damaged")
        return Examples(inputs, targets, weights)

    def found(self, places: Int[np.ndarray, " n"], epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Where windows begin in the text and how many targets they have."""
        if self.ends is None:
            left_over = len(self.tokens) - 1 - self.windows * self.context
            return places * self.context + (left_over if epoch % 2 else 0), np.full(len(places), self.context)
        document = np.searchsorted(self.counted, places, side="right")
        before = lambda cumulated: np.where(document > 0, cumulated[document - 1], 0)
        starts = before(self.ends) + (places - before(self.counted)) * self.context
        return starts, np.minimum(self.context, self.ends[document] - 1 - starts)


def demand_ends(ends: Int[np.ndarray, " D"], count: int, what: str) -> None:
    """Where documents end: ascending, none of them empty, and the last at the end of the text."""
    if not len(ends) or ends[0] < 1 or ends[-1] != count or (ends[1:] <= ends[:-1]).any():
        raise ConfigError(f"the ends of the documents of the {what} are no ascending numbers from 1 to {count:,}, its tokens")
