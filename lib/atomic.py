"""Files that are there whole or not at all: written beside their place, flushed to the disk, renamed into it."""

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from .errors import ConfigError


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """`with replacing("loss.png") as beside:` write the file `beside`; at the end it takes the place of `path`.

    After an error or Ctrl-C inside, `path` is what it was and nothing else is left. A symbolic link stays a link: what it
    points to is replaced. `beside` keeps the extension, since some writers choose the format by it.

    Raises ConfigError, one line, where the system refuses (no such folder, no permission, no space).
    """
    path = Path(path)
    try:
        place = Path(os.path.realpath(path))
        beside = place.with_name(f".{place.stem}.partial-{secrets.token_hex(4)}{place.suffix}")
        try:
            yield beside
            publish(beside, place)
        finally:
            with contextlib.suppress(OSError):
                beside.unlink()
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {reason(error)}") from error


def publish(beside: Path, path: Path) -> None:
    """Rename a finished file into its place, in the same folder, so that a power cut leaves the old file or the new one."""
    with open(beside, "r+b") as file:
        os.fsync(file.fileno())
    os.replace(beside, path)
    flush_folder(path.parent)


def flush_folder(path: Path) -> None:
    """Names live in the folder: what was renamed in it is there after a power cut."""
    if os.name == "posix":  # elsewhere a folder cannot be opened
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextlib.contextmanager
def making(path: Path) -> Iterator[Path]:
    """`with making(folder) as beside:` fill the folder `beside` with whole files; at the end it is renamed to `folder`.

    A folder that has this name is replaced. After an error nothing is left; after a kill `.NAME.partial-*` may be.
    Raises ConfigError, one line, where the system refuses.
    """
    beside = path.with_name(f".{path.name}.partial-{secrets.token_hex(4)}")
    try:
        try:
            beside.mkdir(parents=True)
            yield beside
            flush_folder(beside)
            if path.exists():
                shutil.rmtree(path)
            beside.rename(path)
            flush_folder(path.parent)
        except ConfigError as error:  # of a file in it, which is to have its final name
            raise ConfigError(str(error).replace(beside.name, path.name)) from error
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {reason(error)}") from error


def write_bytes(path: str | Path, data: bytes) -> None:
    with replacing(path) as beside:
        beside.write_bytes(data)


def write_text(path: str | Path, text: str) -> None:
    """UTF-8, line ends as they are."""
    write_bytes(path, text.encode())


def write_json(path: str | Path, value) -> None:
    """Indented JSON. ValueError for NaN and infinities, which JSON does not have: write None where there is no number."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def reason(error: OSError) -> str:
    """What the system said, without its number: `No space left on device`."""
    return error.strerror or str(error) or type(error).__name__
