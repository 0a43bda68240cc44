"""What a command runs on: the device, the number of threads, and whether memory will do."""

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import tyro

from ..lib import arena
from ..lib.errors import ConfigError, UnknownName, near

DEVICES = ("cpu", "gpu", "tpu")
VECTORS = ("avx", "amx", "fma", "f16c", "sve", "asimd")  # instructions of a CPU for which XLA makes other programs


@dataclass(frozen=True)
class Machine:
    """Where and how a command runs."""

    device: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """cpu, gpu or tpu, or the i-th of them as in gpu:1; JAX's choice if not given."""
    threads: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Keep to so many cores."""
    arena: Literal["on", "off"] = "on"
    """Keep memory from step to step (Linux): fewer page faults, faster steps."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print one JSON object on standard output and nothing else there."""


def settle(machine: Machine) -> None:
    """In this order: JAX makes its threads, and they their memory, when the first device is asked for."""
    use_threads(machine.threads)
    arena.keep(machine.arena == "on")
    use_device(machine.device)


def use_device(name: str | None) -> None:
    """Have everything run on `cpu`, `gpu`, `tpu`, or the i-th of them, as in `gpu:1`; `None` is JAX's own choice."""
    if name is None:
        return
    found = re.fullmatch(r"([a-z]+)(?::(\d{1,6}))?", name)
    if not found or found[1] not in DEVICES:
        raise UnknownName(f"no device {name!r}; write cpu, gpu or tpu, and :i for the i-th" + near(name.split(":")[0], DEVICES))
    devices, index = devices_of(found[1]), int(found[2] or 0)
    if index >= len(devices):
        there = ", ".join(f"{device.platform}:{i}" for kind in DEVICES for i, device in enumerate(devices_of(kind)))
        raise ConfigError(f"no device {name!r} on this machine; there are: {there}")
    jax.config.update("jax_default_device", devices[index])


def device() -> Any:
    """What everything runs on now."""
    [device] = jnp.zeros(()).devices()
    return device


class Processor(NamedTuple):
    """vectors: those of its instructions that XLA makes other programs for."""

    name: str
    vectors: str


def processor() -> Processor:
    """As far as the system says."""
    try:
        lines = (line.partition(":") for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines())
        said = {name.strip(): value.strip() for name, _, value in lines}
    except (OSError, UnicodeDecodeError):
        said = {}
    words = sorted((said.get("flags") or said.get("Features") or "").split())
    return Processor(said.get("model name") or platform.machine(), " ".join(word for word in words if word.startswith(VECTORS)))


def devices_of(kind: str) -> list:
    try:
        return jax.devices(kind)
    except RuntimeError:
        return []


def use_threads(count: int | None) -> None:
    """Keep this process, and what it becomes, to `count` cores. To be called before JAX makes its threads."""
    if count is None:
        return
    if not hasattr(os, "sched_setaffinity"):
        raise ConfigError("threads cannot be set on this system; leave the option out")
    cores = sorted(os.sched_getaffinity(0))
    if not 1 <= count <= len(cores):
        raise ConfigError(f"threads is {count}; this process may use 1 to {len(cores)} cores")
    os.sched_setaffinity(0, cores[:count])


def demand_memory(needed: int, what: str) -> None:
    """ConfigError where the machine does not have `needed` bytes at all: better than to be killed halfway."""
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return
    if needed > there:
        raise ConfigError(
            f"{what} takes {needed / 2**30:,.1f} GiB and this machine has {there / 2**30:,.1f}: take a smaller model or batch"
        )
