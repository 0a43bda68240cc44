"""Where a run comes from: the code, the libraries, the machine and the data that its numbers depend on."""

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax

from ..lib import arena
from ..lib.errors import ConfigError
from ..lib.reading import read_json
from ..ops.rule import RULES
from .checkpoint import differences
from .machine import device, processor

DIFF = 100_000  # characters of a difference that are kept whole
JAX = ("jax_enable_x64", "jax_default_prng_impl", "jax_threefry_partitionable", "jax_default_matmul_precision")  # that decide numbers
DECIDING = ("versions", "device_kind", "vectors", "xla_flags", "jax_config")
"""Besides the code, what decides the bits of a run whose config, data, tokeniser and rules are the same. On a CPU the number of threads
does too: XLA divides products among them. The Python, the kernel of the system and the arena do not: no number of a step is theirs."""
NOTED = ("python", "platform", "threads", "rules")


def provenance() -> dict[str, Any]:
    """What does not depend on the config: it stands in the run's provenance.json."""
    here = device()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "versions": {name: importlib.metadata.version(name) for name in ("pullback", "jax", "jaxlib", "numpy")},
        "git": git(Path(__file__).parents[1]),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": str(here),
        "device_kind": processor().name if here.platform == "cpu" else here.device_kind,
        "vectors": processor().vectors if here.platform == "cpu" else None,
        "threads": cores,
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "jax_config": {name: getattr(jax.config, name, None) for name in JAX},
        "arena": arena.status().why,
        "rules": rules(),
    }


class Changes(NamedTuple):
    """What is not as it was when a run was made. deciding: the numbers may be others by it; noted: they are not."""

    deciding: list[str]
    noted: list[str]


def record_of(run: Path) -> dict[str, Any]:
    """What provenance.json says; nothing, where it cannot be read."""
    try:
        record = read_json(run / "provenance.json")
    except ConfigError:
        return {}
    return record if isinstance(record, dict) else {}


def changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> Changes:
    """Between a record that was read and `provenance()`, in words."""
    if not then:
        return Changes(["its provenance.json cannot be read"], [])
    told = lambda names: differences({x: now.get(x) for x in names}, {x: then.get(x) for x in names}, words=("is now", "was"))
    code = code_of(then.get("git")), code_of(now.get("git"))
    changed = [f"the code changed since (git {code[0]} → {code[1]})"] if code[0] != code[1] else []
    threads = ("threads",) if now.get("vectors") is not None else ()
    return Changes(changed + told(DECIDING + threads), told([name for name in NOTED if name not in threads]))


def legs(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The resumptions that a record tells of: by other code, or on another machine."""
    told = record.get("resumed")
    whole = lambda leg: isinstance(leg, dict) and isinstance(leg.get("differences"), list) and isinstance(leg.get("provenance"), dict)
    return [leg for leg in told if whole(leg)] if isinstance(told, list) else []


def last_leg(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the run was begun or last gone on with."""
    return legs(record)[-1]["provenance"] if legs(record) else record


def resumed(record: Mapping[str, Any], step: int, differences: list[str], now: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a run that goes on after this step."""
    return {**record, "resumed": [*legs(record), {"step": step, "differences": differences, "provenance": now}]}


def code_of(git: Any) -> str:
    """Short, and another for other code."""
    if not isinstance(git, dict):
        return "none"
    dirty = git.get("dirty")
    return f"{git.get('sha')!s:.7}" + (f" with changes {dirty.get('sha256')!s:.7}" if isinstance(dirty, dict) else "")


def rules() -> list[list]:
    """The backward rules that are chosen by `pb.rules` now, as JSON has them."""
    return [[pattern, rule] for pattern, rule in RULES.value]


def git(folder: Path) -> dict[str, Any] | None:
    """Commit and uncommitted changes of the package's own repository, if it is run from one."""
    if not (folder / ".git").exists():
        return None
    try:
        ask = lambda *words: subprocess.run(["git", "-C", str(folder), *words], capture_output=True, timeout=20, check=True).stdout
        sha, diff = ask("rev-parse", "HEAD").decode().strip(), ask("diff", "HEAD").decode(errors="replace")
    except (OSError, subprocess.SubprocessError):
        return None
    dirty = {"sha256": hashlib.sha256(diff.encode()).hexdigest(), "diff": diff[:DIFF]} if diff else None
    return {"sha": sha, "dirty": dirty}
