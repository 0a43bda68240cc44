"""Texts as tokens in a file: one safetensors file, mapped and not read, that brings its tokeniser with it.

    tokens     U16 (N,), or U32 where the vocabulary has more than 65,536
    ends       I64 (D,), where each document ends, if they are kept
    metadata   format, tokeniser (its record), tokeniser_sha256, vocabulary, sources (name, sha256, bytes and tokens of each)

The header is checked whole before anything is mapped, by the library, and then held against what is written here. That each
token lies in the vocabulary would take reading them all: Epochs(vocabulary=) checks them batch by batch.
"""

import json
import math
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from . import tokenisers
from .atomic import replacing
from .epochs import demand_ends
from .errors import ConfigError, PullbackError
from .reading import once, refused
from .tensors import Tensors, opened
from .tokenisers import Tokeniser, canonical, digest

FORMAT = "pullback-tokens"
DTYPES = {"U16": np.dtype("<u2"), "U32": np.dtype("<u4"), "I64": np.dtype("<i8")}
MARK = f'{{"__metadata__":{{"format":"{FORMAT}"'.encode()


class Source(NamedTuple):
    """A text that tokens came from; sha256 of its UTF-8 bytes."""

    name: str
    sha256: str
    bytes: int
    tokens: int


class TokenFile(NamedTuple):
    """tokens and ends are mapped from the file. sha256: of the tokeniser's record, which tells vocabularies apart."""

    tokens: Int[np.ndarray, " N"]
    ends: Int[np.ndarray, " D"] | None
    tokeniser: Tokeniser
    sha256: str
    sources: list[Source]


def kind_of(vocabulary: int) -> str:
    """The dtype of a file's tokens."""
    return "U16" if vocabulary <= 1 << 16 else "U32"


def is_token_file(path: Path) -> bool:
    """Does it begin as one? For a name that may as well be that of a text."""
    try:
        if not path.is_file():  # a pipe would wait for somebody to write
            return False
        with open(path, "rb") as file:
            return file.read(8 + len(MARK))[8:] == MARK
    except OSError:
        return False


def write_tokens(
    path: Path,
    words: Tokeniser,
    sources: Sequence[Source],
    count: int,
    chunks: Iterable[Int[np.ndarray, " n"]],
    ends: Int[np.ndarray, " D"] | None = None,
) -> None:
    """A token file, there whole or not at all, of `count` tokens that come in chunks: memory holds one of them at a time."""
    dtype, begin, header = kind_of(words.vocabulary), 0, {}
    header["__metadata__"] = {
        "format": FORMAT,
        "tokeniser": canonical(words.to_json()),
        "tokeniser_sha256": digest(words),
        "vocabulary": str(words.vocabulary),
        "sources": canonical([source._asdict() for source in sources]),
    }
    for name, kind, size in (("ends", "I64", None if ends is None else len(ends)), ("tokens", dtype, count)):  # the widest first
        if size is not None:
            end = begin + size * DTYPES[kind].itemsize
            header[name] = {"dtype": kind, "shape": [size], "data_offsets": [begin, end]}
            begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as beside, open(beside, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        if ends is not None:
            file.write(np.ascontiguousarray(ends, DTYPES["I64"]).data)
        for chunk in chunks:
            count -= len(chunk)
            file.write(np.ascontiguousarray(chunk, DTYPES[dtype]).data)
        if count:
            raise ConfigError(f"{path.name}: {abs(count):,} tokens {'are missing' if count > 0 else 'are too many'}")


def open_tokens(path: Path) -> TokenFile:
    """A token file, mapped. It may be a stranger's: ConfigError, one line, for what is damaged or does not fit together."""
    kinds = Tensors(path).kinds
    with opened(path) as file:
        metadata = file.metadata() or {}
    if metadata.get("format") != FORMAT or "tokens" not in kinds:
        raise ConfigError(f"{path} is no token file: its format is {metadata.get('format')!r:.60}; `pullback data prepare` makes one")
    try:
        words = tokenisers.from_json(parsed("tokeniser", metadata))
        sha256 = digest(words)
        if (sha256, str(words.vocabulary)) != (metadata.get("tokeniser_sha256"), metadata.get("vocabulary")):
            raise ConfigError("its tokeniser is not the one that its hash and its vocabulary tell of")
        sources = sources_of(parsed("sources", metadata))
        wanted = {"tokens": (kind_of(words.vocabulary),), "ends": ("I64",)}
        for name, kind in kinds.items():
            if name not in wanted or kind.dtype not in wanted[name] or len(kind.shape) != 1 or not math.prod(kind.shape):
                raise ConfigError(
                    f"its tensor {name!r} is {kind}; expected {' or '.join(wanted)}: a row of {wanted.get(name, ('them',))[0]}"
                )
        with open(path, "rb") as file:
            length = struct.unpack("<Q", file.read(8))[0]
            header = json.loads(file.read(length))

        def mapped(name: str) -> np.ndarray:
            dtype, offset = DTYPES[kinds[name].dtype], 8 + length + header[name]["data_offsets"][0]
            return np.memmap(path, dtype, "r", offset, kinds[name].shape)

        tokens, ends = mapped("tokens"), mapped("ends") if "ends" in kinds else None
        if ends is not None:
            demand_ends(ends, len(tokens), "text")
    except PullbackError as error:
        raise ConfigError(f"{path} is damaged: {error}") from None
    return TokenFile(tokens, ends, words, sha256, sources)


def parsed(name: str, metadata: dict[str, str]) -> Any:
    try:
        return json.loads(metadata.get(name, ""), object_pairs_hook=once, parse_constant=refused)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"its {name} cannot be read: {error}") from None


def sources_of(records: Any) -> list[Source]:
    kinds = Source.__annotations__
    if not isinstance(records, list):
        raise ConfigError("its sources are no list")
    for record in records:
        if not isinstance(record, dict) or {name: type(value) for name, value in record.items()} != kinds:
            raise ConfigError(f"a source has {', '.join(kinds)}; got {str(record)[:80]}")
    return [Source(**record) for record in records]
