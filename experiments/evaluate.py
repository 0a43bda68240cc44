"""`pullback eval`: how well a model predicts a text."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import numpy as np
import tyro
from jaxtyping import Int

from .. import nn
from ..autograd import compile
from ..lib.corpora import read_corpus
from ..lib.errors import ConfigError
from ..lib.precision import precision
from ..lib.tokens import Window
from ..models.gpt2 import GPT2
from .machine import Machine, settle
from .output import say
from .parsing import parse
from .pretrained import load
from .progress import progress


@dataclass(frozen=True)
class Eval:
    """Perplexity of a text. A window slides over it, and each token but the first is predicted once, from what the window has before it."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN|DIR")]
    """The folder of a run, one with config.json and model.safetensors as Hugging Face keeps them, or hf:NAME."""
    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """A UTF-8 text, or a corpus by name."""
    window: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Tokens of a window, the predicted ones among them; as many as the context if not given."""
    stride: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Tokens by which it moves; half a window if not given. The smaller, the more a token is predicted from, and the longer it takes."""
    batch: int = 4
    """Windows at a time."""
    machine: Annotated[Machine, tyro.conf.arg(name="")] = field(default_factory=Machine)


class Score(NamedTuple):
    """loss: nats per token."""

    loss: float
    tokens: int

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700))


def main(argv: Sequence[str]) -> int:
    given = parse(Eval, argv, "eval")
    settle(given.machine)
    corpus = read_corpus(given.data)
    model, words, policy = load(given.model)
    window = given.window if given.window is not None else model.config.context
    stride = given.stride if given.stride is not None else max(1, window // 2)
    ids = words.encode(corpus.text)
    check(model, len(ids), window, stride, given.batch)
    show, began = progress(), time.perf_counter()
    with precision(policy):
        show.start(len(ids), "token")
        try:
            score = evaluate(model, ids, window, stride, given.batch, show.at)
        finally:
            show.close()
    if given.machine.json:
        seconds = time.perf_counter() - began
        figures = dict(loss=score.loss, perplexity=score.perplexity, tokens=score.tokens, window=window, stride=stride, seconds=seconds)
        say(model=given.model, data=corpus.name, sha256=corpus.sha256, **figures)
    else:
        print(f"perplexity {score.perplexity:,.4f}, {score.loss:.5f} nats per token, {score.tokens:,} tokens")
    return 0


def check(model: GPT2, tokens: int, window: int, stride: int, batch: int) -> None:
    for name, value, least, most in (
        ("window", window, 2, model.config.context),
        ("stride", stride, 1, window - 1),
        ("batch", batch, 1, 2**31 - 1),
    ):
        if not least <= value <= most:
            raise ConfigError(f"{name} is {value}; it must be from {least} to {most}")
    if tokens < 2:
        raise ConfigError(f"the text has {tokens} tokens; expected at least 2, since the first is not predicted")


def evaluate(
    model: GPT2, ids: Int[np.ndarray, " N"], window: int, stride: int, batch: int = 4, watch: Callable[[int], object] = lambda done: None
) -> Score:
    """Mean of −log p(token) over all tokens but the first, each counted in the first window that has it."""
    params = nn.named_parameters(model)
    loss = compile(lambda params, *batch: nn.with_parameters(model, params).loss(*batch))
    total, count = 0.0, 0.0
    for one in sliding(ids, window, stride, batch):
        n = float(one.weights.sum())
        total, count = total + float(loss(params, *one)) * n, count + n
        watch(int(count))
    return Score(total / count, int(count))


def sliding(ids: Int[np.ndarray, " N"], window: int, stride: int, batch: int) -> Iterator[Window]:
    """Windows of so many tokens, in batches; weights are 1 at targets that no earlier window had, and 0 in the padding."""
    window = min(window, len(ids))
    starts = [0]
    while starts[-1] + window < len(ids):
        starts.append(starts[-1] + stride)
    batch = min(batch, len(starts))  # what is padding is computed too
    for first in range(0, len(starts), batch):
        rows = np.zeros((batch, window), np.int32)
        weights = np.zeros((batch, window - 1), np.float32)
        for row, start in enumerate(starts[first : first + batch]):
            there = ids[start : start + window]
            rows[row, : len(there)] = there
            seen = start - stride + window if start else 1  # tokens before this one were predicted already
            weights[row, max(seen - start - 1, 0) : len(there) - 1] = 1
        yield Window(rows[:, :-1], rows[:, 1:], weights)
