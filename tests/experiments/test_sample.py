import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import nn
from pullback.experiments.sample import generate, next_token
from pullback.lib.errors import ConfigError
from pullback.models.gpt2 import GPT2, GPT2Config

VOCAB, CONTEXT = 11, 6
PROMPT = np.array([3, 1, 4], np.int32)


@pytest.fixture(scope="module")
def model():
    """Large weights, so that no two tokens are nearly as likely."""
    model = GPT2.init(jax.random.key(0), GPT2Config(layers=1, heads=2, width=8, context=CONTEXT, vocab=VOCAB))
    return jax.tree.map(lambda x: 20 * x if x.ndim > 1 else x, model)


def draw(model, tokens=12, **settings):
    return generate(model, PROMPT, tokens, **{"vocabulary": VOCAB, **settings})


def test_greedy_is_the_likeliest_after_the_last_context(model):
    """Token by token, from the logits of exactly the tokens that the model may see, without padding."""
    ids = list(PROMPT)
    for _ in range(12):
        ids.append(int(jnp.argmax(model(jnp.asarray([ids[-CONTEXT:]]))[0, -1])))
    np.testing.assert_array_equal(draw(model, temperature=0), ids[3:])


def test_the_best_of_one_is_greedy(model):
    np.testing.assert_array_equal(draw(model, top_k=1, temperature=5.0), draw(model, temperature=0))


def test_a_seed_is_a_text_and_a_longer_one_begins_like_a_shorter(model):
    first = draw(model, seed=1, temperature=2.0)
    np.testing.assert_array_equal(first[:8], draw(model, 8, seed=1, temperature=2.0))
    assert (first != draw(model, seed=2, temperature=2.0)).any()


def test_frequencies_follow_the_softmax(model):
    """One token under 300 seeds, by one program: χ² against softmax(logits / temperature) among the three likeliest."""
    logits = model(jnp.asarray([PROMPT]))[0, -1]
    values, best = jax.lax.top_k(logits, 3)
    temperature = values[0] - values[2]  # so that all three are drawn
    expected = 300 * jax.nn.softmax(values / temperature)
    following, params = next_token(model, VOCAB, top_k=3), nn.named_parameters(model)
    drawn = np.array([following(params, PROMPT, 2, temperature, seed, 0) for seed in range(300)])
    counts = np.array([(drawn == token).sum() for token in best])
    assert counts.sum() == 300 and following.traces == 1
    assert ((counts - expected) ** 2 / expected).sum() < 13.8  # χ² of two degrees of freedom passes this once in a thousand


def test_ids_outside_the_tokeniser_are_never_drawn(model):
    assert draw(model, 40, vocabulary=3, temperature=50.0, seed=1).max() == 2


def test_one_token_one_program(model, monkeypatch):
    calls, seen = [], []
    features = GPT2.features
    monkeypatch.setattr(GPT2, "features", lambda self, *args: (calls.append(1), features(self, *args))[1])
    draw(model, 15, watch=seen.append)
    assert len(calls) == 1 and seen == list(range(1, 16))


@pytest.mark.parametrize(
    "settings, says",
    [
        (dict(tokens=0), "tokens is 0"),
        (dict(temperature=-1.0), "temperature is -1.0"),
        (dict(temperature=float("nan")), "temperature is nan"),
        (dict(top_k=0), "top_k is 0"),
        (dict(seed=-1), "seed is -1"),
    ],
)
def test_settings_out_of_range(model, settings, says):
    with pytest.raises(ConfigError, match=says):
        draw(model, **settings)


def test_an_empty_prompt(model):
    with pytest.raises(ConfigError, match="the prompt is empty"):
        generate(model, PROMPT[:0], 3, vocabulary=VOCAB)
