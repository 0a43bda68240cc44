"""Checkpoints: everything that the next step of a run depends on, there whole or not at all.

    checkpoints/000250/state.safetensors    weights, moments, counters, loss scale, by name: params/wte.weight, optimiser/1/mu/...
                       manifest.json        the step, the sha256 of the other file, and what the run was: `Origin`

The data and what dropout drops are functions of (seed, step), so the step is their state.
"""

import hashlib
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path

from ..lib import tensors
from ..lib.atomic import making, reason, write_json
from ..lib.errors import ConfigError, PullbackError
from ..lib.reading import read_json
from .step import State

FORMAT = 1
FOLDER, STATE, MANIFEST = "checkpoints", "state.safetensors", "manifest.json"


class Origin(NamedTuple):
    """What a run may not change between a checkpoint and its resumption. config: the fields that decide numbers."""

    config: dict[str, Any]
    data: str  # sha256 of the text
    tokeniser: str
    rules: list


class Checkpoint(NamedTuple):
    """One that was found whole: its files are those that the manifest knows."""

    path: Path
    step: int
    val_loss: float | None
    origin: Origin


def named(state: State) -> dict[str, Any]:
    return {keystr(path, simple=True, separator="/"): x for path, x in tree_flatten_with_path(state)[0]}


class Saver:
    """Writes checkpoints in a thread of its own, from a copy of the state that the device makes between two steps.

        copy = saver.copy(state)
        saver.save(step, copy, val_loss)

    It keeps the last `keep` of them and the one of the lowest validation loss. An error of the thread is raised by the next
    call; what was saved before stays. `close` waits for the last.
    """

    def __init__(self, run: Path, origin: Origin, keep: int):
        self.folder, self.origin, self.keep = run / FOLDER, origin, keep
        self.thread: threading.Thread | None = None
        self.error: BaseException | None = None
        for path in unfinished(self.folder):
            shutil.rmtree(path, ignore_errors=True)

    def copy(self, state: State) -> State:
        """What `save` is to be given: a copy that no step uses up, on its way while the step before is still at work. It waits
        for the save before, so that there is only one."""
        self.wait()
        return copied(state)

    def save(self, step: int, copy: State, val_loss: float | None) -> None:
        """Begin to write a checkpoint."""
        self.thread = threading.Thread(target=self.work, args=(step, copy, val_loss), name="checkpoint", daemon=True)
        self.thread.start()

    def work(self, step: int, state: State, val_loss: float | None) -> None:
        try:
            write(self.folder / f"{step:06d}", step, state, val_loss, self.origin)
            self.forget()
        except BaseException as error:  # raised where the run can hear it
            self.error = error

    def wait(self) -> None:
        if self.thread is not None:
            self.thread.join()
            self.thread = None
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    close = wait

    def forget(self) -> None:
        """Remove all but the last ones and the best."""
        steps = there(self.folder)
        losses = {path: loss for path in steps if (loss := loss_of(path)) is not None}
        best = min(losses, key=lambda path: losses[path], default=None)
        for path in steps[: -self.keep]:
            if path != best:
                shutil.rmtree(path, ignore_errors=True)


@jax.jit
def copied(state: State) -> State:
    return jax.tree.map(jnp.copy, state)


def write(path: Path, step: int, state: State, val_loss: float | None, origin: Origin) -> None:
    with making(path) as beside:
        tensors.write(beside / STATE, named(state), "pullback-checkpoint")
        files = {STATE: digest(beside / STATE)}
        manifest = {"format": FORMAT, "step": step, "files": files, "val_loss": val_loss, **origin._asdict()}
        write_json(beside / MANIFEST, manifest)


def digest(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {reason(error)}") from None


def there(folder: Path) -> list[Path]:
    """The checkpoints that have their name, by step."""
    found = [path for path in folder.glob("*") if re.fullmatch(r"\d{6,10}", path.name) and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name))


def unfinished(folder: Path) -> list[Path]:
    """What a save that was killed has left."""
    return [path for path in folder.glob(".*.partial-*") if path.is_dir()]


def loss_of(path: Path) -> float | None:
    try:
        return read(path, whole=False).val_loss
    except PullbackError:
        return None


def read(path: Path, whole: bool = True) -> Checkpoint:
    """The manifest, checked; and with `whole` that each file is what it was when it was written. ConfigError names the file."""
    record = read_json(path / MANIFEST)
    kinds = {"format": int, "step": int, "files": dict, "val_loss": (int, float, type(None)), "config": dict, "data": str}
    kinds |= {"tokeniser": str, "rules": list}
    wrong = not isinstance(record, dict) or record.keys() != kinds.keys() or not all(isinstance(record[k], kinds[k]) for k in kinds)
    if wrong or record["format"] != FORMAT or list(record["files"]) != [STATE]:
        raise ConfigError(f"{path / MANIFEST} is no manifest of a checkpoint of format {FORMAT}")
    if whole and digest(path / STATE) != record["files"][STATE]:
        raise ConfigError(f"{path / STATE} is damaged: its sha256 is not the one in {MANIFEST}")
    return Checkpoint(path, record["step"], record["val_loss"], Origin(*(record[name] for name in Origin._fields)))


def newest(run: Path, warn: Callable[[str], object]) -> Checkpoint:
    """The last checkpoint that is whole. `warn` is told of each later one that is not."""
    for path in reversed(there(run / FOLDER)):
        try:
            return read(path)
        except PullbackError as error:
            warn(f"WARNING: {error}; going back to the checkpoint before")
    raise ConfigError(f"{run} has no whole checkpoint to go on from")


def restore(checkpoint: Checkpoint, like: State) -> State:
    """The state of a checkpoint. like: a state, or its shapes; ConfigError lists every name, shape and dtype that differs."""
    file, wanted = tensors.Tensors(checkpoint.path / STATE), named(like)
    tensors.demand(tensors.kinds(wanted), file.kinds, str(checkpoint.path))
    arrays = {name: jnp.asarray(np.asarray(file[name])) for name in wanted}
    return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in wanted])


def differences(
    came: Any, expected: Any, name: str = "", words: tuple[str, str] = ("is", "was"), alone: tuple[str, str] = ("is new", "is gone")
) -> list[str]:
    """Each place where two records differ, in words. alone: of what only the first has, only the second."""
    if isinstance(came, dict) and isinstance(expected, dict):
        found = []
        for key in {**expected, **came}:
            inner = f"{name}.{key}" if name else str(key)
            if key not in came or key not in expected:
                found.append(f"{inner} {alone[key not in came]}")
            else:
                found += differences(came[key], expected[key], inner, words, alone)
        return found
    return [] if came == expected else [f"{name} {words[0]} {came!r} and {words[1]} {expected!r}"]
