"""Cached decoding against the whole forward, prompts of several lengths, windows, and how many programs it takes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import nn
from pullback.lib.errors import ConfigError
from pullback.models.decoding import PIECE, Decoder
from pullback.models.gpt2 import GPT2, GPT2Config
from pullback.models.sampling import Sampling

VOCAB, CONTEXT = 23, 200
GREEDY = Sampling(temperature=0)


def decisive(config: GPT2Config) -> GPT2:
    """Large weights, so that no two tokens are nearly as likely."""
    return jax.tree.map(lambda x: 12 * x if x.ndim > 1 else x, GPT2.init(jax.random.key(3), config))


@pytest.fixture(scope="module")
def model():
    return decisive(GPT2Config(layers=2, heads=2, width=16, context=CONTEXT, vocab=VOCAB))


@pytest.fixture(scope="module")
def prompts():
    rng = np.random.default_rng(0)
    return [rng.integers(0, VOCAB, n) for n in (5, 1, 70, 64)]


def forced(model: GPT2, ids) -> np.ndarray:
    """Logits after each token, from one forward over all of them."""
    return np.asarray(jax.jit(lambda ids: model(ids))(jnp.asarray(ids, jnp.int32)[None])[0])


@pytest.mark.parametrize("config", [
    dict(layers=2, heads=2, width=16), dict(layers=1, heads=1, width=7), dict(layers=3, heads=3, width=15, bias=False, tied=False),
])  # fmt: skip
def test_decoding_is_the_argmax_of_one_forward(config):
    model = decisive(GPT2Config(vocab=VOCAB, context=CONTEXT, **config))
    prompt = [3, 1, 4, 1, 5]
    [text] = Decoder(model, GREEDY).write([prompt], CONTEXT - 5)
    logits = forced(model, [*prompt, *text.ids])[4:-1]
    np.testing.assert_array_equal(text.ids, logits.argmax(-1))
    expected = np.take_along_axis(np.asarray(jax.nn.log_softmax(logits)), text.ids[:, None], 1)[:, 0]
    np.testing.assert_allclose(text.logprobs, expected, rtol=1e-4, atol=1e-5)  # float32, other shapes of products


def test_a_batch_writes_what_each_prompt_would_alone(model, prompts):
    decoder = Decoder(model, GREEDY)
    together = decoder.write(prompts, 60)
    for prompt, text in zip(prompts, together):
        [alone] = decoder.write([prompt], 60)
        np.testing.assert_array_equal(text.ids, alone.ids)
        np.testing.assert_allclose(text.logprobs, alone.logprobs, rtol=1e-4, atol=1e-5)


def test_a_prompt_read_in_two_parts(model):
    """Split anywhere, the features and what is kept are those of the prompt read at once. Both parts are filled up to one length,
    as prompts are whose lengths share a program; what fills the first is written over by the second."""
    ids = np.random.default_rng(1).integers(0, VOCAB, (1, 64))
    extend = jax.jit(lambda ids, cache, start: model.extend(ids, cache, start))
    features = lambda ids, cache, start: extend(jnp.asarray(np.pad(ids, ((0, 0), (0, 64 - ids.shape[1])))), cache, jnp.array([start]))
    whole, kept = features(ids, model.cache(1, 128), 0)
    for cut in range(1, 64):
        first, cache = features(ids[:, :cut], model.cache(1, 128), 0)
        second, cache = features(ids[:, cut:], cache, cut)
        came = np.concatenate([first[:, :cut], second[:, : 64 - cut]], 1)
        np.testing.assert_allclose(came, whole, rtol=2e-4, atol=2e-5)  # float32, sums in another order
        for a, b in zip(jax.tree.leaves(cache), jax.tree.leaves(kept)):
            np.testing.assert_allclose(a[:, :, :64], b[:, :, :64], rtol=2e-4, atol=2e-5)


def test_features_with_and_without_a_cache(model):
    ids = jnp.asarray(np.random.default_rng(2).integers(0, VOCAB, (3, 40)), jnp.int32)
    h, _ = model.extend(ids, model.cache(3, 40), jnp.zeros(3, jnp.int32))
    np.testing.assert_allclose(h, model.features(ids), rtol=2e-4, atol=2e-5)


def test_another_length_is_no_other_program(model):
    decoder = Decoder(model, GREEDY)
    for length in (1, 7, PIECE - 30):
        decoder.write([list(range(length % VOCAB)) or [0]], 20)
    assert (decoder.prefill.traces, decoder.decode.traces) == (1, 1)
    decoder.write([[0] * (PIECE + 1)], 20)
    assert (decoder.prefill.traces, decoder.decode.traces) == (2, 2)


def test_another_temperature_is_no_other_program(model):
    decoder = Decoder(model, Sampling(temperature=0.5, top_k=3, top_p=0.9))
    decoder.write([[1]], 3)
    decoder.numbers = Decoder(model, Sampling(temperature=2.0, top_k=9, top_p=0.2)).numbers
    decoder.write([[1]], 3)
    assert (decoder.prefill.traces, decoder.decode.traces) == (1, 1)


def test_the_context_is_filled_to_its_last_place(model):
    [text] = Decoder(model, GREEDY).write([[1, 2, 3]], CONTEXT - 2)
    np.testing.assert_array_equal(text.ids, forced(model, [1, 2, 3, *text.ids[:-1]])[2:].argmax(-1))


@pytest.mark.parametrize("window", [False, True])
def test_a_prompt_that_fills_the_context(model, window):
    prompt = np.random.default_rng(5).integers(0, VOCAB, CONTEXT)
    [text] = Decoder(model, GREEDY).write([prompt], 1, window=window)
    assert text.ids.tolist() == [forced(model, prompt)[-1].argmax()]


def test_a_window_slides(model):
    """Before the context is full nothing changes; then each token follows from the last half of a context, and what came after."""
    [within] = Decoder(model, GREEDY).write([[1, 2, 3]], CONTEXT - 2)
    [beyond] = Decoder(model, GREEDY).write([[1, 2, 3]], 2 * CONTEXT, window=True)
    np.testing.assert_array_equal(beyond.ids[: len(within.ids)], within.ids)
    ids, cut = np.array([1, 2, 3, *beyond.ids]), CONTEXT + 1 - CONTEXT // 2  # the first token drawn after a re-reading follows ids[cut:]
    logits = forced(model, ids[cut : cut + CONTEXT - 1])
    for place in range(CONTEXT // 2 - 1, CONTEXT - 1):
        assert logits[place].argmax() == ids[cut + place + 1]


def test_each_text_of_a_batch_has_a_window_of_its_own(model):
    """Some fill the context sooner than others, one begins beyond it: each is what it is alone."""
    rng = np.random.default_rng(6)
    prompts = [rng.integers(0, VOCAB, n) for n in (1, 5, CONTEXT // 2, CONTEXT - 3, CONTEXT, CONTEXT + 9)]
    decoder = Decoder(model, GREEDY)
    for prompt, text in zip(prompts, decoder.write(prompts, 2 * CONTEXT, window=True)):
        [alone] = decoder.write([prompt], 2 * CONTEXT, window=True)
        np.testing.assert_array_equal(text.ids, alone.ids, str(len(prompt)))


@pytest.mark.parametrize("context", [1, 2, 3])
def test_a_window_over_the_smallest_contexts(context):
    small = decisive(GPT2Config(layers=1, heads=1, width=4, context=context, vocab=VOCAB))
    [text] = Decoder(small, GREEDY).write([[5] * 9], 12, window=True)
    assert len(text.ids) == 12
    if context == 1:
        ids = [5, *text.ids]
        for before, after in zip(ids, ids[1:]):
            assert forced(small, [before])[0].argmax() == after


def test_a_text_ends_at_a_stop_token_and_the_others_go_on(model, prompts):
    free = Decoder(model, GREEDY).write(prompts, 40)
    stop = int(free[0].ids[9])
    for prompt, text, before in zip(prompts, Decoder(model, GREEDY).write(prompts, 40, stop=[stop]), free):
        where = np.flatnonzero(before.ids == stop)
        np.testing.assert_array_equal(text.ids, before.ids[: where[0] + 1] if len(where) else before.ids, str(prompt))


def test_all_have_ended(model):
    free = Decoder(model, GREEDY).write([[1], [2]], 30)
    stops = [int(text.ids[4]) for text in free]
    assert len(list(Decoder(model, GREEDY).stream([[1], [2]], 10**9, stop=range(VOCAB), window=True))) == 1
    assert len(list(Decoder(model, GREEDY).stream([[1], [2]], 30, stop=stops))) <= 5


def test_a_seed_is_a_text_and_a_longer_one_begins_like_a_shorter(model):
    write = lambda seed, tokens: Decoder(model, Sampling(temperature=3.0, seed=seed)).write([[1], [1]], tokens)
    first, second = write(1, 40)
    np.testing.assert_array_equal(first.ids[:8], write(1, 8)[0].ids)
    assert (first.ids != write(2, 40)[0].ids).any() and (first.ids != second.ids).any()  # rows draw apart


def test_ids_outside_the_tokeniser_are_never_drawn(model):
    decoder = Decoder(model, Sampling(temperature=50.0, repetition_penalty=1.1), vocabulary=3)
    assert decoder.write([[7, 8]], 60)[0].ids.max() == 2


def test_a_penalty_forbids_what_was_said(model):
    """As strong as it can be, every token comes once while there are others: those of the prompt do not come at all."""
    [text] = Decoder(model, Sampling(temperature=0, repetition_penalty=1e20)).write([[1, 2, 3]], VOCAB - 3)
    logits = forced(model, [1, 2, 3, *text.ids])[2:-1]
    said = [1, 2, 3]
    for row, id in zip(logits, text.ids):
        others = [i for i in range(VOCAB) if i not in said]
        assert id == max(others, key=lambda i: row[i]) or (row[others] <= 0).all()
        said.append(int(id))


@pytest.mark.parametrize(
    "prompts, tokens, says",
    [
        ([], 1, "there is no prompt"),
        ([[1]], 0, "tokens is 0"),
        ([[1], []], 1, "the prompt 2 is empty"),
        ([[[1, 2]]], 1, r"the prompt is int64 of shape \(1, 2\); expected one row of integers"),
        ([[1.5]], 1, "the prompt is float64 of shape"),
        ([[2**40]], 1, f"the prompt has tokens from {2**40}"),
        ([[VOCAB]], 1, f"the prompt has tokens from {VOCAB} to {VOCAB}; the model has {VOCAB}"),
        ([[-1]], 1, "the prompt has tokens from -1"),
        ([[1] * (CONTEXT + 1)], 1, f"the prompt has {CONTEXT + 1} tokens, and the context of the model {CONTEXT}"),
        ([[1] * 10], CONTEXT - 8, f"ask for {CONTEXT - 9} or fewer, or let a window slide"),
    ],
)
def test_what_cannot_be_written_is_said_before_it_is_begun(model, prompts, tokens, says, monkeypatch):
    monkeypatch.setattr(Decoder, "read", lambda *args: pytest.fail("work began"))
    with pytest.raises(ConfigError, match=says):
        Decoder(model, GREEDY).write(prompts, tokens)


def test_more_likeliest_than_tokens(model):
    with pytest.raises(ConfigError, match="top_k is 24; the vocabulary has 23 tokens"):
        Decoder(model, Sampling(top_k=24))


def test_only_what_looks_back_can_go_on():
    layer = nn.SelfAttention.init(jax.random.key(0), 4, 2)
    with pytest.raises(ConfigError, match="only causal attention"):
        layer.extend(jnp.zeros((1, 1, 4)), jnp.zeros((1, 2, 3, 2)), jnp.zeros((1, 2, 3, 2)), jnp.array([0]))
