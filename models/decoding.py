"""Text from a model, token after token: what was read stays in a cache, and two programs do the work, `prefill` and `decode`.

Axes: B texts at a time, T tokens of a prompt, S places of the cache, V vocabulary.
"""

import functools
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int

from ..autograd import Compiled, compile, key, keys
from ..lib.errors import ConfigError
from ..nn import named_parameters, with_parameters
from .gpt2 import GPT2, Cache
from .sampling import Sampling, draw

Prompts = Sequence[Any]  # rows of token ids: lists, or arrays of integers
PIECE = 64  # prompts and caches have a multiple of so many places, or half of it: another length is seldom another program


class State(NamedTuple):
    """What goes from one token to the next."""

    cache: Cache
    last: Int[Array, " B"]  # the token that was drawn last, which the cache does not have yet
    length: Int[Array, " B"]  # places of the cache that are filled
    number: Int[Array, ""]  # of the draw
    seen: Bool[Array, "B V"] | None  # tokens of each text, where a penalty asks for them


class Token(NamedTuple):
    """One token of each text. going: false from the one after a stop token on, when `ids` are no part of the text."""

    ids: Int[np.ndarray, " B"]
    logprobs: Float[np.ndarray, " B"]
    going: Bool[np.ndarray, " B"]


class Text(NamedTuple):
    """What was written after a prompt; with the stop token that ended it, if one did."""

    ids: Int[np.ndarray, " N"]
    logprobs: Float[np.ndarray, " N"]


