"""The training loop: batches in, numbers out, and everything that a run leaves behind."""

import contextlib
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from .. import nn
from ..lib.atomic import write_text
from ..lib.errors import PullbackError
from ..lib.precision import precision
from ..lib.prefetch import Batches, Prefetch
from ..models.decoding import Decoder
from ..models.sampling import Sampling
from .checkpoint import Saver
from .config import RunConfig, check
from .interrupt import interruptible
from .job import Job, prepare
from .kernels import keep
from .metrics import Log, Metrics, sums
from .plot import can_plot, plot_loss
from .progress import Progress, Silent
from .run import RUNS, begin, demand_free, demand_writable, make_folder, occupied, save_weights
from .step import Measured, Params, State, template_of


class Result(NamedTuple):
    """What a run came to: `steps` done of `config.steps`, the last line of metrics and the last validation loss taken.

    sample: what there is to be read at the end. measures: further numbers, by name.
    """

    folder: Path
    config: Any
    record: dict[str, Any]
    steps: int
    last: Metrics | None
    val_loss: float | None
    seconds: float
    interrupted: bool
    sample: str
    measures: Mapping[str, Any] = MappingProxyType({})


class Pace(Protocol):
    """What the loop reads of a config."""

    @property
    def preset(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def validate_every(self) -> int: ...
    @property
    def validate_batches(self) -> int | None: ...
    @property
    def log_every(self) -> int: ...
    @property
    def saving(self) -> int: ...
    @property
    def checksum_every(self) -> int: ...


class Course(Protocol):
    """What the loop asks of a job, whatever is trained: the `Job` of a language model is one, a small preset's another."""

    @property
    def config(self) -> Pace: ...
    @property
    def stream(self) -> Batches: ...
    @property
    def step(self) -> Callable[..., tuple[State, Measured]]: ...
    @property
    def evaluate(self) -> Callable[..., float]: ...
    @property
    def state(self) -> State: ...
    @property
    def record(self) -> Mapping[str, Any]: ...  # what provenance.json says, a "loss_unit" among it


def train(config: RunConfig, out: str | Path | None = None, show: Progress | None = None) -> Result:
    """A whole run, in the folder `out` or in a new one under runs/.

    Bad settings, data and folders raise a PullbackError before anything is written. Ctrl-C ends the run after the step at
    work; its picture, its weights and a checkpoint are written. A loss that is no number raises Diverged, and its metrics stay.
    """
    check(config)
    demand_writable(RUNS) if out is None else demand_free(out)
    show = show or Silent()
    with precision(config.precision):
        job = prepare(config, show)
        folder = make_folder(out, config.preset)
        with occupied(folder):
            begin(folder, job.config, job.words, job.record)
            return complete(job, Log(folder, job.config.tokens_per_step, show))


def complete(job: Job, log: Log, first: int = 0) -> Result:
    """The steps of a job from `first` on, and what is written at their end."""
    saver = Saver(log.folder, job.origin, job.config.keep)
    keep(log.folder)  # now, for a run that is killed; and again with the kernels of what came later
    with Prefetch(job.stream, first) as ahead:
        end = carry_out(job._replace(stream=ahead), log, saver=saver, first=first)
    keep(log.folder)
    sample = "" if end.interrupted or not job.config.sample_tokens else write_sample(log.folder, job, end.params, log.show)
    return Result(log.folder, job.config, job.record, end.steps, log.last, log.val_loss, end.seconds, end.interrupted, sample)


class End(NamedTuple):
    """How the loop ended. whole: are the weights there? A second Ctrl-C may hit while a step has used them up."""

    params: Params
    whole: bool
    steps: int
    seconds: float
    interrupted: bool


def carry_out(job: Course, log: Log, saver: Saver | None = None, first: int = 0) -> End:
    """The steps of a job, with its metrics, its picture and its weights in the log's folder."""
    config, folder, began = job.config, log.folder, time.perf_counter()
    close, picture = (
        saver.close if saver else lambda: None,
        partial(draw, log, f"{config.preset}, seed {config.seed}", job.record["loss_unit"]),
    )
    log.show.start(config.steps, "step")
    try:
        state, done, interrupted = run(job, log, saver, first)
    except BaseException:
        log.show.close()
        for last in (close, picture):
            with contextlib.suppress(PullbackError):  # what ended the run is to be said, not what came of it
                last()
        raise
    log.show.close()
    close()
    seconds = time.perf_counter() - began
    whole = not any(x.is_deleted() for x in state.params.values())
    if whole:
        save_weights(folder, state.params)
    picture()
    return End(state.params, whole, done, seconds, interrupted)


def draw(log: Log, title: str, unit: str) -> None:
    if log.path.is_file() and can_plot():
        plot_loss(log.folder, title, unit)


def run(job: Course, log: Log, saver: Saver | None = None, first: int = 0) -> tuple[State, int, bool]:
    """All steps, or those before a Ctrl-C: (the last state, the number of steps done, was it interrupted?)."""
    config, state, done = job.config, job.state, first
    due = lambda every: every > 0 and done % every == 0
    saves = saver if config.saving > 0 else None
    try:
        with interruptible(log.show.note) as stopped:
            ends = done >= config.steps
            while not ends:
                batch = job.stream.at(done)
                state, measured = job.step(state, done, *batch)
                done += 1
                last, look = done == config.steps, due(config.validate_every)
                copy = saves.copy(state) if saves and (last or due(config.saving)) else None
                log.write()  # the line of the step before, while the device is at this one
                ends = last or stopped()
                if saves and ends and not copy:
                    copy = saves.copy(state)
                summed = config.checksum_every > 0 and (last or due(config.checksum_every))
                if ends or look or summed or copy or done == 1 or due(config.log_every):
                    log.hold(done, measured, sums(state, batch) if summed else None)
                if last or look:
                    log.write(partial(job.evaluate, state.params, None if last else config.validate_batches))
                if saves and copy:
                    log.write()
                    saves.save(done, copy, log.val_loss)
            log.write()
    except KeyboardInterrupt:
        return state, done, True
    return state, done, done < config.steps


def write_sample(folder: Path, job: Job, params: Params, show: Progress) -> str:
    """What the model writes after the first token of its corpus, also in samples.txt."""
    model = nn.with_parameters(template_of(job.config), params)
    decoder = Decoder(model, Sampling(seed=job.config.seed), vocabulary=job.words.vocabulary)
    show.start(job.config.sample_tokens, "token")
    drawn = []
    for token in decoder.stream([job.start], job.config.sample_tokens, window=True):
        drawn.append(token.ids)
        show.at(len(drawn))
    show.close()
    text = job.words.decode(np.concatenate([job.start, *drawn]))
    write_text(folder / "samples.txt", text + "\n")
    return text
