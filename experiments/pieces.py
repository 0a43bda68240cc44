"""A long text in pieces that many processes can turn into tokens: their ids, one after the other, are those of the whole text."""

import codecs
import functools
import hashlib
import json
import mmap
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ..lib import tokenisers
from ..lib.atomic import reason, write_bytes
from ..lib.errors import ConfigError, PullbackError
from ..lib.reading import read_json
from ..lib.token_files import DTYPES, kind_of
from ..lib.tokenisers import Tokeniser

READ = 1 << 20  # bytes at a time
SPACE = re.compile(rb"[ \r\n]")


class Piece(NamedTuple):
    """Bytes from begin up to end of the text `source`; its tokens go to the file `part`. words: the tokeniser's record."""

    source: str
    begin: int
    end: int
    part: str
    words: str


def checked(path: Path, at: Callable[[int], object]) -> str:
    """The SHA-256 of a text; ConfigError where it is not UTF-8. at: is told how many bytes are done."""
    digest, decoder, done = hashlib.sha256(), codecs.getincrementaldecoder("utf-8")(), 0
    try:
        with open(path, "rb") as file:
            while True:
                pending, data = len(decoder.getstate()[0]), file.read(READ)
                decoder.decode(data, final=not data)
                if not data:
                    return digest.hexdigest()
                digest.update(data)
                done += len(data)
                at(done)
    except UnicodeDecodeError as error:
        where = done - pending + error.start
        raise ConfigError(
            f"{path} is not UTF-8: byte 0x{error.object[error.start]:02x} at offset {where:,}; convert it, e.g. with iconv"
        ) from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {reason(error)}") from error


def cut(path: Path, size: int) -> list[tuple[int, int]]:
    """(begin, end) of pieces of at least `size` bytes, but for the last.

    A piece ends after a visible character and before a space or the end of a line. No word of a byte-pair vocabulary reaches over
    such a place, and none looks beyond it, so cutting there changes no token; other tokenisers do not mind.
    """
    pieces, begin = [], 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        while begin < len(text):
            end = next(word_ends(text, begin + size), len(text))
            pieces.append((begin, end))
            begin = end
    return pieces


def word_ends(text: mmap.mmap, start: int) -> Iterator[int]:
    for found in SPACE.finditer(text, start):
        before = text[max(0, found.start() - 4) : found.start()].decode(errors="ignore")[-1:]
        if before and not before.isspace():
            yield found.start()


def encode(task: str, start: int = 0) -> Iterator[str]:
    """Make the part of a piece, which `task` describes in JSON, and say what is wrong with it: nothing, that is "". For `spread`."""
    if start:
        return
    piece = Piece(*json.loads(task))
    try:
        with open(piece.source, "rb") as file:
            file.seek(piece.begin)
            text = file.read(piece.end - piece.begin).decode()
        words = words_of(piece.words)
        write_bytes(piece.part, words.encode(text).astype(DTYPES[kind_of(words.vocabulary)]).tobytes())
    except (PullbackError, OSError, UnicodeDecodeError) as error:
        yield f"{piece.source}, from byte {piece.begin:,} on: {reason(error) if isinstance(error, OSError) else error}"
    else:
        yield ""


@functools.cache
def words_of(path: str) -> Tokeniser:
    """Read once by each process: it also remembers the words that it has seen."""
    return tokenisers.from_json(read_json(Path(path)))
