"""A compiled step under JAX's profiler: for how long each instruction was at work.

The profiler gives an event for each run of an instruction, with the instruction's name as its `hlo_op`. On a CPU several threads
run instructions side by side; one that is handed to other threads returns at once, and an event `end: NAME` says when it was done.
On a GPU the events are kernels on the streams of the planes `/device:GPU:i`, on a TPU those of the line `XLA Ops`.

At each moment the time is divided equally among the instructions that are at work. So what they are given adds up to the time that
passed, with nothing counted twice. Of a loop and what runs inside, that which is inside is at work; the loop alone where nothing is.
"""

import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jax.profiler import ProfileData

from ...lib.errors import PullbackError

WINDOW = "pullback profile"  # the annotation around a step


class NoEvents(PullbackError):
    """The profiler said nothing of a device."""


class Work(NamedTuple):
    """One run of an instruction. Times in nanoseconds."""

    name: str
    start: float
    end: float


class Share(NamedTuple):
    """Nanoseconds of an instruction in all windows, and how often it ran in them."""

    time: float
    runs: int


def recorded(step: Callable[[int], object], count: int) -> Any:
    """The ProfileData of `step(0)`, `step(1)`, ..., each of which waits for its own end."""
    options: Any = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory() as folder:
        jax.profiler.start_trace(folder, profiler_options=options)
        try:
            for i in range(count):
                with jax.profiler.StepTraceAnnotation(WINDOW, step_num=i):
                    step(i)
        finally:
            jax.profiler.stop_trace()
        files = list(Path(folder).rglob("*.xplane.pb"))
        if not files:
            raise NoEvents("JAX's profiler wrote no trace")
        return ProfileData.from_serialized_xspace(files[0].read_bytes())


def works(data: Any, module: str) -> tuple[list[Work], list[tuple[float, float]]]:
    """(the instructions of a module that ran, the windows of the steps). Where there are events of a device, those of the host,
    which only starts them, are left out. What another module ran goes by `module:instruction`."""
    found: dict[bool, list[Work]] = {True: [], False: []}
    windows, ends = [], {}
    began: list[tuple[Any, int]] = []  # (an event's number, its place), of those that may end on another thread
    for plane in data.planes:
        on_device = plane.name.startswith("/device:")
        for line in plane.lines:
            for event in line.events:
                stats = dict(event.stats)
                if event.name == WINDOW:
                    windows.append((event.start_ns, event.start_ns + event.duration_ns))
                elif event.name.startswith("end: "):
                    ends[stats.get("_c")] = event.start_ns
                elif name := instruction_of(event.name, stats, line.name if on_device else ""):
                    whose = stats.get("hlo_module", module)
                    name = name if whose == module else f"{whose}:{name}"
                    if "_p" in stats:
                        began.append((stats["_p"], len(found[on_device])))
                    found[on_device].append(Work(name, event.start_ns, event.start_ns + event.duration_ns))
    here = found[bool(found[True])]
    if not here or not windows:
        raise NoEvents("JAX's profiler gave no events of instructions on this device; --eager measures op by op without it")
    if here is found[False]:
        for number, place in began:
            here[place] = here[place]._replace(end=max(here[place].end, ends.get(number, 0)))
    return here, sorted(set(windows))


def instruction_of(name: str, stats: dict[str, Any], line: str) -> str:
    """The instruction that an event is a run of; the name of a GPU's kernel that says none; "" for an event of another kind.
    line: of a device."""
    if line == "Async XLA Ops":  # they run beside those of XLA Ops, which wait for them
        return ""
    if "hlo_op" in stats or line == "XLA Ops":
        return re.sub(r"^%?([\w.\-]+).*", r"\1", str(stats.get("hlo_op", name)))  # it may be the instruction's whole text
    return name if line.startswith("Stream") else ""


def shares(done: Iterable[Work], windows: Iterable[tuple[float, float]], contains: Callable[[str], bool]) -> dict[str, Share]:
    """What each instruction has of the windows. "" has the time in which none is at work. contains: does it run others?"""
    time: dict[str, float] = {"": 0.0}
    runs: dict[str, int] = {}
    changes: list[tuple[float, int, str]] = [(at, 0, "") for window in windows for at in window]  # (time, +1 or -1, name)
    for work in done:
        if any(start <= work.start < end for start, end in windows):
            runs[work.name] = runs.get(work.name, 0) + 1
        changes += [(work.start, 1, work.name), (work.end, -1, work.name)]
    leaves: dict[str, int] = {}
    outer: dict[str, int] = {}
    inside, last = False, 0.0
    for at, change, name in sorted(changes, key=lambda one: one[0]):
        if inside and at > last:
            working = leaves or outer or {"": 1}
            for one, count in working.items():
                time[one] = time.get(one, 0.0) + (at - last) * count / sum(working.values())
        last = at
        if not change:
            inside = not inside
            continue
        group = outer if contains(name) else leaves
        group[name] = group.get(name, 0) + change
        if not group[name]:
            del group[name]
    return {name: Share(ns, runs.get(name, 0)) for name, ns in time.items()}
