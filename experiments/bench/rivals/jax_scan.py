"""Rival of the scan: the transformer blocks of jax_plain.py under `jax.lax.scan` and `jax.checkpoint`, by autodiff.

Forward and backward only: the value (h_L·r).mean() of the last hidden state against a fixed random r, and its gradients with
respect to the stacked weights and the first hidden state, both (B, T, C). There are no embedding, head and optimiser.

usage: python jax_scan.py [--shape gpt2-124m|shakespeare-char] [--batch 4 --time 64 ...] [--no-checkpoint]
"""

import argparse
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax_plain import block, compiled
from recipe import Recipe, from_command_line, run, weights


def value_of(recipe: Recipe, checkpoint: bool = True) -> Callable:
    """(stacked blocks, h, r) -> (h_L·r).mean()."""

    def body(h, b):
        return block(h, b, recipe), None

    def value(blocks, h, r):
        return (jax.lax.scan(jax.checkpoint(body) if checkpoint else body, h, blocks)[0] * r).mean()

    return value


def operands(recipe: Recipe):
    """The blocks' weights with a leading axis of layers, the first hidden state and r."""
    blocks = jax.tree.map(lambda *layers: jnp.stack(layers), *weights(recipe)["h"])
    h, r = np.random.default_rng(recipe.seed + 2).standard_normal((2, recipe.batch, recipe.time, recipe.width), np.float32)
    return blocks, jnp.asarray(h), jnp.asarray(r)


if __name__ == "__main__":
    flag = ("--checkpoint", dict(action=argparse.BooleanOptionalAction, default=True))
    recipe, given = from_command_line(__doc__ or "", extra=(flag,))
    blocks, h, r = operands(recipe)
    program, cost = compiled(jax.jit(jax.value_and_grad(value_of(recipe, given.checkpoint), argnums=(0, 1))), blocks, h, r)
    step = lambda i: float(jax.block_until_ready(program(blocks, h, r))[0])
    run("jax-scan", recipe, step, dict(jax=jax.__version__), **cost, checkpoint=given.checkpoint)
