"""Files that are read whole: regular ones, of a size that was checked before memory is taken for it."""

import json
import math
import os
from pathlib import Path
from typing import Any

from .atomic import reason
from .errors import ConfigError

LIMIT = 32 << 20  # bytes of a JSON file; a vocabulary of every character there is takes a third of it


def read_bytes(path: Path, limit: int = LIMIT) -> bytes:
    """Raises ConfigError, one line, for what is no file, cannot be read or has more bytes."""
    try:
        if path.exists() and not path.is_file():  # a pipe or a device may never end
            raise ConfigError(f"{path} is a {'folder' if path.is_dir() else 'pipe or device'}; expected a file")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise ConfigError(f"{path} has {size:,} bytes; at most {limit:,} are read")
            return file.read(size)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {reason(error)}") from error


def read_text(path: Path, limit: int = LIMIT) -> str:
    """The text of a UTF-8 file, with the line ends that it has."""
    return decoded(read_bytes(path, limit), str(path))


def decoded(data: bytes, name: str) -> str:
    """UTF-8 as text, or a ConfigError that says where it is none. name: of what it came from."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} is not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start:,}") from None


def read_json(path: Path, limit: int = LIMIT) -> Any:
    """What a JSON file says, in which no object has a field twice and every number is finite."""
    data = read_bytes(path, limit)
    try:
        return json.loads(data, object_pairs_hook=once, parse_constant=refused, parse_float=finite)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is damaged: {error}") from None


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ConfigError("a JSON object has a field twice")
    return record


def refused(constant: str) -> Any:
    raise ConfigError(f"{constant} is no JSON")


def finite(number: str) -> float:
    """1e999 is written as JSON writes numbers, and is infinity all the same."""
    value = float(number)
    if not math.isfinite(value):
        raise ConfigError(f"{number} is larger than any float")
    return value
