"""The arena: memory that XLA gives back after a step is kept for the next one, in huge pages.

XLA on a CPU takes the temporaries of a program from malloc each time the program runs, on a thread of its own. glibc
serves such a thread from an arena whose heaps end at 64 MiB; what is larger it maps, and unmaps when the step is over, so
each step is given its pages anew: 110,000 page faults for GPT-2 124M at 256 tokens. Keeping them takes three settings
together: one arena for all threads (M_ARENA_MAX, without which the other two act on the wrong arena), nothing mapped
(M_MMAP_MAX) and nothing returned (M_TRIM_THRESHOLD). Then the heap is asked to grow in huge pages, by reserving addresses,
not memory, and marking them. A step of the same program then faults 0 times and the process peaks no higher than before.

What it costs: memory that the process once used stays with it, and threads share one lock in malloc.
Linux with glibc only; elsewhere every function here answers and changes nothing.
"""

import ctypes
import os
import platform
from typing import NamedTuple

ARENA_MAX, MMAP_MAX, TRIM_THRESHOLD = -8, -4, -1  # mallopt's parameters, from <malloc.h>
MADV_HUGEPAGE = 14
HUGE = 2 << 20
TUNABLES = {  # the same settings for a process that has not started yet
    "glibc.malloc.arena_max": "1",
    "glibc.malloc.mmap_max": "0",
    "glibc.malloc.trim_threshold": str(2**63),
    "glibc.malloc.hugetlb": "1",
}


class Status(NamedTuple):
    """Whether pages are kept, and by what means or why not; page faults so far; memory of the process now and at its peak."""

    on: bool
    why: str
    page_faults: int
    resident_mib: int
    peak_mib: int


kept = ""  # what the last call of keep() came to


def keep(on: bool = True) -> Status:
    """Keep the pages of this process from now on. Call it before JAX makes its devices (an import is no matter), for it
    cannot move a thread that already has an arena; where it comes too late the status says so. There is no way back, so
    `keep(False)` only reports."""
    global kept
    if on and kept != "mallopt":
        kept = settle()
    return status()


def settle() -> str:
    """Change the settings; "mallopt" when they took, else the reason why not."""
    libc = glibc()
    if libc is None:
        return "not Linux with glibc"
    if in_force(os.environ):
        return "GLIBC_TUNABLES"
    if count_arenas(libc) > 1:  # their number is not told: threads that start now would make the next answer another one
        return f"threads have malloc arenas already; call keep() before the first jax call, or start under GLIBC_TUNABLES={tunables()}"
    if not all(libc.mallopt(parameter, value) for parameter, value in ((ARENA_MAX, 1), (MMAP_MAX, 0), (TRIM_THRESHOLD, -1))):
        return "mallopt refused"
    reserve(libc)
    return "mallopt"


def reserve(libc: ctypes.CDLL) -> None:
    """Grow the heap by addresses for three quarters of the machine's memory and mark them for huge pages. None of it is
    memory until it is touched. Where addresses are rationed (strict overcommit, a limit) the heap grows in small pages."""
    if overcommit_is_strict():
        return
    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4
    block = libc.malloc(size)
    if block:
        first, last = -(-block // HUGE) * HUGE, (block + size) // HUGE * HUGE
        libc.madvise(first, last - first, MADV_HUGEPAGE)  # refused where the kernel has no huge pages: nothing lost
        libc.free(block)


def overcommit_is_strict() -> bool:
    try:
        with open("/proc/sys/vm/overcommit_memory") as file:
            return file.read().strip() == "2"
    except OSError:
        return True


def count_arenas(libc: ctypes.CDLL) -> int:
    """Arenas of malloc, from the XML that malloc_info writes."""
    text, size = ctypes.c_char_p(), ctypes.c_size_t()
    stream = libc.open_memstream(ctypes.byref(text), ctypes.byref(size))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    count = (text.value or b"").count(b"<heap nr=")
    libc.free(ctypes.cast(text, ctypes.c_void_p))
    return count


def glibc() -> ctypes.CDLL | None:
    """The C library with the signatures used here, or `None` where it is another one."""
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc":
        return None
    libc = ctypes.CDLL(None)
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    libc.malloc.argtypes, libc.malloc.restype = [size], pointer
    libc.free.argtypes, libc.free.restype = [pointer], None
    libc.madvise.argtypes = [pointer, size, ctypes.c_int]
    libc.open_memstream.restype = pointer
    libc.malloc_info.argtypes = [ctypes.c_int, pointer]
    libc.fclose.argtypes = [pointer]
    return libc


def tunables(existing: str = "") -> str:
    """A value of GLIBC_TUNABLES that keeps the pages of a process from its start, for a notebook server or a program that
    knows nothing of this module; what `existing` sets beside them stays."""
    others = [item for item in existing.split(":") if item and item.partition("=")[0] not in TUNABLES]
    return ":".join(others + [f"{name}={value}" for name, value in TUNABLES.items()])


def in_force(environment) -> bool:
    """Was this process started under `tunables()`?"""
    return set(tunables().split(":")) <= set(environment.get("GLIBC_TUNABLES", "").split(":"))


def status() -> Status:
    """What is in force now, and what this process has used."""
    means = kept or ("GLIBC_TUNABLES" if in_force(os.environ) and glibc() else "off")
    return Status(means in ("mallopt", "GLIBC_TUNABLES"), means, page_faults(), resident() >> 20, peak() >> 20)


def page_faults() -> int:
    """Pages given to this process so far without reading a disk; 0 where the system does not count them."""
    try:
        import resource  # not on Windows
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def peak() -> int:
    """The most memory that this process has held, in bytes; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if platform.system() == "Darwin" else 1024)


def resident() -> int:
    """Memory that this process holds now, in bytes; its peak where /proc is not there."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return peak()
