"""Text as integers, and integers as batches.

Axes: B batch, T time (one context), N tokens of a split. Every batch is a pure function of (seed, step): a resumed run, a
second process or a skipped step sees the same data, and no position is kept anywhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int
from numpy.lib.stride_tricks import sliding_window_view

from .errors import ConfigError, UnknownName, near


class Tokeniser(Protocol):
    """Text to ids in [0, vocabulary) and back. `to_json` is what a run stores; `from_json` reads it."""

    @property
    def vocabulary(self) -> int: ...
    def encode(self, text: str) -> Int[np.ndarray, " N"]: ...
    def decode(self, ids) -> str: ...
    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Bytes:
    """The 256 bytes of UTF-8: knows every text, needs no corpus."""

    kind: ClassVar[str] = "bytes"

    @property
    def vocabulary(self) -> int:
        return 256

    @classmethod
    def of(cls, text: str) -> "Bytes":
        return cls()

    @classmethod
    def from_json(cls, record: dict) -> "Bytes":
        return cls()

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind}

    def encode(self, text: str) -> Int[np.ndarray, " N"]:
        try:
            data = text.encode("utf-8", "surrogateescape")  # bytes of a command line that were no UTF-8 come back as they were
        except UnicodeEncodeError as error:
            raise ConfigError(f"the text has half a surrogate pair at position {error.start}, which UTF-8 cannot hold") from None
        return np.frombuffer(data, np.uint8).astype(np.int32)

    def decode(self, ids) -> str:
        """Never fails on bytes that are not UTF-8, as a model in training writes them: they become U+FFFD."""
        return known_ids(ids, self.vocabulary).astype(np.uint8).tobytes().decode("utf-8", "replace")


@dataclass(frozen=True)
class Characters:
    """The characters of a corpus, sorted by code point; an id is the place in that order."""

    characters: str
    kind: ClassVar[str] = "characters"

    def __post_init__(self):
        if not isinstance(self.characters, str) or not self.characters or list(self.characters) != sorted(set(self.characters)):
            raise ConfigError(f"a vocabulary is a text of different characters, sorted; got {str(self.characters)[:40]!r}")

    @classmethod
    def of(cls, text: str) -> "Characters":
        return cls("".join(sorted(set(text))))

    @classmethod
    def from_json(cls, record: dict) -> "Characters":
        return cls(record.get("characters", ""))

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "characters": self.characters}

    @property
    def vocabulary(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> Int[np.ndarray, " N"]:
        """Raises ConfigError that names the first character outside the vocabulary."""
        known, points = code_points(self.characters), code_points(text)
        ids = np.minimum(np.searchsorted(known, points), self.vocabulary - 1).astype(np.int32)
        unknown = known[ids] != points
        if unknown.any():
            at = int(unknown.argmax())
            which = f"{text[at]!r} (U+{ord(text[at]):04X}) at position {at:,}"
            raise ConfigError(f"the character {which} is not among the {self.vocabulary} of this vocabulary; leave it out")
        return ids

    def decode(self, ids) -> str:
        chosen = code_points(self.characters)[known_ids(ids, self.vocabulary)]
        return chosen.tobytes().decode("utf-32-le", "surrogatepass")


KINDS: dict[str, type[Bytes] | type[Characters]] = {"bytes": Bytes, "characters": Characters}


def tokeniser(kind: str, text: str) -> Tokeniser:
    """The tokeniser `kind` for a corpus."""
    if kind not in KINDS:
        raise UnknownName(f"no tokeniser {kind!r}" + near(kind, KINDS))
    return KINDS[kind].of(text)


def from_json(record: Any) -> Tokeniser:
    """The tokeniser that `to_json` described; ConfigError if the record is none."""
    kind = record.get("kind") if isinstance(record, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise ConfigError(f"a tokeniser's record has a kind, one of {', '.join(KINDS)}; got {str(record)[:80]}")
    return KINDS[kind].from_json(record)


def code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.dtype("<u4"))


def known_ids(ids, vocabulary: int) -> np.ndarray:
    """Ids as an integer array (N,), each in [0, vocabulary)."""
    ids = np.asarray(ids)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise ConfigError(f"decode takes one row of integers; got {ids.dtype} of shape {ids.shape}")
    outside = (ids < 0) | (ids >= vocabulary)
    if outside.any():
        raise ConfigError(f"the id {ids[outside.argmax()]} is outside this vocabulary of {vocabulary}")
    return ids.astype(np.int64)


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
