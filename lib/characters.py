"""Text as its bytes or its characters: tokens that nobody has to learn."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int

from .errors import ConfigError


@dataclass(frozen=True)
class Bytes:
    """The 256 bytes of UTF-8: knows every text, needs no corpus."""

    kind: ClassVar[str] = "bytes"

    @property
    def vocabulary(self) -> int:
        return 256

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind}

    def encode(self, text: str) -> Int[np.ndarray, " N"]:
        data = utf8(text, errors="surrogateescape")  # bytes of a command line that were no UTF-8 come back as they were
        return np.frombuffer(data, np.uint8).astype(np.int32)

    def decode(self, ids) -> str:
        """Never fails on bytes that are not UTF-8, as a model in training writes them: they become U+FFFD."""
        return self.to_bytes(ids).decode("utf-8", "replace")

    def to_bytes(self, ids) -> bytes:
        return known_ids(ids, self.vocabulary).astype(np.uint8).tobytes()


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

    def to_bytes(self, ids) -> bytes:
        return self.decode(ids).encode("utf-8", "surrogatepass")


def utf8(text: str, what: str = "the text", errors: str = "strict") -> bytes:
    """The text in UTF-8, or a ConfigError that says where `what` has something that UTF-8 cannot hold."""
    try:
        return text.encode("utf-8", errors)
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) - 0xDC00
        if 0x80 <= byte <= 0xFF:  # this is how Python hands on what was no UTF-8 on a command line
            raise ConfigError(f"{what} is not UTF-8: it has the byte 0x{byte:02x} at position {error.start:,}") from None
        raise ConfigError(f"{what} has half a surrogate pair at position {error.start:,}, which UTF-8 cannot hold") from None


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
