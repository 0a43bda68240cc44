"""`pullback bench loader`: how long a training step waits for its batch, made ahead in a thread and made when it is asked for."""

import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jax

from ...lib.corpora import read_corpus
from ...lib.epochs import Epochs
from ...lib.errors import ConfigError
from ...lib.prefetch import Batches, Prefetch
from ...lib.token_files import open_tokens, write_tokens
from ..loop import Job, prepare
from ..parsing import parse
from ..presets import preset
from ..progress import progress
from .harness import compared, show


@dataclass(frozen=True)
class Options:
    """A token file of the corpus, shuffled in epochs: seconds of a step, and microseconds and share of it that the caller waits for
    the batch. Each step is waited for, so that no wait hides behind the step before. One process, alternating, medians."""

    preset: str = "quick"
    steps: int = 100
    rounds: int = 5
    json: bool = False


class OnDemand:
    """The other way: the batch is made, and brought to the device, when it is asked for."""

    def __init__(self, stream: Batches):
        self.stream = stream

    def at(self, step: int):
        return jax.block_until_ready(jax.device_put(self.stream.at(step)))


def waited(job: Job, batches: Batches, first: int, steps: int) -> tuple[float, float]:
    """(seconds of `steps` steps, those of them spent on waiting for batches)."""
    state, waits = jax.tree.map(lambda x: x.copy(), job.state), 0.0
    jax.block_until_ready(state)
    started = time.perf_counter()
    for step in range(first, first + steps):
        asked = time.perf_counter()
        batch = batches.at(step)
        waits += time.perf_counter() - asked
        state, _ = job.step(state, step, *batch)
        jax.block_until_ready(state)
    return time.perf_counter() - started, waits


def main(argv: Sequence[str]) -> int:
    options = parse(Options, argv, "bench loader")
    if options.steps < 1 or options.rounds < 1:
        raise ConfigError("steps and rounds are counts; expected at least 1")
    config, bar = replace(preset(options.preset), steps=options.steps), progress()
    job = prepare(config, bar)
    took: dict[str, list[tuple[float, float]]] = {"pullback": [], "on demand": []}
    with tempfile.TemporaryDirectory() as folder:
        path, tokens = Path(folder) / "corpus.tokens", job.words.encode(read_corpus(config.data).text)
        write_tokens(path, job.words, [], len(tokens), [tokens])
        stream = Epochs(open_tokens(path).tokens, config.window, config.batch, config.seed, vocabulary=job.words.vocabulary)
        bar.start(options.rounds + 1, "round")
        try:
            for i in range(options.rounds + 1):  # the first warms up
                with Prefetch(stream, i * options.steps) as ahead:
                    took["pullback"].append(waited(job, ahead, i * options.steps, options.steps))
                took["on demand"].append(waited(job, OnDemand(stream), i * options.steps, options.steps))
                bar.at(i + 1)
        finally:
            bar.close()
    figures = {name: figures_of(rounds[1:], options.steps) for name, rounds in took.items()}
    result = compared(figures, {"step": "step_s", "wait": "wait_us"})
    columns = {"step ms": ("step_s", 1e3, ",.2f"), "wait us": ("wait_us", 1.0, ",.1f"), "waiting %": ("wait_share", 100.0, ".3f")}
    show(result, f"batches of {options.preset}, made ahead and on demand", columns, options.json)
    return 0


def figures_of(rounds: Sequence[tuple[float, float]], steps: int) -> dict[str, float]:
    return {
        "step_s": statistics.median(seconds / steps for seconds, _ in rounds),
        "wait_us": statistics.median(1e6 * waits / steps for _, waits in rounds),
        "wait_share": statistics.median(waits / seconds for seconds, waits in rounds),
    }
