"""Text from a model, one token after the other, by plain recomputation of the whole window for each."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Int

from .. import nn, ops
from ..autograd import Compiled, compile, key, keys
from ..lib.errors import ConfigError
from ..models.gpt2 import GPT2
from .config import FLOAT32, INT32


def generate(
    model: GPT2,
    prompt: Int[np.ndarray, " N"],
    tokens: int,
    *,
    vocabulary: int,
    temperature: float = 0.8,
    top_k: int | None = None,
    seed: int = 0,
    watch: Callable[[int], object] = lambda done: None,
) -> Int[np.ndarray, " tokens"]:
    """`tokens` further ids after the prompt, each drawn from softmax(logits / temperature).

    vocabulary: ids from here on are never drawn (a model may have more than its tokeniser). temperature: 0 takes the
    likeliest. top_k: draw among the k likeliest only. watch: called with the number of tokens so far. Token n under a seed
    is drawn with a key of its own, so a longer text begins like a shorter one. The model sees the last `context` tokens.
    Raises ConfigError for an empty prompt or a setting out of its range.
    """
    check(len(prompt), tokens, temperature, top_k, seed)
    window = min(model.config.context, len(prompt) + tokens)  # one shape, so one program
    params, following = nn.named_parameters(model), next_token(model, vocabulary, top_k)
    ids = np.zeros(len(prompt) + tokens, np.int32)
    ids[: len(prompt)] = prompt
    for number in range(tokens):
        end = len(prompt) + number
        start = max(0, end - window)
        ids[end] = following(params, ids[start : start + window], end - start - 1, np.float32(temperature), seed, number)
        watch(number + 1)
    return ids[len(prompt) :]


def next_token(model: GPT2, vocabulary: int, top_k: int | None) -> Compiled:
    """`following(params, ids, last, temperature, seed, number) -> id`: what comes after ids[last]. `model` gives the shapes."""

    def following(params, ids: Int[Array, " T"], last, temperature, seed, number):
        bound = nn.with_parameters(model, params)
        h = bound.features(ids[None])[0, last]
        logits = ops.linear(h, nn.to_compute(bound.wte.weight))[:vocabulary].astype(jnp.float32)  # of one position only
        if top_k is not None:
            least = jax.lax.top_k(logits, min(top_k, vocabulary))[0][-1]
            logits = jnp.where(logits < least, -jnp.inf, logits)
        with keys(seed, number):
            drawn = jax.random.categorical(key("sample"), (logits - logits.max()) / temperature)
        return jnp.where(temperature > 0, drawn, jnp.argmax(logits))

    return compile(following)


def check(prompt: int, tokens: int, temperature: float, top_k: int | None, seed: int) -> None:
    if not prompt:
        raise ConfigError("the prompt is empty; give the text to go on from, if only a line end")
    for name, value, good, expected in (
        ("tokens", tokens, 1 <= tokens < INT32, f"from 1 to {INT32 - 1}"),
        ("temperature", temperature, 0 <= temperature <= FLOAT32, "a float32, 0 or more"),
        ("top_k", top_k, top_k is None or top_k >= 1, "at least 1"),
        ("seed", seed, 0 <= seed < INT32, f"from 0 to {INT32 - 1}"),
    ):
        if not good:
            raise ConfigError(f"{name} is {value}; it must be {expected}")
