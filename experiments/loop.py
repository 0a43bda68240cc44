"""The training loop: batches in, numbers out, and everything that a run leaves behind."""

import importlib.metadata
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Int

from .. import nn
from ..autograd import Compiled
from ..lib import arena
from ..lib.atomic import write_text
from ..lib.corpora import read_corpus
from ..lib.errors import ConfigError
from ..lib.precision import precision
from ..lib.tokenisers import Tokeniser, tokeniser
from ..lib.tokens import TokenStream, split
from ..models.decoding import Decoder
from ..models.gpt2 import GPT2Config
from ..models.sampling import Sampling
from .config import RunConfig, check
from .interrupt import interruptible
from .machine import demand_memory
from .metrics import Log, Metrics
from .plot import can_plot, plot_loss
from .presets import preset
from .pretrained import load
from .progress import Progress, Silent
from .run import RUNS, begin, demand_free, demand_writable, make_folder, save_weights
from .step import Measured, Params, State, first_state, template_of, training_step, validation


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


class Batches(Protocol):
    """Where batches come from: that of a step is a function of the step."""

    def at(self, step: int, /) -> tuple: ...


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


class Job(NamedTuple):
    """A config with its text, its programs and its first state: everything that a run needs before it begins."""

    config: RunConfig
    words: Tokeniser
    stream: TokenStream
    step: Compiled
    evaluate: Callable[..., float]
    state: State
    start: Int[np.ndarray, " 1"]
    record: dict[str, Any]


def prepare(config: RunConfig, show: Progress) -> Job:
    """Read the corpus, make the weights, compile the step. Nothing is written; what is wrong raises a PullbackError."""
    corpus, given = read_corpus(config.data), None
    if config.init is None:
        words = tokeniser(config.tokeniser, corpus.text, config.model.vocab)
        config = replace(config, model=replace(config.model, vocab=max(config.model.vocab, words.vocabulary)))
    else:
        given = load(config.init)
        words, config = given.tokeniser, check(replace(config, model=continued(config, given.model.config)))
    training, held_back = split(words.encode(corpus.text), context=config.window)
    stream = TokenStream(training, config.window, config.batch, config.seed)

    blocks = 12 * config.model.layers * config.model.width**2  # their matrices; before a template of so many layers is made
    demand_memory(16 * blocks, f"training {config.model.layers:,} layers of width {config.model.width:,}")
    parameters = nn.param_count(template_of(config))
    least = 16 * parameters + 4 * config.tokens_per_step * config.model.width  # weight, gradient, two moments; one activation
    demand_memory(least, f"training {parameters:,} parameters on {config.tokens_per_step:,} tokens a step")
    show.note(f"{config.preset}: {parameters:,} parameters, {len(training):,} tokens of {corpus.name}; compiling")
    step, evaluate = training_step(config), validation(config, held_back)
    state = first_state(config, given and nn.named_parameters(given.model))
    plan = step.plan(state, 0, *stream.at(0))
    demand_memory(plan.peak, f"a step of batch {config.batch} by context {config.window}")
    record = {
        "parameters": parameters,
        "corpus": {"name": corpus.name, "sha256": corpus.sha256, "training_tokens": len(training), "validation_tokens": len(held_back)},
        "step": {"compile_seconds": round(plan.compile_seconds, 3), "peak_bytes": plan.peak},
        "device": str(state.params["wte.weight"].device),
        **surroundings(),
    }
    return Job(config, words, stream, step, evaluate, state, training[:1], record)


def continued(config: RunConfig, came: GPT2Config) -> GPT2Config:
    """The model of the weights that a run begins with, and of the config what is free beside them. ConfigError where a setting
    was asked for that the weights do not have."""
    usual, asked = preset(config.preset).model, config.model
    for name in ("vocab", "context", "layers", "heads", "width", "bias", "tied", "eps"):
        if getattr(asked, name) not in (getattr(usual, name), getattr(came, name)):
            raise ConfigError(f"model.{name} is {getattr(asked, name)}; the weights of {config.init} have {getattr(came, name)}")
    return replace(came, dropout=asked.dropout, checkpoint=asked.checkpoint, chunk=asked.chunk)


def surroundings() -> dict[str, Any]:
    """What a run depends on besides its config, for its record."""
    return {
        "arena": arena.status().why,
        "versions": {name: importlib.metadata.version(name) for name in ("pullback", "jax", "jaxlib", "numpy")},
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def train(config: RunConfig, out: str | Path | None = None, show: Progress | None = None) -> Result:
    """A whole run, in the folder `out` or in a new one under runs/.

    Bad settings, data and folders raise a PullbackError before anything is written. Ctrl-C ends the run after the step at
    work; its picture and its weights so far are written. A loss that is no number raises Diverged, and its metrics stay.
    """
    check(config)
    demand_writable(RUNS) if out is None else demand_free(out)
    show = show or Silent()
    with precision(config.precision):
        job = prepare(config, show)
        folder = make_folder(out, config.preset)
        begin(folder, job.config, job.words, job.record)
        log = Log(folder, config.tokens_per_step, show)
        end = carry_out(job, folder, log)
        sample = "" if end.interrupted or not config.sample_tokens else write_sample(folder, job, end.params, show)
    return Result(folder, job.config, job.record, end.steps, log.last, log.val_loss, end.seconds, end.interrupted, sample)


class End(NamedTuple):
    """How the loop ended. whole: are the weights there? A second Ctrl-C may hit while a step has used them up."""

    params: Params
    whole: bool
    steps: int
    seconds: float
    interrupted: bool


def carry_out(job: Course, folder: Path, log: Log, unit: str = "nats per token") -> End:
    """The steps of a job, with its metrics, its picture and its weights in `folder`. unit: of the loss."""
    config, began = job.config, time.perf_counter()
    log.show.start(config.steps, "step")
    try:
        state, done, interrupted = run(job, log)
    finally:
        log.show.close()
        if log.last and can_plot():
            plot_loss(folder, f"{config.preset}, seed {config.seed}", unit)
    seconds = time.perf_counter() - began
    whole = not any(x.is_deleted() for x in state.params.values())
    if whole:
        save_weights(folder, state.params)
    return End(state.params, whole, done, seconds, interrupted)


def run(job: Course, log: Log) -> tuple[State, int, bool]:
    """All steps, or those before a Ctrl-C: (the last state, the number of steps done, was it interrupted?)."""
    config, state, done = job.config, job.state, 0
    try:
        with interruptible(log.show.note) as stopped:
            while done < config.steps and not stopped():
                state, measured = job.step(state, done, *job.stream.at(done))
                log.write()  # the line of the step before, while the device is at this one
                done += 1
                last, look = done == config.steps, done % config.validate_every == 0
                if last or look or done == 1 or done % config.log_every == 0 or stopped():
                    log.hold(done, measured)
                if last or look:
                    log.write(partial(job.evaluate, state.params, None if last else config.validate_batches))
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
