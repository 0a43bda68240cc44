"""A shuffle that is never made: where each of n things goes is computed, one by one, from a key.

A Feistel network permutes the numbers of 2h bits, the fewest that hold n: in each round the halves change places and one of them
is mixed with a hash of the other. A result beyond n is put in again until it lies inside (cycle walking), which is less than
four times on average and keeps the map one to one. The order is part of what a run is: a change here changes every run.

Black & Rogaway 2002, Ciphers with arbitrary finite domains.
"""

import numpy as np
from jaxtyping import Int

from .errors import ConfigError

MOST = 1 << 40
ROUNDS = 12  # the 24 orders of four things, whose halves are one bit, are then equally likely to 0.1 %; after 4 rounds, to 25 %
EPOCHS = 1 << 128  # the word of Philox' counter that is the epoch; that of the step, in tokens.py, is the next


def place(index: Int[np.ndarray, "*n"], count: int, seed: int, epoch: int) -> Int[np.ndarray, "*n"]:
    """The place, int64 in [0, count), of each index in [0, count) under the key (seed, epoch): one to one.

    Raises ConfigError for a count beyond 2^40 and an index outside.
    """
    index = np.asarray(index)
    if not 1 <= count <= MOST:
        raise ConfigError(f"a permutation of {count:,}; expected from 1 to {MOST:,}")
    if index.size and not 0 <= index.min() <= index.max() < count:
        raise ConfigError(f"an index from {index.min():,} to {index.max():,}; expected 0 to {count - 1:,}")
    half = max(1, -(-(count - 1).bit_length() // 2))
    keys = np.random.Philox(key=int(seed) % 2**128, counter=int(epoch) * EPOCHS).random_raw(ROUNDS)
    places = network(index.astype(np.uint64).reshape(-1), half, keys)  # NumPy warns of a lone number that overflows
    while (outside := places >= count).any():
        places[outside] = network(places[outside], half, keys)
    return places.astype(np.int64).reshape(index.shape)


def network(x: np.ndarray, half: int, keys: np.ndarray) -> np.ndarray:
    """A permutation of the numbers of 2·half bits."""
    bits, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = x >> bits, x & mask
    for key in keys:
        left, right = right, left ^ (mixed(right + key) & mask)
    return left << bits | right


def mixed(x: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64: every bit that comes changes half of those that go. Steele, Lea & Flood 2014."""
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)
