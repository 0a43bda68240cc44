"""Where a run comes from: the code, the libraries, the machine and the data that its numbers depend on."""

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from ..lib import arena
from ..ops.rule import RULES

DIFF = 100_000  # characters of a difference that are kept whole


def provenance() -> dict[str, Any]:
    """What does not depend on the config: it stands in the run's provenance.json."""
    [device] = jnp.zeros(()).devices()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "versions": {name: importlib.metadata.version(name) for name in ("pullback", "jax", "jaxlib", "numpy")},
        "git": git(Path(__file__).parents[1]),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": f"{device}, {device.device_kind}",
        "threads": cores,
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "arena": arena.status().why,
        "rules": rules(),
    }


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
