"""`pullback bench loop`: the training loop (batches, logging) beside the bare compiled step on batches made before."""

import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jax

from ...lib.errors import ConfigError
from ..loop import Job, prepare, run
from ..metrics import Log
from ..parsing import parse
from ..presets import preset
from ..progress import Silent
from .harness import compared, show


@dataclass(frozen=True)
class Options:
    """Milliseconds per step of the loop and of the bare step, in one process, alternating. The ratio is loop over bare step."""

    preset: str = "quick"
    steps: int = 100
    rounds: int = 7
    json: bool = False


def bare(job: Job, steps: int) -> float:
    """Seconds for the steps alone: batches are there already."""
    state = jax.tree.map(lambda x: x.copy(), job.state)
    given = [jax.tree.map(jax.numpy.asarray, job.stream.at(i)) for i in range(steps)]
    jax.block_until_ready((state, given))
    started = time.perf_counter()
    for i, batch in enumerate(given):
        state, _ = job.step(state, i, *batch)
    jax.block_until_ready(state)
    return time.perf_counter() - started


def looped(job: Job, folder: Path) -> float:
    state = jax.tree.map(lambda x: x.copy(), job.state)
    log = Log(folder, job.config.tokens_per_step, Silent())
    jax.block_until_ready(state)
    started = time.perf_counter()
    state, _, interrupted = run(job._replace(state=state, evaluate=lambda params, part=None: 0.0), log)
    if interrupted:
        raise KeyboardInterrupt
    jax.block_until_ready(state)
    return time.perf_counter() - started


def main(argv: Sequence[str]) -> int:
    options = parse(Options, argv, "bench loop")
    if options.steps < 1 or options.rounds < 1:
        raise ConfigError("steps and rounds are counts; expected at least 1")
    job = prepare(replace(preset(options.preset), steps=options.steps), Silent())
    took: dict[str, list[float]] = {"pullback": [], "bare step": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds + 1):
            took["pullback"].append(looped(job, Path(folder)) / options.steps)
            took["bare step"].append(bare(job, options.steps) / options.steps)
    figures = {name: {"step_s": statistics.median(values[1:])} for name, values in took.items()}
    result = compared(figures, {"step": "step_s"})
    show(result, f"training loop of {options.preset} over its bare step", {"step ms": ("step_s", 1e3, ",.2f")}, options.json)
    return 0
