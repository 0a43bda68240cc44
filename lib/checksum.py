"""64 bits that tell whether two trees of arrays are the same to the bit, made where the arrays are."""

import functools
import hashlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path
from jaxtyping import Array, UInt32

Words = UInt32[Array, " 2"]
GOLDEN = 0x9E3779B9  # 2³²/φ: multiples of it are spread evenly over the words


def checksum(tree: Any) -> Words:
    """Every word of every array is mixed with its place and the name of its array, and the results are added modulo 2³².

    Addition of integers has no order, so the sum is the same however a device divides it. Two different sums mean different
    trees; equal ones mean equal trees but for one chance in 2⁶⁴. −0 and 0 differ, as do two NaNs of different bits, and dtypes
    and shapes count too. May be traced, or called on arrays that are to be donated next.
    """
    total = jnp.zeros(2, jnp.uint32)
    for path, x in tree_flatten_with_path(tree)[0]:
        x = jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else jnp.asarray(x)
        total += of_array(x, np.uint32(name_of(keystr(path), x)))
    return total


def name_of(path: str, x: Array) -> int:
    return int.from_bytes(hashlib.blake2b(f"{path} {x.dtype} {x.shape}".encode(), digest_size=4).digest(), "big")


@functools.partial(jax.jit, inline=False)
def of_array(x: Array, name: UInt32[Array, ""]) -> Words:
    words = bits(x)
    place = jax.lax.iota(jnp.uint32, len(words)) * jnp.uint32(GOLDEN)
    first = mixed(words ^ mixed(place ^ name))
    return jnp.stack([jnp.sum(first), jnp.sum(mixed(first + place))])


def bits(x: Array) -> UInt32[Array, " N"]:
    """The array as words of 32 bits; narrower elements have a word each."""
    if x.dtype == jnp.bool_:
        return x.reshape(-1).astype(jnp.uint32)
    size = 8 * x.dtype.itemsize
    return jax.lax.bitcast_convert_type(x.reshape(-1), f"uint{min(size, 32)}").reshape(-1).astype(jnp.uint32)


def mixed(x: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """A bijection of words in which each bit of the result depends on each bit of `x`: the last step of MurmurHash3."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def hexadecimal(words: Words) -> str:
    """As it stands in files: 16 digits."""
    return "".join(f"{int(word):08x}" for word in np.asarray(words))
