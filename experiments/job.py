"""What a run of a language model needs before it begins: its text, its programs, its first state."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Int

from .. import nn
from ..autograd import Compiled, MemoryPlan
from ..lib import starting
from ..lib.corpora import read_corpus
from ..lib.epochs import Epochs
from ..lib.errors import ConfigError
from ..lib.token_files import is_token_file, open_tokens
from ..lib.tokenisers import Tokeniser, digest, kind_of, tokeniser
from ..lib.tokens import TokenStream, split
from .checkpoint import Checkpoint, Origin, copied, differences, restore
from .config import FREE, RunConfig, demand_window, to_record
from .init_from import take
from .kernels import options
from .machine import demand_memory
from .metrics import sums
from .presets import preset
from .pretrained import Pretrained, load
from .progress import Progress
from .provenance import provenance, rules
from .step import State, first_params, first_state, template_of, training_step, validation


class Job(NamedTuple):
    """A config with its text, its programs and its first state: everything that a run needs before it begins."""

    config: RunConfig
    words: Tokeniser
    stream: TokenStream | Epochs
    step: Compiled
    evaluate: Callable[..., float]
    state: State
    start: Int[np.ndarray, " 1"]
    record: dict[str, Any]
    origin: Origin


class Begun(NamedTuple):
    """A run that is to go on: what it was stopped with."""

    checkpoint: Checkpoint
    words: Tokeniser


def prepare(config: RunConfig, show: Progress, begun: Begun | None = None) -> Job:
    """Read the corpus, make the weights or take those of a checkpoint, compile the step. Nothing is written; what is wrong raises
    a PullbackError."""
    given = taken = None
    if begun:
        text = text_of(config, begun.words)
    elif config.init is None:
        text = text_of(config)
        config = replace(config, model=replace(config.model, vocab=max(config.model.vocab, text.words.vocabulary)))
    else:
        given = load(config.init)
        config = continued(config, given)
        text = text_of(config, given.tokeniser)
    demand_window(config)
    schedule = replace(config.schedule, length=config.schedule_length)
    config = replace(config, tokeniser=kind_of(text.words), schedule=schedule)
    origin = Origin(kept_of(config), text.sha256, digest(text.words), rules())
    if begun and (differing := differences(origin._asdict(), begun.checkpoint.origin._asdict(), words=("is now", "was"))):
        raise ConfigError(f"cannot go on from {begun.checkpoint.path}: {'; '.join(differing)}")
    training, held_back = split(text.tokens, context=config.window)
    stream = batches(config, training, text.ends)

    parameters = demand_room(config)
    show.note(f"{config.preset}: {parameters:,} parameters, {len(training):,} tokens of {text.name}; compiling")
    told = options(config.reproducible)
    step, evaluate = training_step(config, told), validation(config, held_back, told)
    if begun:
        state = restore(begun.checkpoint, jax.eval_shape(lambda: first_state(config)))
    elif config.init_from is not None:
        taken = take(config, nn.named_parameters(template_of(config)), origin.tokeniser, show)
        state = first_state(config, {**first_params(config), **taken.params})
    else:
        state = first_state(config, given and nn.named_parameters(given.model))
    plan = planned(config, step, state, stream.at(0))
    if config.checksum_every:  # the small programs beside it, so that none is compiled while the run is timed
        sums.lower(state, stream.at(0)).compile()
    if config.saving:
        copied.lower(state).compile()
    sizes = {name: getattr(plan, name) for name in ("arguments", "outputs", "aliased", "temp")}
    record = {
        "parameters": parameters,
        "corpus": {"name": text.name, "sha256": text.sha256, "training_tokens": len(training), "validation_tokens": len(held_back)},
        "tokeniser_sha256": origin.tokeniser,
        "seed": config.seed,
        "loss_unit": "nats per token",
        **({"init_from": taken.record} if taken else {}),
        "step": {"compile_seconds": round(plan.compile_seconds, 3), "peak_bytes": plan.peak, **sizes, "residuals": plan.ledger},
        **provenance(),
    }
    starting.heed()
    return Job(config, text.words, stream, step, evaluate, state, training[:1], record, origin)


def demand_room(config: RunConfig) -> int:
    """The number of parameters; ConfigError where their training, which has not begun, does not fit into the machine's memory."""
    blocks = 12 * config.model.layers * config.model.width**2  # their matrices; before a template of so many layers is made
    demand_memory(16 * blocks, f"training {config.model.layers:,} layers of width {config.model.width:,}")
    parameters = nn.param_count(template_of(config))
    least = 16 * parameters + 4 * config.tokens_per_step * config.model.width  # weight, gradient, two moments; one activation
    demand_memory(least, f"training {parameters:,} parameters on {config.tokens_per_step:,} tokens a step")
    return parameters


