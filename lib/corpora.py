"""Where text comes from: the documentation inside CPython, a file, or a named data set with a pinned hash.

Named sets are looked for in the folder `PULLBACK_DATA`, then in the cache (`$XDG_CACHE_HOME/pullback`, else
`~/.cache/pullback`), where `pullback data NAME` puts them.
"""

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from .atomic import reason
from .download import Progress, download
from .errors import ConfigError, UnknownName, near
from .reading import read_bytes

PYTHON_DOCS = "python-docs"
LIMIT = 2 << 30  # bytes; larger text does not fit in memory as characters and token ids


class Corpus(NamedTuple):
    """Text with the SHA-256 of its UTF-8 bytes, which a run records."""

    name: str
    text: str
    sha256: str

    def __repr__(self) -> str:  # never a megabyte of text in a traceback
        return f"<corpus {self.name}: {len(self.text):,} characters, sha256 {self.sha256[:12]}>"


class Named(NamedTuple):
    """A data set that can be fetched; `file` is its name in `PULLBACK_DATA` and in the cache."""

    file: str
    url: str
    sha256: str
    size: int


NAMED = {
    "tinyshakespeare": Named(  # public domain
        "tinyshakespeare.txt",
        "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
        "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
        1_115_394,
    ),
}


def read_corpus(name_or_path: str | Path) -> Corpus:
    """`python-docs`, a named data set, or any UTF-8 file. A name wins over a file of that name: write `./NAME` for the file.

    Raises ConfigError where there is none, or it is empty, not UTF-8, above 2 GiB, or not what its pinned hash says.
    """
    name = str(name_or_path)
    if name == PYTHON_DOCS:
        text = python_docs()
        return Corpus(name, text, hashlib.sha256(text.encode()).hexdigest())
    if not name:
        raise ConfigError(f"the name of the corpus is empty; expected a UTF-8 file or one of {', '.join([PYTHON_DOCS, *NAMED])}")
    path = find(name) if name in NAMED else Path(name)
    data = read_file(path)
    digest = hashlib.sha256(data).hexdigest()
    if name in NAMED and digest != NAMED[name].sha256:
        raise ConfigError(
            f"{path} is not the data set {name!r}: SHA-256 {digest}, expected {NAMED[name].sha256}; remove it and {how_to_get(name)}"
        )
    if not data:
        raise ConfigError(f"the corpus {name} is empty")
    try:
        return Corpus(name, data.decode(), digest)
    except UnicodeDecodeError as error:
        byte = data[error.start]
        raise ConfigError(
            f"the corpus {name} is not UTF-8: byte 0x{byte:02x} at offset {error.start:,}; convert it, e.g. with iconv"
        ) from None


def fetch(name: str, progress: Progress | None = None) -> Path:
    """Make a named data set be there and return its file: found with the right hash, or downloaded into the cache."""
    if name not in NAMED:
        raise UnknownName(f"no data set {name!r}" + near(name, NAMED))
    wanted = NAMED[name]
    for path in places(name):
        if path.is_file() and hashlib.sha256(read_file(path)).hexdigest() == wanted.sha256:
            return path
    return download(wanted.url, cache_folder() / wanted.file, sha256=wanted.sha256, size=wanted.size, progress=progress)


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pullback"


def places(name: str) -> list[Path]:
    """Where a named data set may lie, best first."""
    own = os.environ.get("PULLBACK_DATA")
    folders = [Path(own), cache_folder()] if own else [cache_folder()]
    return [folder / NAMED[name].file for folder in folders]


def find(name: str) -> Path:
    for path in places(name):
        if path.is_file():
            return path
    looked = " and ".join(str(path.parent) for path in places(name))
    raise ConfigError(f"the data set {name!r} is not here (looked in {looked}): {how_to_get(name)}")


def how_to_get(name: str) -> str:
    return f"run `pullback data {name}`, or set PULLBACK_DATA to a folder that holds {NAMED[name].file}"


def read_file(path: Path) -> bytes:
    """The bytes of a file of text, of at most `LIMIT` bytes."""
    try:
        if not path.exists():
            raise ConfigError(f"no corpus or file {str(path)!r}" + near(str(path), [PYTHON_DOCS, *NAMED]))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {reason(error)}") from error
    return read_bytes(path, LIMIT)


def python_docs() -> str:
    """The Python language reference that ships with CPython: the topics of `help()`, by name (about 0.4 MB).

    A topic that stands whole inside another one is left out, or validation would be on text that was trained on. The text
    belongs to the version of Python; the corpus' hash tells versions apart.
    """
    try:
        from pydoc_data.topics import topics  # half a megabyte: only when asked for
    except ImportError:
        raise ConfigError(f"this Python comes without pydoc_data, the source of {PYTHON_DOCS!r}; pass a text file instead") from None
    body = {name: text.split("\n", 3)[-1].strip() for name, text in topics.items()}  # without the title, whose line differs

    def repeated(name: str) -> bool:
        others = ((other, text) for other, text in body.items() if other != name and body[name] in text)
        return any(len(text) > len(body[name]) or other < name for other, text in others)

    return "\n\n\n".join(topics[name].strip() for name in sorted(topics) if not repeated(name)) + "\n"
