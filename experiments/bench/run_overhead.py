"""`pullback bench run-overhead`: what checksums and checkpoints cost a run, each arm beside the loop without either."""

import contextlib
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jax

from ...lib.errors import ConfigError
from ...models.gpt2 import GPT2Config
from ..checkpoint import Saver
from ..job import Job, prepare
from ..loop import run
from ..metrics import Log
from ..parsing import parse
from ..presets import preset
from ..progress import Silent, progress
from .harness import compared, show

MODEL = GPT2Config(vocab=8192, context=64, layers=4, heads=6, width=384)  # 10.3 million parameters
ARMS = ("neither", "checksum", "checkpoint")
HALF = 10  # steps before and after


@dataclass(frozen=True)
class Options:
    """Ten steps of a model of ten million parameters, then either nothing, or a checksum of the whole state, or a checkpoint, then ten
    steps more, during which the checkpoint is written. extra_s: how much longer that took than with nothing in the same round, and
    spread_s, half of what lies between the quartiles of that; share: extra_s in `every` steps; save_wait: of the time of a save,
    what the step waits for it. One process, alternating, medians."""

    every: int = 100
    rounds: int = 30
    json: bool = False


def took(job: Job, folder: Path, arm: str) -> float:
    """Seconds of all steps, and of the writing of a checkpoint, had it not ended before."""
    job = job._replace(state=jax.block_until_ready(jax.tree.map(lambda x: x.copy(), job.state)), evaluate=lambda params, part=None: 0.0)
    saver = Saver(folder, job.origin, keep=1)
    first = job._replace(config=replace(job.config, checksum_every=HALF if arm == "checksum" else 0))
    began = time.perf_counter()
    with contextlib.closing(saver):
        state, _, stopped = run(first, Log(folder, job.config.tokens_per_step, Silent()), saver if arm == "checkpoint" else None)
        if not stopped:
            state, _, stopped = run(job._replace(state=state), Log(folder, job.config.tokens_per_step, Silent()))
        jax.block_until_ready(state)
    if stopped:
        raise KeyboardInterrupt
    return time.perf_counter() - began


def waited(job: Job, folder: Path) -> tuple[float, float]:
    """(seconds that a step waits for a save, seconds until it is on the disk). As in the loop, the step is still at work."""
    saver, state = Saver(folder, job.origin, keep=1), jax.block_until_ready(jax.tree.map(lambda x: x.copy(), job.state))
    state, _ = job.step(state, 0, *job.stream.at(0))
    began = time.perf_counter()
    copy = saver.copy(state)
    called = time.perf_counter() - began
    jax.block_until_ready(state)
    began = time.perf_counter()
    saver.save(1, copy, None)
    called += time.perf_counter() - began
    saver.close()
    return called, time.perf_counter() - began


def main(argv: Sequence[str]) -> int:
    options = parse(Options, argv, "bench run-overhead")
    if options.every < 1 or options.rounds < 1:
        raise ConfigError(f"every is {options.every} and rounds {options.rounds}; expected at least 1")
    config = replace(preset("quick"), steps=HALF, batch=4, tokeniser="bytes", log_every=HALF, checksum_every=0, model=MODEL)
    bar = progress()
    job = prepare(config, bar)
    times: dict[str, list[float]] = {arm: [] for arm in ARMS}
    waits: list[tuple[float, float]] = []
    bar.start(options.rounds + 1, "round")
    try:
        for i in range(options.rounds + 1):  # the first warms up
            for arm in ARMS:
                with tempfile.TemporaryDirectory() as folder:
                    times[arm].append(took(job, Path(folder), arm))
            with tempfile.TemporaryDirectory() as folder:
                waits.append(waited(job, Path(folder)))
            bar.at(i + 1)
    finally:
        bar.close()
    figures = {arm: figures_of(seconds[1:], times["neither"][1:], options.every) for arm, seconds in times.items()}
    result = compared({"pullback": figures.pop("checkpoint"), **figures}, {"step": "step_s"})
    result["pullback"] |= {
        "save_s": statistics.median(whole for _, whole in waits[1:]),
        "save_wait": statistics.median(call / whole for call, whole in waits[1:]),
    }
    columns = {"step ms": ("step_s", 1e3, ",.2f"), "extra ms": ("extra_s", 1e3, ",.1f"), "+-": ("spread_s", 1e3, ",.1f")}
    columns |= {
        "share %": ("share", 100.0, ".2f"),
        "save ms": ("save_s", 1e3, ",.1f"),
        "step waits, % of save": ("save_wait", 100.0, ".2f"),
    }
    title = f"one checksum, or one checkpoint (pullback), in {options.every} steps of {job.record['parameters']:,} parameters"
    show(result, title, columns, options.json)
    return 0


def figures_of(seconds: Sequence[float], without: Sequence[float], every: int) -> dict[str, float]:
    extra = [took - other for took, other in zip(seconds, without, strict=True)]
    low, _, high = statistics.quantiles(extra, n=4, method="inclusive") if len(extra) > 1 else extra * 3
    usual, more = statistics.median(without), statistics.median(extra)
    return {
        "step_s": statistics.median(seconds) / (2 * HALF),
        "extra_s": more,
        "spread_s": (high - low) / 2,
        "share": more / every / (usual / (2 * HALF)),
    }
