"""metrics.jsonl read back, by columns. A run may be going on meanwhile: a last line that is half-written is left out."""

import json
import math
import os
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..lib.atomic import reason
from ..lib.errors import ConfigError

LARGEST = 256 << 20  # bytes: well over a million lines
FIELDS = 40  # of its lines


class Columns(NamedTuple):
    """metrics.jsonl by columns, NaN where there is no number. words: what its fields of text said last."""

    steps: Int[np.ndarray, " N"]
    columns: dict[str, Float[np.ndarray, " N"]]
    words: dict[str, str]

    def points(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """The steps and values where this column has a number."""
        values = self.columns.get(name, np.full(len(self.steps), np.nan))
        there = np.isfinite(values)
        return self.steps[there], values[there]


def read_columns(path: Path, watch: Callable[[int], object] = lambda done: None) -> Columns:
    """Where a step comes again, in a run that went on from an older checkpoint, the later lines count."""
    if not path.exists():
        return Columns(np.zeros(0, np.int64), {}, {})
    steps, columns, words = array("q"), {}, {}
    for row in rows_of(path, watch):
        step = row.pop("step")
        while steps and steps[-1] >= step:
            for column in (steps, *columns.values()):
                column.pop()
        for name in row:
            if name not in columns:
                columns[name] = array("d", [math.nan]) * len(steps)
        if len(columns) > FIELDS:
            raise ConfigError(f"{path} has more than {FIELDS} different fields; expected a few numbers by step")
        steps.append(step)
        for name, column in columns.items():
            value = row.get(name)
            column.append(finite(value))
            if isinstance(value, str):
                words[name] = value
    numbers = {name: values for name, column in columns.items() if np.isfinite(values := np.asarray(column, np.float64)).any()}
    return Columns(np.asarray(steps, np.int64), numbers, words)


def finite(value: Any) -> float:
    """NaN for all that is no finite number."""
    return float(value) if type(value) in (float, int) and abs(value) < 1e300 else math.nan


def rows_of(path: Path, watch: Callable[[int], object] = lambda done: None) -> Iterator[dict[str, Any]]:
    """The lines, without one at the end that is half-written. watch: is given the bytes read so far."""
    done = 0
    try:
        if not path.is_file():
            raise ConfigError(f"{path} is no file")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > LARGEST:
                raise ConfigError(f"{path} has {size:,} bytes; at most {LARGEST:,} are read")
            for number, line in enumerate(file, 1):
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    row = None
                if isinstance(row, dict) and type(step := row.get("step")) is int and 0 <= step < 2**53:
                    yield row
                elif line.endswith(b"\n"):
                    raise ConfigError(f"{path} is damaged: line {number:,} is no object with a step")
                done += len(line)
                if number % 1000 == 0:
                    watch(done)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {reason(error)}") from None
