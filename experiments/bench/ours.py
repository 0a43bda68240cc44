"""Our side of `bench gpt2-step`: the recipe, weights and tokens of the rivals through Pullback's model, optimiser and compile.

usage: python -m pullback.experiments.bench.ours [--shape gpt2-124m|shakespeare-char] [--batch 4 --time 64 ...]
"""

from typing import Any

import jax
import jax.numpy as jnp

from ... import nn
from ...autograd import compile, value_and_grad
from ...models.gpt2 import GPT2, GPT2Config
from .rivals.recipe import from_command_line, run, tokens, weights


def named(tree: dict[str, Any]) -> dict[str, jax.Array]:
    """The rivals' weights under our names; matrices turn from (in, out) to (out, in)."""
    params = {"wte.weight": tree["wte"], "wpe.weight": tree["wpe"]}
    norms = {"ln": tree["lnf"]}
    linears = {}
    for i, block in enumerate(tree["h"]):
        norms |= {f"blocks.{i}.ln1": block["ln1"], f"blocks.{i}.ln2": block["ln2"]}
        linears |= {f"blocks.{i}.attn.qkv": block["qkv"], f"blocks.{i}.attn.proj": block["proj"]}
        linears |= {f"blocks.{i}.mlp.fc": block["fc"], f"blocks.{i}.mlp.proj": block["out"]}
    params |= {f"{name}.scale": scale for name, (scale, _) in norms.items()}
    params |= {f"{name}.weight": matrix.T for name, (matrix, _) in linears.items()}
    params |= {f"{name}.bias": bias for name, (_, bias) in {**norms, **linears}.items() if bias is not None}
    return {name: jnp.asarray(value) for name, value in params.items()}


def main() -> None:
    recipe, _ = from_command_line(__doc__ or "")
    jax.config.update("jax_enable_compilation_cache", False)
    config = GPT2Config(
        vocab=recipe.vocab, context=recipe.context, layers=recipe.layers, heads=recipe.heads, width=recipe.width, bias=recipe.bias
    )
    model = jax.eval_shape(lambda key: GPT2.init(key, config), jax.random.key(0))
    params = named(weights(recipe))
    x, y = map(jnp.asarray, tokens(recipe))

    def optimiser(lr) -> nn.Optimiser:
        adamw = nn.adamw(lr, recipe.b1, recipe.b2, recipe.eps, recipe.decay)
        return nn.chain(nn.clip_by_global_norm(recipe.clip), adamw) if recipe.clip else adamw

    def update(params, state, lr, x, y):
        loss, grads = value_and_grad(lambda model: model.loss(x, y))(nn.with_parameters(model, params))
        updates, state = optimiser(lr).update(grads, state, params)
        return nn.apply_updates(params, updates), state, loss

    step = compile(update, donate=(0, 1))
    state, lr = optimiser(jnp.float32(recipe.lr)).init(params), jnp.float32(recipe.lr)
    plan = step.plan(params, state, lr, x, y)

    def advance(i: int) -> float:
        nonlocal params, state
        params, state, loss = jax.block_until_ready(step(params, state, lr, x, y))
        return float(loss)

    cost = dict(compile_s=plan.compile_seconds, temp_bytes=plan.temp, expanded=len(plan.expanded))
    run("pullback", recipe, advance, dict(jax=jax.__version__), **cost)


if __name__ == "__main__":
    main()
