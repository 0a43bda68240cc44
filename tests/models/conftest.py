"""What tests of models share: a second GPT-2 in plain jax.numpy, for jax.grad. Parameters by name, nothing of ours inside it."""

import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback.lib.keys import named_key, root_key

SEED, STEP, FIRST = 5, 4, 2  # of the keys, and the index of the first example


def norm(p, name, x):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * p[f"{name}.scale"] + p[f"{name}.bias"]


def affine(p, name, x):
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def drop(scope, x, rate):
    """Dropout with the masks by their definition: a key from (seed, step, scope, purpose), folded with each example's index."""
    if rate == 0:
        return x
    key = named_key(root_key(SEED, STEP), f"{scope}:dropout")
    bits = [jax.random.bits(jax.random.fold_in(key, FIRST + i), x.shape[1:], jnp.uint32) for i in range(x.shape[0])]
    return jnp.where(jnp.stack(bits) < (1 - rate) * 2.0**32, x / (1 - rate), 0)


def logits(p, ids, config, rate=0.0):
    T, D, H = ids.shape[1], config.width, config.heads
    h = drop("dropout", p["wte.weight"][ids] + p["wpe.weight"][:T], rate)
    for i in range(config.layers):
        name = f"blocks.{i}"
        q, k, v = (part.reshape(-1, T, H, D // H) for part in jnp.split(affine(p, f"{name}.attn.qkv", norm(p, f"{name}.ln1", h)), 3, -1))
        z = jnp.einsum("bthk,bshk->bhts", q, k) / jnp.sqrt(D // H)
        weights = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((T, T), bool)), z, -jnp.inf), -1)
        y = jnp.einsum("bhts,bshk->bthk", weights, v).reshape(-1, T, D)
        h = h + drop(f"{name}.attn.dropout", affine(p, f"{name}.attn.proj", y), rate)
        u = affine(p, f"{name}.mlp.fc", norm(p, f"{name}.ln2", h))
        u = 0.5 * u * (1 + jnp.tanh(jnp.sqrt(2 / jnp.pi) * (u + 0.044715 * u**3)))
        h = h + drop(f"{name}.mlp.dropout", affine(p, f"{name}.mlp.proj", u), rate)
    return norm(p, "ln", h) @ p["wte.weight"].T


@functools.partial(jax.jit, static_argnames=("config", "rate"))
def loss(p, ids, targets, weights, *, config, rate=0.0):
    z = logits(p, ids, config, rate)
    losses = jax.nn.logsumexp(z, -1) - jnp.take_along_axis(z, targets[..., None], -1)[..., 0]
    return (weights * losses).sum() / weights.sum()


def gap(got, wanted) -> float:
    """‖got − wanted‖ / ‖wanted‖"""
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))


@pytest.fixture(scope="session")
def plain():
    """The plain GPT-2 (`logits`, `loss`), the `gap` between two arrays, and the seed, step and first example of its dropout."""
    return SimpleNamespace(logits=logits, loss=loss, gap=gap, keys=(SEED, STEP), first_example=FIRST)
