"""Rival: one GPT-2 training step in idiomatic JAX under `jax.value_and_grad`: float32, AdamW, buffers donated.

usage: python jax_plain.py [--shape gpt2-124m|shakespeare-char] [--batch 4 --time 64 ...]
"""

import functools
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
from recipe import Recipe, from_command_line, run, tokens, weights


def layer_norm(x, p):
    scale, bias = p
    centred = x - x.mean(-1, keepdims=True)
    y = centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale
    return y if bias is None else y + bias


def linear(x, p):
    w, bias = p
    return x @ w if bias is None else x @ w + bias


def attention(x, b, recipe: Recipe):
    B, T, C = x.shape
    q, k, v = (t.reshape(B, T, recipe.heads, -1).transpose(0, 2, 1, 3) for t in jnp.split(linear(x, b["qkv"]), 3, -1))
    scores = q @ k.swapaxes(2, 3) * recipe.head_width**-0.5
    weight = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((T, T), bool)), scores, -jnp.inf), -1)
    return linear((weight @ v).transpose(0, 2, 1, 3).reshape(B, T, C), b["proj"])


def block(h, b, recipe: Recipe):
    h = h + attention(layer_norm(h, b["ln1"]), b, recipe)
    return h + linear(jax.nn.gelu(linear(layer_norm(h, b["ln2"]), b["fc"]), approximate=True), b["out"])


def loss_fn(p, x, y, recipe: Recipe):
    """Mean cross-entropy of the targets y (B, T) after the tokens x (B, T), in nats."""
    h = p["wte"][x] + p["wpe"][: x.shape[1]]
    for b in p["h"]:
        h = block(h, b, recipe)
    logits = layer_norm(h, p["lnf"]) @ p["wte"].T
    picked = jnp.take_along_axis(logits, y[..., None], -1)[..., 0]
    return (jax.nn.logsumexp(logits, -1) - picked).mean()


def clipped(g, recipe: Recipe):
    """The gradient, scaled down where its global norm is above the recipe's limit."""
    if not recipe.clip:
        return g
    scale = jnp.minimum(1, recipe.clip / jnp.sqrt(sum((a * a).sum() for a in jax.tree.leaves(g))))
    return jax.tree.map(lambda a: a * scale, g)


def adamw(p, g, m, v, t, lr, recipe: Recipe):
    """p ← p − lr·(m̂ / (√v̂ + eps) + decay·p), the decay for matrices only; t counts from 1."""
    b1, b2 = recipe.b1, recipe.b2
    g = clipped(g, recipe)
    m = jax.tree.map(lambda a, b: b1 * a + (1 - b1) * b, m, g)
    v = jax.tree.map(lambda a, b: b2 * a + (1 - b2) * b * b, v, g)

    def moved(w, a, b):
        decay = recipe.decay if w.ndim > 1 else 0.0
        return w - lr * (a / (1 - b1**t) / (jnp.sqrt(b / (1 - b2**t)) + recipe.eps) + decay * w)

    return jax.tree.map(moved, p, m, v), m, v


def step_of(loss_fn: Callable, recipe: Recipe) -> Callable:
    """(p, m, v, t, lr, x, y) -> (p, m, v, loss); the first three are donated."""

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def step(p, m, v, t, lr, x, y):
        loss, g = jax.value_and_grad(loss_fn)(p, x, y, recipe)
        return *adamw(p, g, m, v, t, lr, recipe), loss

    return step


def compiled(step: Callable, *operands) -> tuple[Callable, dict[str, float]]:
    """The program, the seconds of trace + lower + compile and XLA's temporary memory."""
    jax.config.update("jax_enable_compilation_cache", False)
    started = time.perf_counter()
    program = step.lower(*operands).compile()  # type: ignore[attr-defined]
    return program, dict(compile_s=time.perf_counter() - started, temp_bytes=program.memory_analysis().temp_size_in_bytes)


def measure(rival: str, step: Callable, recipe: Recipe, **described) -> None:
    """Train from `weights(recipe)` on one batch and print the line."""
    p = jax.tree.map(jnp.asarray, weights(recipe))
    m, v = jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p)
    x, y = map(jnp.asarray, tokens(recipe))
    lr, one = jnp.float32(recipe.lr), jnp.float32(1)
    program, cost = compiled(step, p, m, v, one, lr, x, y)

    def advance(i: int) -> float:
        nonlocal p, m, v
        p, m, v, loss = jax.block_until_ready(program(p, m, v, one + i, lr, x, y))
        return float(loss)

    run(rival, recipe, advance, dict(jax=jax.__version__), **cost, **described)


if __name__ == "__main__":
    recipe, _ = from_command_line(__doc__ or "")
    measure("jax-plain", step_of(loss_fn, recipe), recipe)
