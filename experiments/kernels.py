"""The same kernels each time: what XLA is told of a run's programs on a GPU.

On a CPU a program gives the same bits each time, and so it does on a TPU. On a GPU two things stand in the way (XLA's page on
determinism): ops that add in the order in which threads come, a scatter for one, and kernels that are chosen by timing several.
`xla_gpu_exclude_nondeterministic_ops` has others in place of the former; of the latter XLA writes what it chose, and takes what it is
given. `xla_gpu_deterministic_ops` would choose without timing, and slower ones.

They are options of each program, not XLA_FLAGS: those are read before the first device is made, when nobody knows yet whether there
is a GPU, and one that XLA does not know ends the process. To XLA its choices are one table a process, which it reads once and writes
whole after each compile: so there is one file a process, which is copied into the folder of the run.

That jaxlib takes these options is tested; what they do is untried: there was no GPU where this was written.
"""

import atexit
import contextlib
import functools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path

from ..lib.atomic import write_bytes
from ..lib.reading import read_bytes
from .machine import device

FILE = "autotune.textproto"
LARGEST = 1 << 30  # bytes of it

KEPT: ContextVar[Path | None] = ContextVar("kept", default=None)

Options = dict[str, bool | str]


@contextlib.contextmanager
def kernels_of(run: Path) -> Iterator[None]:
    """The programs of jobs that are prepared inside have the kernels of this run."""
    token = KEPT.set(run / FILE)
    try:
        yield
    finally:
        KEPT.reset(token)


def options(reproducible: bool) -> Options:
    """Of the programs of a run, here and now."""
    kept = KEPT.get()
    return options_on(device().platform, reproducible, chosen, kept if kept and kept.is_file() else None)


def options_on(platform: str, reproducible: bool, write: Callable[[], Path], read: Path | None) -> Options:
    """write: asked for the file for XLA's choices, where it is needed; read: one with those of an earlier start."""
    if platform != "gpu" or not reproducible:
        return {}
    told: Options = {"xla_gpu_exclude_nondeterministic_ops": True, "xla_gpu_dump_autotune_results_to": str(write())}
    return told if read is None else told | {"xla_gpu_load_autotune_results_from": str(read)}


def doubts(run: Path, reproducible: bool) -> list[str]:
    """Why the kernels of a run may not be what they were, here and now."""
    return doubts_on(device().platform, reproducible, (run / FILE).is_file())


def doubts_on(platform: str, reproducible: bool, kept: bool) -> list[str]:
    if platform != "gpu":
        return []
    if not reproducible:
        return ["the run is not marked as reproducible, and on a GPU no two of those are alike"]
    return [] if kept else [f"{FILE} is gone, so that kernels are chosen anew"]


@functools.cache
def chosen() -> Path:
    """Where XLA writes in this process; gone when it ends."""
    folder = tempfile.mkdtemp(prefix="pullback-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder) / FILE


def keep(run: Path) -> None:
    """Copy what XLA has chosen so far, if it has, into the folder of a run."""
    if chosen.cache_info().currsize and chosen().is_file():
        write_bytes(run / FILE, read_bytes(chosen(), LARGEST))
