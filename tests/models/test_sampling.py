"""What is left out, in which order, and whether draws have the probabilities that they should."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullback.lib.errors import ConfigError
from pullback.models.sampling import Sampling, draw, left, likeliest


def kept(p, **numbers) -> list[int]:
    return np.flatnonzero(left(jnp.asarray([p], jnp.float32), numbers)[0]).tolist()


def test_top_p_by_hand():
    assert kept([0.3, 0.1, 0.1, 0.5], top_p=0.79) == [0, 3]
    assert kept([0.25, 0.125, 0.125, 0.5], top_p=0.75) == [0, 3]  # all binary fractions: what stands there already is enough
    assert kept([0.25, 0.125, 0.125, 0.5], top_p=0.76) == [0, 1, 2, 3]  # equals go together
    assert kept([0.3, 0.1, 0.1, 0.5], top_p=0.0) == [3]
    assert kept([0.3, 0.1, 0.1, 0.5], top_p=1.0) == [0, 1, 2, 3]


def test_top_k_and_min_p_by_hand():
    assert kept([0.3, 0.1, 0.1, 0.5], top_k=1.0) == [3]
    assert kept([0.3, 0.1, 0.1, 0.5], top_k=2.0) == [0, 3]
    assert kept([0.3, 0.1, 0.1, 0.5], top_k=3.0) == [0, 1, 2, 3]  # equals go together
    assert kept([0.3, 0.1, 0.1, 0.5], min_p=0.5) == [0, 3]
    assert kept([0.3, 0.1, 0.1, 0.5], min_p=1.0) == [3]
    assert kept([0.4, 0.3, 0.2, 0.1], top_k=3.0, top_p=0.7) == [0, 1]  # of the three 0.9 remains, of which 0.7 is 0.63


@given(st.lists(st.integers(0, 1 << 18), min_size=1, max_size=40).filter(any), st.floats(0, 1))
def test_likeliest_is_what_sorting_finds(counts, share):
    p = np.array(counts, np.float32) / np.float32(1 << 25)  # sums are exact
    limit = np.float32(share) * p.sum()
    expected = [p[p > x].sum() < limit or x == p.max() for x in p]
    assert likeliest(jnp.asarray([p]), jnp.asarray([p]), jnp.float32(limit))[0].tolist() == expected


def frequencies(logits, sampling: Sampling, draws: int = 20_000) -> np.ndarray:
    """How often each token comes, every row of a batch a draw."""
    rows = jnp.tile(jnp.asarray(logits, jnp.float32), (draws, 1))
    ids, _ = jax.jit(draw)(rows, sampling.numbers(), None, jax.random.key(sampling.seed))
    return np.bincount(np.asarray(ids), minlength=len(logits)) / draws


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_frequencies_follow_the_softmax(temperature):
    """χ² against softmax(logits/temperature): of five degrees of freedom it passes 20.5 once in a thousand."""
    logits = np.log([0.3, 0.25, 0.2, 0.15, 0.09, 0.01])
    expected = np.asarray(jax.nn.softmax(jnp.asarray(logits / temperature)))
    came = frequencies(logits, Sampling(temperature=temperature, seed=7))
    assert 20_000 * ((came - expected) ** 2 / expected).sum() < 20.5


def test_what_is_left_out_is_never_drawn():
    came = frequencies(np.log([0.4, 0.3, 0.2, 0.1]), Sampling(temperature=1.0, top_k=3, top_p=0.7))
    assert came[2] == came[3] == 0
    np.testing.assert_allclose(came[:2], [4 / 7, 3 / 7], atol=0.015)  # four standard deviations


def test_tokens_without_a_chance_are_never_drawn():
    logits = np.full(1000, -np.inf)
    logits[[3, 500, 999]] = 0
    assert set(np.flatnonzero(frequencies(logits, Sampling(temperature=1.0)))) == {3, 500, 999}


def test_greedy_takes_the_first_of_equals():
    ids, logprobs = draw(jnp.asarray([[1.0, 3.0, 3.0, 2.0]]), {}, None, jax.random.key(0))
    assert ids.tolist() == [1]
    np.testing.assert_allclose(logprobs, jax.nn.log_softmax(jnp.asarray([1.0, 3.0, 3.0, 2.0]))[1:2], rtol=1e-6)


def test_the_penalty_divides_what_is_above_0_and_multiplies_what_is_below():
    logits, seen = jnp.asarray([[2.0, 1.5, -1.0, -1.5]]), jnp.asarray([[True, False, True, False]])
    numbers = Sampling(temperature=0, repetition_penalty=2.0).numbers()
    ids, logprobs = draw(logits, numbers, seen, jax.random.key(0))
    assert ids.tolist() == [1]  # 1, 1.5, -2, -1.5
    np.testing.assert_allclose(logprobs, jax.nn.log_softmax(logits)[0, 1:2], rtol=1e-6)  # of the model, not of what was made of it


def test_low_temperatures_do_not_overflow():
    ids, logprobs = draw(jnp.asarray([[1e4, 0.0, -1e4]]), Sampling(temperature=1e-30).numbers(), None, jax.random.key(0))
    assert ids.tolist() == [0] and logprobs.tolist() == [0.0]


def test_what_changes_nothing_is_not_computed():
    assert Sampling(temperature=0, top_k=3, top_p=0.5, min_p=0.1).numbers() == {}
    assert Sampling(temperature=1.0, top_p=1.0, min_p=0.0, repetition_penalty=1.0).numbers() == {"temperature": 1.0}


@pytest.mark.parametrize(
    "settings, says",
    [
        (dict(temperature=-1.0), r"temperature is -1.0; it must be from 0 to 1e\+30"),
        (dict(temperature=float("nan")), "temperature is nan"),
        (dict(temperature=float("inf")), "temperature is inf"),
        (dict(top_k=0), "top_k is 0; it must be from 1 to 2147483647"),
        (dict(top_p=-0.1), "top_p is -0.1; it must be from 0 to 1"),
        (dict(top_p=1.5), "top_p is 1.5"),
        (dict(min_p=2.0), "min_p is 2.0"),
        (dict(repetition_penalty=0.0), r"repetition_penalty is 0.0; it must be from 1e-30 to 1e\+30"),
        (dict(seed=-1), "seed is -1"),
        (dict(seed=2**31), "seed is 2147483648; it must be from 0 to 2147483647"),
    ],
)
def test_settings_out_of_range(settings, says):
    with pytest.raises(ConfigError, match=says):
        Sampling(**settings)
