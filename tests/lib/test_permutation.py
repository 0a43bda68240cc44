"""The keyed permutation: one to one, the same for ever, and without favourites."""

import itertools
import time

import numpy as np
import pytest

from pullback.lib import permutation
from pullback.lib.errors import ConfigError
from pullback.lib.permutation import place


def whole(count: int, seed: int = 0, epoch: int = 0) -> list[int]:
    return place(np.arange(count), count, seed, epoch).tolist()


@pytest.mark.parametrize("seed, epoch", [(0, 0), (0, 1), (7, 0), (-3, 2**40)])
def test_every_place_is_taken_once(seed, epoch):
    for count in range(1, 201):
        assert sorted(whole(count, seed, epoch)) == list(range(count))


def test_a_million_million_takes_no_time_and_no_memory():
    rng, count = np.random.default_rng(0), 10**12
    index = np.unique(rng.integers(0, count, 100_000))
    began = time.perf_counter()
    places = place(index, count, 5, 3)
    assert time.perf_counter() - began < 5  # what is made of all the places takes hours
    assert places.dtype == np.int64 and 0 <= places.min() and places.max() < count
    assert len(np.unique(places)) == len(index)  # one to one, as far as was looked
    ten = np.bincount(places * 10 // count, minlength=10)
    assert len(ten) == 10 and ((ten - len(index) / 10) ** 2 / (len(index) / 10)).sum() < 27.9  # 9 degrees, p = 0.001


def test_seeds_and_epochs_differ():
    orders = {tuple(whole(50, seed, epoch)) for seed in range(20) for epoch in range(20)}
    assert len(orders) == 400
    assert whole(50, 2**128 + 1, 4) == whole(50, 1, 4) == place(np.arange(50, dtype=np.uint64), 50, 1, 4).tolist()


def test_an_index_goes_where_it_goes_whatever_comes_with_it():
    index = np.array([[5, 900], [5, 17]], np.uint64)
    places = place(index, 1000, 1, 1)
    assert places.shape == (2, 2) and places[0, 0] == places[1, 0] == place(np.array(5), 1000, 1, 1) == whole(1000, 1, 1)[5]
    assert place(np.array([], np.int64), 10, 0, 0).tolist() == []


def chi_squared(order, count: int, seeds: int = 4800) -> tuple[float, int]:
    """(how far the orders of `count` things over many seeds are from equally likely, degrees of freedom)."""
    kinds = list(itertools.permutations(range(count)))
    seen = dict.fromkeys(kinds, 0)
    for seed in range(seeds):
        seen[tuple(order(count, seed))] += 1
    expected = seeds / len(kinds)
    return sum((n - expected) ** 2 / expected for n in seen.values()), len(kinds) - 1


@pytest.mark.parametrize("count, limit", [(3, 20.5), (4, 49.7), (5, 172.7)])  # chi-squared of 5, 23 and 119 degrees, p = 0.001
def test_every_order_of_a_few_is_equally_likely(count, limit, monkeypatch):
    value, degrees = chi_squared(whole, count)
    assert degrees in (5, 23, 119) and value < limit
    rotated = lambda count, seed: [(i + seed) % count for i in range(count)]  # each place equally likely, but few orders
    assert chi_squared(rotated, count)[0] > 10 * limit
    monkeypatch.setattr(permutation, "ROUNDS", 2)
    assert chi_squared(whole, count)[0] > limit


def lands(first, count: int, seeds: int = 3000) -> float:
    seen = np.bincount([first(count, seed) for seed in range(seeds)], minlength=count)
    return float(((seen - seeds / count) ** 2 / (seeds / count)).sum())


def test_the_first_lands_everywhere():
    """Of 100 places, over seeds and over epochs. 99 degrees, p = 0.001: 148."""
    assert lands(lambda count, seed: int(place(np.array(0), count, seed, 0)), 100) < 148
    assert lands(lambda count, epoch: int(place(np.array(0), count, 3, epoch)), 100) < 148
    biased = lambda count, seed: int(np.random.Philox(key=seed).random_raw(1)[0] % np.uint64(128) % np.uint64(count))
    assert lands(biased, 100) > 300


def test_the_order_never_changes():
    """A run that was begun with one version goes on with the next."""
    assert whole(10, 2026, 0) == GOLDEN[0] and whole(10, 2026, 1) == GOLDEN[1]
    assert place(np.array([0, 1, 10**12 - 1]), 10**12, 7, 123_456).tolist() == GOLDEN[2]


GOLDEN = [[6, 2, 0, 5, 3, 4, 8, 7, 9, 1], [0, 2, 8, 7, 9, 3, 6, 4, 5, 1], [29870337007, 754935123293, 907642847743]]


@pytest.mark.parametrize(
    "count, index, says",
    [(0, [], "of 0;"), (2**40 + 1, [0], "1,099,511,627,777"), (10, [10], "from 10 to 10"), (10, [3, -1], "from -1 to 3")],
)
def test_what_is_no_place(count, index, says):
    with pytest.raises(ConfigError, match=says):
        place(np.array(index, np.int64), count, 0, 0)
