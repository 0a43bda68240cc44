"""Rival: the GPT-2 step of jax_plain.py by the fastest program that we could write under `jax.value_and_grad`.

Only the way in which the forward is written differs, so that autodiff makes a better backward. Each way is a field of
`Form`; `best` gives the form with the shortest step for each bench shape, chosen for time alone.

Tried on two cores with the arena on: the step over that of the form in use, median of alternating pairs, and XLA's temp memory.

                              124M, 4 x 64       124M, 1 x 1024      shakespeare-char
    the form in use           1.000   412 MB     1.000  2053 MB      1.000    37 MB
    gelu=keep                 0.997   450        0.967  2204         1.009    44      within the noise, as is all
    head=gather               1.001   412        0.987  2053         0.996    37      from 0.96 to 1.02
    update=folded             1.008   412                            0.996    37
    soft=late                 1.010   403        0.992  1713         1.009    34
    scores=keep                                  1.029  2053         0.994    37
    order=keys                                   0.997  2053         1.015    37
    heads=three                                  0.992  2137         1.022    38
    embed=rows, logits=tall                                          0.987, 0.989
    block=64, 256, 512                           0.999, 1.000, 1.091
    chunk=512                                    1.093  2365
    bias=add, scale=add       1.022   432                            1.022    41
    XLA's barriers kept       1.013   393                            1.052    31      as in our program
    jax_plain.py              1.136   520        1.301  3310         1.509    48

usage: python jax_tuned.py [--shape gpt2-124m|shakespeare-char] [--batch 4 --time 64 ...] [--form block=128,head=chain]
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax_plain import adamw, clipped, measure
from recipe import Recipe, from_command_line


@dataclass(frozen=True)
class Form:
    """How the forward is written.

    bias: `row` adds a bias as a product with a column of ones, so that its gradient is a product and not a column sum;
        `add` broadcasts it.
    scale: the same for the scale of a layer norm.
    norm: `keep` what layer norm computes for the backward, or `again` compute it there.
    gelu: `keep` or `again`, as `norm`; `exp` computes it again as x / (1 + exp(-2u)).
    block: queries per block of attention, each block seeing only the keys up to its own end; 0: one block.
    soft: `divide` normalises the attention weights, `late` divides the weighted sum of values instead.
    scores: `again` computes a block's attention again in the backward, `keep` keeps its weights.
    order: the axes of the scores, `queries` (t, s) or `keys` (s, t).
    heads: `split` cuts one product into q, k and v and turns each; `whole` turns all before it cuts; `three` makes three
        products.
    head: `gather` takes the target's logit by index, `chain` by a comparison within the same pass as the softmax.
    logits: the axes of the logits, `wide` (tokens, V) or `tall` (V, tokens), the latter with head=chain.
    chunk: tokens per chunk of the head, whose logits are computed again in the backward; 0: no chunks.
    embed: `wte` differentiates the lookup of embeddings; `rows` the looked-up rows, adding them to the head's gradient.
    block_again: `yes` keeps only the input of each transformer block.
    update: AdamW `plain` as in jax_plain.py, or `folded`: its bias corrections in the step size and in eps.
    """

    bias: str = "row"
    scale: str = "row"
    norm: str = "keep"
    gelu: str = "again"
    block: int = 0
    soft: str = "divide"
    scores: str = "again"
    order: str = "queries"
    heads: str = "split"
    head: str = "chain"
    logits: str = "wide"
    chunk: int = 0
    embed: str = "wte"
    block_again: str = "no"
    update: str = "plain"


def best(recipe: Recipe) -> Form:
    """The form to use: measured at the bench shapes."""
    return Form(block=128 if recipe.time >= 256 else 0)


def spread(row, like, how: str):
    """A vector over the rows of `like`, (N, n)."""
    return jnp.ones((like.shape[0], 1), like.dtype) @ row[None] if how == "row" else row


def layer_norm(x, p, form: Form):
    def normal(x):
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

    scale, bias = p
    y = (jax.checkpoint(normal) if form.norm == "again" else normal)(x) * spread(scale, x, form.scale)
    return y if bias is None else y + spread(bias, x, form.bias)


def linear(x, p, form: Form):
    w, bias = p
    return x @ w if bias is None else x @ w + spread(bias, x, form.bias)


def gelu(x, form: Form):
    if form.gelu == "exp":
        return jax.checkpoint(lambda x: x / (1 + jnp.exp(-2 * np.sqrt(2 / np.pi).astype(x.dtype) * (x + 0.044715 * x * x * x))))(x)
    smooth = functools.partial(jax.nn.gelu, approximate=True)
    return (jax.checkpoint(smooth) if form.gelu == "again" else smooth)(x)


def attend(q, k, v, start: int, form: Form):
    """Queries start .. start + t of a sequence, q (B, H, t, K), over the keys up to their end, k and v (B, H, s, K)."""
    queries, keys = np.arange(start, start + q.shape[2]), np.arange(k.shape[2])
    q = q * q.shape[-1] ** -0.5
    if form.order == "keys":
        axis, scores, seen = -2, jnp.einsum("bhsd,bhtd->bhst", k, q), queries >= keys[:, None]
        weigh = functools.partial(jnp.einsum, "bhst,bhsd->bhtd")
    else:
        axis, scores, seen = -1, jnp.einsum("bhtd,bhsd->bhts", q, k), queries[:, None] >= keys
        weigh = jnp.matmul
    scores = jnp.where(seen, scores, -jnp.inf)
    if form.soft == "divide":
        return weigh(jax.nn.softmax(scores, axis), v)
    weight = jnp.exp(scores - jax.lax.stop_gradient(scores.max(axis, keepdims=True)))
    return weigh(weight, v) / weight.sum(axis)[..., None]


def attention(x, b, recipe: Recipe, form: Form):
    B, T, H = recipe.batch, recipe.time, recipe.heads
    if form.heads == "whole":
        q, k, v = linear(x, b["qkv"], form).reshape(B, T, 3, H, -1).transpose(2, 0, 3, 1, 4)
    else:
        if form.heads == "three":
            w, bias = b["qkv"]
            parts = zip(jnp.split(w, 3, 1), jnp.split(bias, 3) if bias is not None else (None,) * 3)
            qkv = [linear(x, p, form) for p in parts]
        else:
            qkv = jnp.split(linear(x, b["qkv"], form), 3, -1)
        q, k, v = (t.reshape(B, T, H, -1).transpose(0, 2, 1, 3) for t in qkv)
    size = form.block or T
    one = jax.checkpoint(attend, static_argnums=(3, 4)) if form.scores == "again" else attend
    blocks = [one(q[:, :, i : i + size], k[:, :, : i + size], v[:, :, : i + size], i, form) for i in range(0, T, size)]
    y = jnp.concatenate(blocks, 2).transpose(0, 2, 1, 3).reshape(B * T, -1)
    return linear(y, b["proj"], form)


def transformer_block(h, b, recipe: Recipe, form: Form):
    h = h + attention(layer_norm(h, b["ln1"], form), b, recipe, form)
    return h + linear(gelu(linear(layer_norm(h, b["ln2"], form), b["fc"], form), form), b["out"], form)


def cross_entropy(x, wte, y, form: Form):
    """Summed over the tokens x (n, C) with targets y (n,)."""
    if form.head == "gather":
        logits = x @ wte.T
        return (jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, y[:, None], 1)[:, 0]).sum()
    axis = 0 if form.logits == "tall" else 1
    logits, target = (wte @ x.T, y[None]) if form.logits == "tall" else (x @ wte.T, y[:, None])
    top = jax.lax.stop_gradient(logits.max(axis, keepdims=True))
    picked = jnp.where(jax.lax.broadcasted_iota(y.dtype, logits.shape, axis) == target, logits, 0)
    return (jnp.log(jnp.exp(logits - top).sum(axis)) + top.reshape(-1) - picked.sum(axis)).sum()


def loss_of_rows(p, rows, y, recipe: Recipe, form: Form):
    """The loss after the rows (B·T, C) that the embedding gave."""
    B, T, C = recipe.batch, recipe.time, recipe.width
    h = (rows.reshape(B, T, C) + p["wpe"][:T]).reshape(B * T, C)
    block = functools.partial(transformer_block, recipe=recipe, form=form)
    block = jax.checkpoint(block) if form.block_again == "yes" else block
    for b in p["h"]:
        h = block(h, b)
    h, y, n = layer_norm(h, p["lnf"], form), y.reshape(-1), form.chunk
    if not n:
        return cross_entropy(h, p["wte"], y, form) / y.size
    chunk = jax.checkpoint(lambda total, xy: (total + cross_entropy(xy[0], p["wte"], xy[1], form), None))
    return jax.lax.scan(chunk, jnp.zeros((), h.dtype), (h.reshape(-1, n, C), y.reshape(-1, n)))[0] / y.size


def value_and_grad(p, x, y, recipe: Recipe, form: Form):
    x = x.reshape(-1)
    if form.embed == "wte":
        return jax.value_and_grad(lambda p: loss_of_rows(p, p["wte"][x], y, recipe, form))(p)
    loss, (g, g_rows) = jax.value_and_grad(loss_of_rows, argnums=(0, 1))(p, p["wte"][x], y, recipe, form)
    return loss, {**g, "wte": g["wte"].at[x].add(g_rows)}


def folded_adamw(p, g, m, v, t, lr, recipe: Recipe):
    """adamw of jax_plain.py with one division per weight: lr·m̂ / (√v̂ + eps) = lr'·m / (√v + eps')."""
    b1, b2 = recipe.b1, recipe.b2
    g = clipped(g, recipe)
    m = jax.tree.map(lambda a, b: b1 * a + (1 - b1) * b, m, g)
    v = jax.tree.map(lambda a, b: b2 * a + (1 - b2) * b * b, v, g)
    root = jnp.sqrt(1 - b2**t)
    rate, eps = lr * root / (1 - b1**t), recipe.eps * root

    def moved(w, a, b):
        return w * (1 - lr * (recipe.decay if w.ndim > 1 else 0.0)) - rate * a / (jnp.sqrt(b) + eps)

    return jax.tree.map(moved, p, m, v), m, v


def step_of(recipe: Recipe, form: Form) -> Callable:
    """(p, m, v, t, lr, x, y) -> (p, m, v, loss); the first three are donated."""

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def step(p, m, v, t, lr, x, y):
        loss, g = value_and_grad(p, x, y, recipe, form)
        update = folded_adamw if form.update == "folded" else adamw
        return *update(p, g, m, v, t, lr, recipe), loss

    return step


def changed(form: Form, text: str) -> Form:
    """`block=128,head=chain` over a form."""
    given = dict(item.split("=") for item in text.split(",") if item)
    return replace(form, **{name: type(getattr(form, name))(value) for name, value in given.items()})


if __name__ == "__main__":
    recipe, given = from_command_line(__doc__ or "", extra=(("--form", dict(default="")),))
    form = changed(best(recipe), given.form)
    measure("jax-tuned", step_of(recipe, form), recipe, form=str(form))