class Decoder:
    """A model that writes, under one way of drawing.

        decoder = Decoder(model, Sampling(temperature=0))
        [text] = decoder.write([prompt], tokens=100)

    vocabulary: ids from here on are never drawn (a model may have more than its tokeniser). Compiled programs are kept, so one
    decoder serves many calls; programs are made for lengths rounded up to `PIECE`.
    """

    def __init__(self, model: GPT2, sampling: Sampling | None = None, *, vocabulary: int | None = None):
        self.model, self.config, self.sampling = model, model.config, sampling or Sampling()
        self.vocabulary = min(vocabulary or self.config.vocab, self.config.vocab)
        if (self.sampling.top_k or 0) > self.vocabulary:
            raise ConfigError(f"top_k is {self.sampling.top_k}; the vocabulary has {self.vocabulary:,} tokens")
        self.params = named_parameters(model)
        self.numbers = {name: np.float32(x) for name, x in self.sampling.numbers().items()}

    def write(self, prompts: Prompts, tokens: int, **options) -> list[Text]:
        """As many further tokens after each prompt, fewer after a stop token. Options as for `stream`."""
        came = list(self.stream(prompts, tokens, **options))
        ids, logprobs, going = (np.stack([getattr(one, name) for one in came]) for name in Token._fields)
        return [Text(ids[going[:, b], b], logprobs[going[:, b], b]) for b in range(len(prompts))]

    def stream(self, prompts: Prompts, tokens: int, *, stop: Collection[int] = (), window: bool = False) -> Iterator[Token]:
        """One `Token` after the other, `tokens` of them or until every text has met a token of `stop`.

        window: go on beyond the model's context. A text that has filled it is read anew, the second half of what there is of it, so
        that a token follows from half a context at least, and a penalty knows what that half has; without it such a length is a
        ConfigError, before anything is computed.
        """
        texts = self.checked(prompts, tokens, window)
        lengths = np.array([len(text) for text in texts])  # what the cache has of each
        places = min(rounded(int(lengths.max()) + tokens - 1), self.config.context)
        state, token = self.read(texts, places, number=0)
        going = np.ones(len(texts), bool)
        for number in range(1, tokens + 1):
            full, ahead = lengths == places, None
            if number < tokens and not full.any():
                ahead = self.decode(self.params, state, self.numbers, self.sampling.seed)
            ids, logprobs = map(np.asarray, token)  # while the device is at the next one
            yield Token(ids, logprobs, going)
            going = going & ~np.isin(ids, list(stop))
            if number == tokens or not going.any():
                return
            if window:
                texts = [np.append(text, one) for text, one in zip(texts, ids)]
            lengths = lengths + 1
            if ahead is None:
                again = [self.recent(text) if is_full else text[-1:] for text, is_full in zip(texts, full)]
                ahead = self.read(again, places, number)
                if not full.all():  # one after the other: each text goes on as it would alone
                    ahead = self.merge(full, ahead, self.decode(self.params, state, self.numbers, self.sampling.seed))
                lengths = np.where(full, [len(text) for text in again], lengths)
            state, token = ahead

    def recent(self, text: np.ndarray) -> np.ndarray:
        """Its last tokens, as many as half the context has."""
        return text[-max(self.config.context // 2, 1) :]

    def checked(self, prompts: Prompts, tokens: int, window: bool) -> list[np.ndarray]:
        """The prompts as arrays, those that are too long cut from the left if a window may slide."""
        if not len(prompts):
            raise ConfigError("there is no prompt; expected at least one")
        if not 1 <= tokens < 2**31:
            raise ConfigError(f"tokens is {tokens}; it must be from 1 to {2**31 - 1}")
        context, texts = self.config.context, [np.asarray(prompt) for prompt in prompts]
        for i, text in enumerate(texts):
            of = f" {i + 1}" if len(texts) > 1 else ""
            if not text.size:
                raise ConfigError(f"the prompt{of} is empty; expected a token at least, such as that for the end of a text")
            if text.ndim != 1 or text.dtype.kind not in "iu":
                raise ConfigError(f"the prompt{of} is {text.dtype} of shape {text.shape}; expected one row of integers")
            if text.min() < 0 or text.max() >= self.config.vocab:
                raise ConfigError(f"the prompt{of} has tokens from {text.min()} to {text.max()}; the model has {self.config.vocab:,}")
            if len(text) > context and not window:
                raise ConfigError(f"the prompt{of} has {len(text):,} tokens, and the context of the model {context:,}; see window")
            if len(text) + tokens - 1 > context and not window:  # the last token is not read
                raise ConfigError(
                    f"the prompt{of} of {len(text):,} and {tokens:,} further tokens are more than the context of {context:,}; "
                    f"ask for {context - len(text) + 1:,} or fewer, or let a window slide"
                )
        texts = [text.astype(np.int32) for text in texts]
        return [self.recent(text) if len(text) > context else text for text in texts]

    def read(self, texts: Sequence[np.ndarray], places: int, number: int) -> tuple[State, tuple[Array, Array]]:
        """The state after the prompts, and the tokens that follow them."""
        lengths = np.array([len(text) for text in texts], np.int32)
        ids = np.zeros((len(texts), min(rounded(int(lengths.max())), places)), np.int32)
        for row, text in zip(ids, texts):
            row[: len(text)] = text
        cache = self.model.cache(len(texts), places)
        return self.prefill(self.params, cache, ids, lengths, np.int32(number), self.numbers, self.sampling.seed)

    @functools.cached_property
    def prefill(self) -> Compiled:
        """`prefill(params, cache, ids, lengths, number, numbers, seed) -> (state, (ids, logprobs))`, for an empty cache."""

        def prefill(params, cache, ids: Int[Array, "B T"], lengths: Int[Array, " B"], number, numbers, seed):
            model = with_parameters(self.model, params)
            h, cache = model.extend(ids, cache, jnp.zeros_like(lengths))
            h = jnp.take_along_axis(h, (lengths - 1)[:, None, None], 1)[:, 0]
            seen = None
            if "repetition_penalty" in numbers:
                inside = jnp.arange(ids.shape[1]) < lengths[:, None]
                rows = jnp.arange(len(ids))[:, None]
                seen = jnp.zeros((len(ids), self.vocabulary), bool).at[rows, ids].max(inside, mode="drop")
            return self.drawn(model, h, State(cache, lengths, lengths, number, seen), numbers, seed)

        return compile(prefill, donate=1)

    @functools.cached_property
    def decode(self) -> Compiled:
        """`decode(params, state, numbers, seed) -> (state, (ids, logprobs))`; the state that it is given is used up."""

        def decode(params, state: State, numbers, seed):
            model = with_parameters(self.model, params)
            h, cache = model.extend(state.last[:, None], state.cache, state.length)
            return self.drawn(model, h[:, 0], state._replace(cache=cache, length=state.length + 1), numbers, seed)

        return compile(decode, donate=1)

    @functools.cached_property
    def merge(self) -> Compiled:
        """`merge(rows, one, other)`: of two pairs (state, token) the first in these rows and the second elsewhere."""

        def merge(rows: Bool[Array, " B"], one, other):
            choose = lambda x, y: jnp.where(rows.reshape(-1, *(1,) * (x.ndim - 1)), x, y) if x.ndim else x
            return jax.tree.map(choose, one, other)

        return compile(merge, donate=1)

    def drawn(self, model: GPT2, h: Float[Array, "B D"], state: State, numbers, seed) -> tuple[State, tuple[Array, Array]]:
        """The next tokens, and the state that knows them."""
        with keys(seed, state.number):
            ids, logprobs = draw(model.logits(h)[:, : self.vocabulary], numbers, state.seen, key("sample"))
        seen = None if state.seen is None else state.seen.at[jnp.arange(len(ids)), ids].set(True)
        return State(state.cache, ids, state.length, state.number + 1, seen), (ids, logprobs)


def rounded(length: int) -> int:
    """Half a piece is for short prompts: GPT-2 124M reads 32 tokens in two thirds of the time of 64."""
    return PIECE // 2 if length <= PIECE // 2 else -(-length // PIECE) * PIECE
