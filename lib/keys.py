"""Random keys by identity: a key is a function of who draws and when, never of the order of draws."""

import hashlib

import jax


def root_key(seed, step=0) -> jax.Array:
    """The key that all draws of one training step come from. Both may be traced integers."""
    return jax.random.fold_in(jax.random.key(seed), step)


def named_key(key: jax.Array, name: str) -> jax.Array:
    """Fold a name in: 64 bits of its hash, so that two names of one model do not meet by chance."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    high, low = int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:], "big")
    return jax.random.fold_in(jax.random.fold_in(key, high), low)
