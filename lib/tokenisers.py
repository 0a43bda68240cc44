"""Text to integers and back: which ways there are, how one is made for a text, and how a run stores it."""

import hashlib
import json
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from jaxtyping import Int

from . import bpe_files, bpe_train
from .bpe import BPE
from .characters import Bytes, Characters
from .errors import ConfigError, UnknownName, near


class Tokeniser(Protocol):
    """Text to ids in [0, vocabulary) and back. `to_json` is what a run stores; `from_json` reads it.

    kind: its name in KINDS, but for `gpt2`, which is a `bpe` that is stored as one (see `kind_of`).
    to_bytes: UTF-8 that may begin or end within a character, for text that is shown token by token.
    """

    kind: ClassVar[str]

    @property
    def vocabulary(self) -> int: ...
    def encode(self, text: str) -> Int[np.ndarray, " N"]: ...
    def decode(self, ids) -> str: ...
    def to_bytes(self, ids) -> bytes: ...
    def to_json(self) -> dict[str, Any]: ...


class Kind(NamedTuple):
    """make: from a text and the number of tokens that a vocabulary may have. read: from what `to_json` said."""

    make: Callable[[str, int], Tokeniser]
    read: Callable[[dict[str, Any]], Tokeniser]


KINDS = {
    "bytes": Kind(lambda text, size: Bytes(), lambda record: Bytes()),
    "characters": Kind(lambda text, size: Characters.of(text), Characters.from_json),
    "bpe": Kind(lambda text, size: bpe_train.train(text, size), bpe_files.from_json),
    "gpt2": Kind(lambda text, size: BPE.gpt2(), bpe_files.from_json),
}


def tokeniser(kind: str, text: str, vocabulary: int) -> Tokeniser:
    """The tokeniser `kind` for a corpus; one that is learnt has so many tokens."""
    if kind not in KINDS:
        raise UnknownName(f"no tokeniser {kind!r}" + near(kind, KINDS))
    return KINDS[kind].make(text, vocabulary)


def kind_of(words: Tokeniser) -> str:
    """The name that it has in KINDS."""
    return "gpt2" if isinstance(words, BPE) and words.tokens == BPE.gpt2().tokens else words.kind


def from_json(record: Any) -> Tokeniser:
    """The tokeniser that `to_json` described; ConfigError if the record is none."""
    kind = record.get("kind") if isinstance(record, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise ConfigError(f"a tokeniser's record has a kind, one of {', '.join(KINDS)}; got {str(record)[:80]}")
    return KINDS[kind].read(record)


def canonical(record: Any) -> str:
    """JSON that is the same for the same record."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


def digest(words: Tokeniser) -> str:
    """SHA-256 of a tokeniser's record."""
    return hashlib.sha256(canonical(words.to_json()).encode()).hexdigest()
