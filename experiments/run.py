"""The folder of a run: what is written while it goes on, what at its end, and how a run is read back.

    config.json        the RunConfig                      metrics.jsonl      a line of numbers every few steps
    provenance.json    code, machine, data, sizes         loss.png           their picture
    tokeniser.json     text to tokens and back            samples.txt        what the model writes
    model.safetensors  weights by parameter name          checkpoints/       what a resumption needs (checkpoint.py)

Every file but metrics.jsonl is there whole or not at all.
"""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

from .. import nn
from ..lib import tensors, tokenisers
from ..lib.atomic import reason, write_json
from ..lib.errors import ConfigError, PullbackError
from ..lib.reading import read_json
from ..lib.tokenisers import Tokeniser
from ..models.gpt2 import GPT2
from .config import RunConfig, check, from_record, to_record
from .small.config import SMALL, SmallConfig
from .step import template_of

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

RUNS = Path("runs")
PATIENCE = 0.2  # seconds that a run waits for its folder: who looks whether one is at work has the lock for an instant


def demand_free(folder: str | Path) -> Path:
    """A folder that is absent or empty, so that no run is written over another."""
    if not str(folder):
        raise ConfigError("the name of the output folder is empty; leave --out away for a new folder under runs")
    folder = Path(folder)
    try:
        if folder.is_dir():
            if any(folder.iterdir()):
                raise ConfigError(f"the output folder {folder} is not empty; name a new one")
        elif os.path.lexists(folder):
            raise ConfigError(f"the output folder {folder} is a file; name a new folder")
    except OSError as error:
        raise ConfigError(f"cannot use the output folder {folder}: {reason(error)}") from None
    return demand_writable(folder)


def demand_writable(folder: Path) -> Path:
    """A folder that, as far as can be seen, can be made or is there to be written into."""
    place = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not place.is_dir():
        raise ConfigError(f"cannot make the output folder {folder}: {place} is a file")
    if not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(f"cannot make the output folder {folder}: no permission to write into {place}")
    return folder


def demand_place(file: str, suffix: str = "") -> Path:
    """The path of a file that can be written, with this ending: asked before the work, not after it."""
    if not file:
        raise ConfigError("the name of a file to write is empty")
    if not file.endswith(suffix):
        raise ConfigError(f"{file}: expected a name that ends in {suffix}")
    if Path(file).is_dir():
        raise ConfigError(f"cannot write {file}: it is a folder")
    if not Path(file).parent.is_dir():
        raise ConfigError(f"cannot write {file}: there is no folder {Path(file).parent}")
    try:
        with tempfile.TemporaryFile(dir=Path(file).parent):  # some folders say that they can be written into, and cannot
            return Path(file)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {reason(error)}") from None


def make_folder(out: str | Path | None, preset: str) -> Path:
    """The folder `out`, or else the first of runs/PRESET-001, runs/PRESET-002, ... that is not there."""
    try:
        if out is not None:
            demand_free(out).mkdir(parents=True, exist_ok=True)
            return Path(out)
        return next_folder(RUNS, preset)
    except OSError as error:
        raise ConfigError(f"cannot make the output folder {out or RUNS}: {reason(error)}") from None


def next_folder(runs: Path, preset: str) -> Path:
    runs.mkdir(exist_ok=True)
    number = 1 + max((int(n) for n in (p.name.removeprefix(f"{preset}-") for p in runs.iterdir()) if n.isdecimal()), default=0)
    while True:
        folder = runs / f"{preset}-{number:03d}"
        try:
            folder.mkdir()
            return folder
        except FileExistsError:  # another process was quicker
            number += 1


@contextlib.contextmanager
def occupied(folder: Path) -> Iterator[None]:
    """No other process writes this run meanwhile; one that is killed lets go of it."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        end = time.monotonic() + PATIENCE
        while not lock(handle, fcntl.LOCK_EX):
            if time.monotonic() > end:
                raise ConfigError(f"another process is at work on {folder}; wait for its end, or stop it")
            time.sleep(PATIENCE / 20)
        yield
    finally:
        os.close(handle)


def at_work(folder: Path) -> bool:
    """Does a process write this run now? Nobody knows where there are no locks: False."""
    if fcntl is None:
        return False
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not lock(handle, fcntl.LOCK_SH)  # several may look at once
    finally:
        os.close(handle)


def lock(handle: int, kind: int) -> bool:
    """Take it until the handle is closed; False where another process has it. A file system without locks refuses nobody."""
    assert fcntl
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def begin(folder: Path, config: RunConfig | SmallConfig, tokeniser: Tokeniser | None, record: dict[str, Any]) -> None:
    write_json(folder / "config.json", to_record(config))
    if tokeniser is not None:
        write_json(folder / "tokeniser.json", tokeniser.to_json())
    write_json(folder / "provenance.json", record)


def save_weights(folder: Path, params: dict[str, jax.Array]) -> None:
    tensors.write(folder / "model.safetensors", params, "pullback")


class Loaded(NamedTuple):
    config: RunConfig
    model: GPT2
    tokeniser: Tokeniser


def load_run(path: str | Path) -> Loaded:
    """A run as it was at its end. Nothing in the folder is trusted: sizes are compared before memory is taken for them.

    Raises ConfigError that names the file where one is missing, damaged, or does not fit the others.
    """
    config, words = read_run(path)
    try:
        return Loaded(config, read_model(Path(path) / "model.safetensors", config), words)
    except PullbackError as error:
        raise ConfigError(f"cannot load the run {path}: {error}") from None


def read_run(path: str | Path) -> tuple[RunConfig, Tokeniser]:
    """What a run was asked for, and its tokeniser."""
    if not str(path):
        raise ConfigError("the name of the run is empty; `pullback train` prints the path of its run")
    folder = Path(path)
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{folder} is no run: there is no config.json in it; `pullback train` makes one and prints its path")
    try:
        written = read_json(folder / "config.json")
        name = written.get("preset") if isinstance(written, dict) else None
        if isinstance(name, str) and name in SMALL:
            raise ConfigError(f"it is of {name}, which is no language model and has no tokens to write")
        config = check(from_record(RunConfig, written, "config.json"))
        tokeniser = tokenisers.from_json(read_json(folder / "tokeniser.json"))
        if tokeniser.vocabulary > config.model.vocab:
            raise ConfigError(f"tokeniser.json has {tokeniser.vocabulary} tokens and the model {config.model.vocab}")
        return config, tokeniser
    except PullbackError as error:
        raise ConfigError(f"cannot load the run {folder}: {error}") from None


def read_model(path: Path, config: RunConfig) -> GPT2:
    """The model of `config` with the weights of a safetensors file that holds exactly its parameters."""
    file = tensors.Tensors(path)
    config.model.demand_layers(len(file.kinds), path.name)
    template = template_of(config)
    wanted = nn.named_parameters(template)
    tensors.demand(tensors.kinds(wanted), file.kinds, path.name)
    return nn.with_parameters(template, {name: jax.numpy.asarray(file[name]) for name in wanted})
