"""Gradients of a batch, a part of it at a time: the memory of a part, the numbers of the whole."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ..autograd import scope
from ..autograd.scan import traced
from ..lib.errors import ConfigError
from ..lib.precision import accumulator


def accumulate(f: Callable[..., tuple[Any, Any]], parts: int, *batch) -> Any:
    """The means over a batch from those of its parts, Σ wᵢ·mᵢ / Σ wᵢ, as one loop of a compiled program.

        def of_part(first, inputs, targets, weights):
            with pb.keys(seed, step, first):
                loss, grads = pb.value_and_grad(...)(params)     # means over the tokens of the part
            return (loss, grads), weights.sum()

        loss, grads = nn.accumulate(of_part, 4, inputs, targets, weights)

    f(first, *part) gives (a tree of means, their weight). batch: arrays (or None) whose leading axis is divided into `parts` equal
    ones; first: index of the part's first example, for `pb.keys`, so that dropout drops what it would in the whole batch.
    A mean of means would be wrong as soon as parts have unequal weights. Where all weights are 0 the means are 0.
    Means come in `accumulator(dtype)`. Raises ConfigError where `parts` does not divide the batch.
    """
    rows = len(jax.tree.leaves(batch)[0])
    if parts < 1 or rows % parts:
        raise ConfigError(f"a batch of {rows} cannot be divided into {parts} equal parts")
    if parts == 1:
        return f(0, *batch)[0]
    size = rows // parts
    divided = jax.tree.map(lambda x: x.reshape(parts, size, *x.shape[1:]), batch)

    def weighted(index, part):
        means, weight = f(index * size, *part)
        wide = lambda x: jnp.asarray(x, accumulator(jnp.result_type(x)))
        with scope("accumulate"):
            return jax.tree.map(lambda m: wide(m) * wide(weight).astype(wide(m).dtype), means), wide(weight)

    def add(so_far, part):
        terms = weighted(*part)
        with scope("accumulate"):
            return jax.tree.map(jnp.add, so_far, terms), None

    if not traced(divided):  # a compiled loop would be compiled anew for every call
        part = lambda i: weighted(i, jax.tree.map(lambda x: x[i], divided))
        return mean(*functools.reduce(lambda a, b: jax.tree.map(jnp.add, a, b), map(part, range(parts))))
    like, weight = jax.eval_shape(weighted, 0, jax.tree.map(lambda x: x[0], divided))
    with scope("accumulate"):
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (like, weight))
    (total, whole), _ = jax.lax.scan(add, nothing, (jnp.arange(parts), divided))
    return mean(total, whole)


def mean(total: Any, weight) -> Any:
    with scope("accumulate"):
        return jax.tree.map(lambda x: x / jnp.where(weight == 0, 1, weight).astype(x.dtype), total)
