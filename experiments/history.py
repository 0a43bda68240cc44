"""What a run has left in its folder, read back to be looked at: settings, provenance, metrics, samples, and where it stands.

Nothing in the folder is trusted: sizes are bounded, and what is damaged is one error that names the file.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..lib.atomic import reason
from ..lib.errors import ConfigError, PullbackError, near
from ..lib.reading import read_bytes, read_json
from .columns import Columns, read_columns
from .config import shown
from .progress import Progress
from .run import at_work

DEPTH, ENTRIES = 8, 2_000  # of what is shown entry by entry
SAMPLE = 20_000  # characters


class Standing(NamedTuple):
    """Where a run stands, by its files. step: of its last line of metrics; changed: when that was written, in seconds since 1970.

    status: "at work", a process has the lock of its folder; "finished", with weights after the last step; "diverged", its last loss
    is no number; "stopped", anything else: interrupted, killed, or at work where the system has no locks.
    """

    preset: str
    status: str
    step: int
    steps: int
    loss: float | None
    val_loss: float | None
    best_val_loss: float | None
    best_step: int | None
    changed: float


class History(NamedTuple):
    """A run as its files tell it. sample: what it wrote, or reported, at its end. checkpoint: the step of the newest one."""

    folder: Path
    config: dict[str, Any]
    provenance: dict[str, Any]
    metrics: Columns
    standing: Standing
    sample: str
    checkpoint: int | None


def is_run(folder: Path) -> bool:
    return (folder / "config.json").is_file()


def runs_in(folder: Path) -> list[Path]:
    """The folders of runs in a folder, by name. ConfigError where it cannot be read."""
    try:
        return sorted(path for path in folder.iterdir() if is_run(path))
    except OSError as error:
        raise ConfigError(f"cannot read {folder}: {reason(error)}") from None


def read_config(folder: Path) -> dict[str, Any]:
    """config.json, with a preset and a number of steps; other settings may be those of another version."""
    if not is_run(folder):
        raise ConfigError(f"{folder} is no run: there is no {'config.json in it' if folder.is_dir() else 'such folder'}" + others(folder))
    path = folder / "config.json"
    config = read_object(path)
    preset, steps = config.get("preset"), config.get("steps")
    if not isinstance(preset, str) or len(preset) > 100 or type(steps) is not int or not 0 <= steps < 2**53:
        raise ConfigError(f"{path} is not of a run: expected a preset and a number of steps; got {shown(list(config)[:9])}")
    return config


def others(folder: Path) -> str:
    """What there is beside a folder that is no run, for an error: the nearest names, or all of them if they are few."""
    parent = folder.absolute().parent
    names = [path.name for path in runs_in(parent)] if parent.is_dir() else []
    said = near(folder.name, names) if names else "; `pullback train` makes one and prints its path"
    return said if len(said) < 200 else f"; `pullback runs {folder.parent}` lists those that there are"


def read_object(path: Path) -> dict[str, Any]:
    record = read_json(path)
    if not isinstance(record, dict):
        raise ConfigError(f"{path}: expected an object; got {type(record).__name__}")
    return record


def read_history(folder: Path, watch: Callable[[int], object] = lambda done: None) -> History:
    """watch: is given the bytes of metrics read so far."""
    config, busy = read_config(folder), at_work(folder)  # asked first: what a run at its end wrote is then read
    provenance = read_object(folder / "provenance.json") if (folder / "provenance.json").exists() else {}
    metrics = read_columns(folder / "metrics.jsonl", watch)
    checkpoint = max((int(p.name) for p in folder.glob("checkpoints/*") if re.fullmatch(r"[0-9]{1,12}", p.name)), default=None)
    return History(folder, config, provenance, metrics, standing(folder, config, metrics, busy), read_sample(folder), checkpoint)


def read_all(folders: Sequence[Path], show: Progress, keep: bool = False) -> Iterator[Any]:
    """The history of each; keep: in place of a run that cannot be read, the error."""
    sizes = [metrics.stat().st_size if (metrics := folder / "metrics.jsonl").is_file() else 0 for folder in folders]
    before = 0
    show.start(max(1, sum(sizes)), "byte")
    try:
        for folder, size in zip(folders, sizes):
            try:
                yield read_history(folder, lambda done, before=before, name=folder.name: show.at(before + done, name))
            except (PullbackError, OSError) as error:
                if not keep:
                    raise
                yield error
            before += size
    finally:
        show.close()


def as_json(folder: Path, standing: Standing | Exception) -> dict[str, Any]:
    """What --json says of a run."""
    if isinstance(standing, Exception):
        return {"run": str(folder), "status": "damaged", "error": " ".join(str(standing).split())}
    return {"run": str(folder), **standing._asdict()}


def read_sample(folder: Path) -> str:
    for name in ("samples.txt", "report.txt"):
        if (folder / name).exists():
            text = read_bytes(folder / name).decode(errors="replace")
            return text if len(text) <= SAMPLE else f"{text[:SAMPLE]}\n… {len(text) - SAMPLE:,} more characters in {name}"
    return ""


def standing(folder: Path, config: dict[str, Any], metrics: Columns, busy: bool) -> Standing:
    steps, step = config["steps"], int(metrics.steps[-1]) if len(metrics.steps) else 0
    losses, (looks, seen) = metrics.columns.get("loss"), metrics.points("val_loss")
    lost = losses is not None and not math.isfinite(losses[-1])
    best = int(seen.argmin()) if len(seen) else None
    changed = modified(folder / "metrics.jsonl") or modified(folder / "config.json")
    if busy:
        status = "at work"
    elif step == steps and (folder / "model.safetensors").is_file():
        status = "finished"
    else:
        status = "diverged" if lost or (losses is None and step) else "stopped"
    return Standing(
        preset=config["preset"],
        status=status,
        step=step,
        steps=steps,
        loss=None if losses is None or lost else float(losses[-1]),
        val_loss=float(seen[-1]) if len(seen) else None,
        best_val_loss=None if best is None else float(seen[best]),
        best_step=None if best is None else int(looks[best]),
        changed=changed,
    )


def modified(path: Path) -> float:
    """0 for what is not there."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def flat(record: dict[str, Any], where: str) -> dict[str, str]:
    """Entries by dotted name, as text: {"model": {"layers": 4}} is {"model.layers": "4"}. where: for the error."""
    entries: dict[str, str] = {}

    def enter(name: str, value: Any, depth: int) -> None:
        if depth > DEPTH or len(entries) > ENTRIES:
            raise ConfigError(f"{where} nests more than {DEPTH} deep or has more than {ENTRIES:,} entries; it is no record of a run")
        if isinstance(value, dict) and value:
            for key, inner in value.items():
                enter(f"{name}.{key}" if name else key, inner, depth + 1)
        elif isinstance(value, list) and any(isinstance(inner, (dict, list)) for inner in value):
            for i, inner in enumerate(value):
                enter(f"{name}.{i}", inner, depth + 1)
        else:
            entries[name] = value if isinstance(value, str) else json.dumps(value)

    if record:
        enter("", record, 0)
    return entries
