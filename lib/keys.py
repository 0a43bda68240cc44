"""Random keys by identity: a key is a function of who draws and when, never of the order of draws."""

import hashlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .errors import ConfigError


def root_key(seed, step=0) -> jax.Array:
    """The key that all draws of one training step come from. Both may be traced integers.

    JAX would read a seed of 2**32 as 0 and cut a fraction off; here a number that is no integer from 0 to 2**32 - 1 is an error.
    """
    return jax.random.fold_in(jax.random.key(whole(seed, "seed")), whole(step, "step"))


def whole(x: Any, name: str):
    dtype = getattr(x, "dtype", None)
    if isinstance(x, (int, np.integer)) and not isinstance(x, bool):
        if 0 <= x < 2**32:
            return x
    elif dtype is not None and jnp.issubdtype(dtype, jnp.integer):
        return x
    raise ConfigError(f"{name} {x!r}: expected an integer from 0 to 2**32 - 1")


def named_key(key: jax.Array, name: str) -> jax.Array:
    """Fold a name in: 64 bits of its hash, so that two names of one model do not meet by chance."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    high, low = int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:], "big")
    return jax.random.fold_in(jax.random.fold_in(key, high), low)