def planned(config: RunConfig, step: Compiled, state: State, batch: tuple) -> MemoryPlan:
    """What the step takes, which is compiled then; ConfigError where that is more than the machine has."""
    plan = step.plan(state, 0, *batch)
    demand_memory(plan.peak, f"a step of batch {config.batch} by context {config.window}")
    return plan


class Text(NamedTuple):
    """A corpus as tokens. ends: of its documents, where they are kept. sha256: of the text, or of those of a token file."""

    name: str
    sha256: str
    words: Tokeniser
    tokens: Int[np.ndarray, " N"]
    ends: Int[np.ndarray, " D"] | None


def text_of(config: RunConfig, words: Tokeniser | None = None) -> Text:
    """The data of a run, in the tokens of `words`, or of the tokeniser that the config or the token file says."""
    if not is_token_file(Path(config.data)):
        corpus = read_corpus(config.data)
        words = words or tokeniser(config.tokeniser, corpus.text, config.model.vocab)
        return Text(corpus.name, corpus.sha256, words, words.encode(corpus.text), None)
    file = open_tokens(Path(config.data))
    if words and digest(words) != file.sha256:
        raise ConfigError(f"the tokens of {config.data} were made by another tokeniser than that of {config.init or 'the run'}")
    sources = hashlib.sha256(" ".join([file.sha256, *(source.sha256 for source in file.sources)]).encode()).hexdigest()
    return Text(Path(config.data).name, sources, file.tokeniser, file.tokens, file.ends)


def batches(config: RunConfig, training: Int[np.ndarray, " N"], ends: Int[np.ndarray, " D"] | None) -> TokenStream | Epochs:
    """The order in which a run sees its training split. ends: of the documents of the whole text."""
    if config.order == "random":
        if ends is not None:
            raise ConfigError(f"order is random, whose windows cross documents, which {config.data} keeps; take shuffled or sequential")
        return TokenStream(training, config.window, config.batch, config.seed)
    if ends is not None:
        ends = np.append(ends[: np.searchsorted(ends, len(training))], len(training))
    shuffle, size = config.order == "shuffled", config.model.vocab
    return Epochs(training, config.window, config.batch, config.seed, shuffle=shuffle, ends=ends, vocabulary=size)


def kept_of(config: RunConfig) -> dict[str, Any]:
    """The settings that a run keeps when it is resumed."""
    return {name: value for name, value in to_record(config).items() if name not in FREE}


def continued(config: RunConfig, came: Pretrained) -> RunConfig:
    """The config on the model and the tokeniser that a run begins with. ConfigError where a setting was asked for that they do not
    have: one that is neither theirs nor the preset's own, which may not have been asked for."""
    usual, model, kind = preset(config.preset), came.model.config, kind_of(came.tokeniser)
    asked = [("tokeniser", usual.tokeniser, config.tokeniser, kind)]
    for name in ("vocab", "context", "layers", "heads", "width", "bias", "tied", "eps"):
        asked.append((f"model.{name}", *(getattr(each, name) for each in (usual.model, config.model, model))))
    for name, default, value, there in asked:
        if value not in (default, there):
            raise ConfigError(f"{name} is {value}; the weights of {config.init} have {there}")
    free = {name: getattr(config.model, name) for name in ("dropout", "checkpoint", "chunk")}
    context = config.context
    if context is not None and context == usual.context:
        context = min(context, model.context)
    return replace(config, context=context, tokeniser=kind, model=replace(model, **free))
