"""Named arrays in safetensors files, our own or a stranger's.

The library checks a header whole before anything is read: ranges inside the file, without overlap or hole, and as long as their
shapes say; a name may come again only with the range that it has. What it refuses is a ConfigError here, and so is what a reader
did not expect.
"""

import contextlib
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

from .atomic import reason, replacing
from .errors import ConfigError

FLOATS = ("F32", "F16", "BF16")
NAMED = 4  # names that an error lists before it counts the rest


class Kind(NamedTuple):
    """dtype: as the file calls it, such as F32 or BF16."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} of shape {self.shape}"


class Tensors:
    """The arrays of one or several files, whose headers have been checked: `kinds` names them all, `tensors[name]` reads one.

    A file is open only while it is read: what the system maps of it for one array would else stay in memory beside the next.
    """

    def __init__(self, *paths: Path):
        self.place: dict[str, Path] = {}
        self.kinds: dict[str, Kind] = {}
        for path in paths:
            with opened(path) as file:
                for name in file.keys():
                    if name in self.place:
                        raise ConfigError(f"{path.name} and {self.place[name].name} both have a tensor {name!r}")
                    piece = file.get_slice(name)
                    self.place[name], self.kinds[name] = path, Kind(piece.get_dtype(), tuple(piece.get_shape()))

    def __getitem__(self, name: str) -> np.ndarray:
        with opened(self.place[name]) as file:
            return file.get_tensor(name)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path} is no file")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            yield file
    except OSError as error:
        raise ConfigError(f"cannot read {path.name}: {reason(error)}") from None
    except safetensors.SafetensorError as error:
        raise ConfigError(f"{path.name} is damaged: {error}") from None


def kinds(arrays: Mapping[str, Any]) -> dict[str, Kind]:
    """What a file with these arrays, or with arrays of these shapes, says that it holds."""
    return {name: Kind(called(np.dtype(x.dtype)), tuple(x.shape)) for name, x in arrays.items()}


def called(dtype: np.dtype) -> str:
    return {"bool": "BOOL", "bfloat16": "BF16"}.get(dtype.name, f"{dtype.kind.upper()}{8 * dtype.itemsize}")


def demand(wanted: Mapping[str, Kind], came: Mapping[str, Kind], where: str, dtypes: Collection[str] = ()) -> None:
    """ConfigError that lists every name that is missing, unknown, or of another shape or dtype than is wanted.

    dtypes: others that will do as well.
    """
    lacks = [repr(name) for name in wanted if name not in came]
    unknown = [repr(name) for name in came if name not in wanted]
    other = [
        f"{name} is {came[name]}, expected {kind._replace(dtype=' or '.join(dict.fromkeys([kind.dtype, *dtypes])))}"
        for name, kind in wanted.items()
        if name in came and (came[name].shape != kind.shape or came[name].dtype not in (kind.dtype, *dtypes))
    ]
    wrong = [*listed("lacks tensor ", lacks), *listed("has an unknown tensor ", unknown), *listed("", other, "; ")]
    if wrong:
        raise ConfigError(f"{where}: {'; '.join(wrong)}")


def listed(what: str, names: list[str], between: str = ", ") -> list[str]:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return [what + between.join(names[:NAMED]) + more] if names else []


def write(path: Path, arrays: Mapping[str, Any], made_by: str) -> None:
    """A safetensors file, there whole or not at all. made_by: what its metadata call `format`; other readers ask for it."""
    with replacing(path) as beside:
        beside.touch()
        mode = beside.stat().st_mode  # as for any other file; safetensors would let nobody else read it
        try:
            safetensors.numpy.save_file({name: np.asarray(x, order="C") for name, x in arrays.items()}, beside, {"format": made_by})
        except safetensors.SafetensorError as error:  # its words for what the system refused
            if found := re.search(r"\(os error (\d+)\)", str(error)):
                raise OSError(int(found[1]), os.strerror(int(found[1]))) from error
            raise
        beside.chmod(mode)
