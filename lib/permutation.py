"""A shuffle that is never made: where each of n things goes is computed, one by one, from a key.

A generalised Feistel network permutes the pairs (left, right) of a·b things, of which a is the root of n, rounded up, and b the
least that makes room for n: in each round a hash of one of the two is added to the other, modulo a or b. A result beyond n is put
in again until it lies inside (cycle walking), which fewer than one in the root of n does, and which keeps the map one to one. The
order is part of what a run is: a change here changes every run.

Black & Rogaway 2002, Ciphers with arbitrary finite domains: its third method.
"""

import itertools
import math

import numpy as np
from jaxtyping import Int

from .errors import ConfigError

MOST = 1 << 40
ROUNDS = 12  # even. The 120 orders of five things are then equally likely, as far as 4,800 keys tell; after 8 rounds they are not
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
    rows = math.isqrt(count - 1) + 1
    columns = -(-count // rows)
    keys = np.random.Philox(key=int(seed) % 2**128, counter=int(epoch) * EPOCHS).random_raw(ROUNDS)
    places = network(index.astype(np.uint64).reshape(-1), rows, columns, keys)  # NumPy warns of a lone number that overflows
    while (outside := places >= count).any():
        places[outside] = network(places[outside], rows, columns, keys)
    return places.astype(np.int64).reshape(index.shape)


def network(x: np.ndarray, rows: int, columns: int, keys: np.ndarray) -> np.ndarray:
    """A permutation of the numbers below rows · columns."""
    left, right = np.divmod(x, np.uint64(columns))
    moduli = itertools.cycle([np.uint64(rows), np.uint64(columns)])
    for key, modulus in zip(keys, moduli):
        left, right = right, (left + mixed(right + key)) % modulus
    return left * np.uint64(columns) + right


def mixed(x: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64: every bit that comes changes half of those that go. Steele, Lea & Flood 2014. Its 63 highest bits,
    so that what is added does not overflow."""
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return (x ^ x >> np.uint64(31)) >> np.uint64(1)
