"""Which keys the queries of an attention may see, and so which blocks of scores are made at all.

A plan of Python numbers. It decides how much is computed, not what: a block leaves out only what none of its queries may see, and a
mask that lets everything through is not made.
"""

from typing import NamedTuple

import jax.numpy as jnp

ROWS = 128  # queries, or keys in the backward, to a block from T = 256 on; below, one block is faster


class Reach(NamedTuple):
    """Which keys a query may see by their positions."""

    causal: bool
    query_offset: int
    window: int | None


class Block(NamedTuple):
    """Queries and keys that are worked on together."""

    rows: slice
    keys: slice


def query_blocks(queries: int, keys: int, reach: Reach, block: int | None) -> list[Block]:
    """Runs of queries, each with the keys from the first to the last one that any of them may see."""
    size, parts = block_size(queries, block), []
    for start in range(0, max(queries, 1), size):
        end = min(start + size, queries)
        last = min(max(end + reach.query_offset, 0), keys) if reach.causal else keys
        first = 0 if reach.window is None else min(max(start + reach.query_offset - reach.window + 1, 0), last)
        parts.append(Block(slice(start, end), slice(first, last)))
    return parts


def key_blocks(queries: int, keys: int, reach: Reach, block: int | None) -> list[Block]:
    """Runs of keys, each with the queries from the first to the last one that may see any of them."""
    size, parts = block_size(keys, block), []
    for start in range(0, max(keys, 1), size):
        end = min(start + size, keys)
        first = min(max(start - reach.query_offset, 0), queries) if reach.causal else 0
        last = queries if reach.window is None else min(max(end - 1 + reach.window - reach.query_offset, first), queries)
        parts.append(Block(slice(first, last), slice(start, end)))
    return parts


def block_size(n: int, block: int | None) -> int:
    return block or (max(n, 1) if n < 2 * ROWS else ROWS)


def allowed(part: Block, mask, reach: Reach, keys_first: bool = False):
    """Which keys of a block its queries may see, broadcastable to its scores; `None` for all of them."""
    rows, keys = part
    seen, offset, window = None, reach.query_offset, reach.window
    position, key = jnp.arange(rows.start, rows.stop)[:, None] + offset, jnp.arange(keys.start, keys.stop)
    if reach.causal and keys.stop - 1 > rows.start + offset:
        seen = key <= position
    if window is not None and keys.start <= rows.stop - 1 + offset - window:
        seen = key > position - window if seen is None else seen & (key > position - window)
    if mask is not None:
        mask = mask[..., rows if mask.shape[-2] > 1 else slice(None), keys if mask.shape[-1] > 1 else slice(None)]
        seen = mask if seen is None else mask & seen
    return seen.swapaxes(-1, -2) if keys_first and seen is not None else seen
