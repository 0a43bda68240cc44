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
ARMS = {"neither": {}, "checksum": {"checksum_every": 1}, "checkpoint": {"checkpoint_every": 0.5}}  # settings, in lengths of the run


@dataclass(frozen=True)
class Options:
    """Runs of `steps` steps of a model of ten million parameters, without either, with one checksum of the whole state, and with one
    checkpoint, which is written while the second half of the steps is at work; the one that every run makes at its end is begun, and
    waited for outside the time. Shares: of the time without either; save_wait: of the time of a save, what the step waits for it.
    One process, alternating, medians."""

    steps: int = 100
    rounds: int = 5
    json: bool = False


def took(job: Job, folder: Path, saves: bool) -> float:
    """Seconds of all steps."""
    state = jax.tree.map(lambda x: x.copy(), job.state)
    log = Log(folder, job.config.tokens_per_step, Silent())
    saver = Saver(folder, job.origin, keep=1) if saves else None
    jax.block_until_ready(state)
    began = time.perf_counter()
    with contextlib.closing(saver) if saver else contextlib.nullcontext():
        state, _, interrupted = run(job._replace(state=state, evaluate=lambda params, part=None: 0.0), log, saver)
        jax.block_until_ready(state)
        seconds = time.perf_counter() - began
    if interrupted:
        raise KeyboardInterrupt
    return seconds


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
    if options.steps < 2 or options.rounds < 1:
        raise ConfigError(f"steps is {options.steps} and rounds {options.rounds}; expected at least 2 steps and 1 round")
    config = replace(preset("quick"), steps=options.steps, batch=4, tokeniser="bytes", log_every=options.steps, model=MODEL)
    bar = progress()
    job = prepare(replace(config, checksum_every=0, checkpoint_every=0), bar)
    times: dict[str, list[float]] = {name: [] for name in ARMS}
    waits: list[tuple[float, float]] = []
    bar.start(options.rounds + 1, "round")
    try:
        for i in range(options.rounds + 1):  # the first warms up
            for name, settings in ARMS.items():
                config = replace(job.config, **{setting: int(part * options.steps) for setting, part in settings.items()})
                with tempfile.TemporaryDirectory() as folder:
                    times[name].append(took(job._replace(config=config), Path(folder), name == "checkpoint"))
            with tempfile.TemporaryDirectory() as folder:
                waits.append(waited(job, Path(folder)))
            bar.at(i + 1)
    finally:
        bar.close()
    median = {name: statistics.median(seconds[1:]) for name, seconds in times.items()}
    figures = {name: {"step_s": seconds / options.steps, "share": seconds / median["neither"] - 1} for name, seconds in median.items()}
    result = compared({"pullback": figures.pop("checkpoint"), **figures}, {"step": "step_s"})
    result["pullback"] |= {
        "save_s": statistics.median(whole for _, whole in waits[1:]),
        "save_wait": statistics.median(call / whole for call, whole in waits[1:]),
    }
    columns = {"step ms": ("step_s", 1e3, ",.2f"), "share %": ("share", 100.0, ".2f"), "save s": ("save_s", 1.0, ".3f")}
    columns["step waits, % of save"] = ("save_wait", 100.0, ".2f")
    title = f"one checksum, or one checkpoint (pullback), in {options.steps} steps of {job.record['parameters']:,} parameters"
    show(result, title, columns, options.json)
    return 0
