"""Our side of `bench scan`: the rival's blocks, operands and value through `pb.scan`.

usage: python -m pullback.experiments.bench.ours_scan [--shape gpt2-124m|shakespeare-char] [--batch 4 --time 64 ...]
"""

import jax
import jax.numpy as jnp
import numpy as np

from ... import nn, ops
from ...autograd import compile, scan, value_and_grad
from ...models.gpt2 import Block, GPT2Config
from .ours import named
from .rivals.recipe import from_command_line, run, weights


def main() -> None:
    recipe, _ = from_command_line(__doc__ or "")
    config = GPT2Config(
        vocab=recipe.vocab, context=recipe.context, layers=recipe.layers, heads=recipe.heads, width=recipe.width, bias=recipe.bias
    )
    block = jax.eval_shape(lambda key: Block.init(key, config), jax.random.key(0))
    params = named(weights(recipe))
    stacked = {name: jnp.stack([params[f"blocks.{i}.{name}"] for i in range(recipe.layers)]) for name in nn.named_parameters(block)}
    h, r = np.random.default_rng(recipe.seed + 2).standard_normal((2, recipe.batch, recipe.time, recipe.width), np.float32)

    def value(stacked, h, r):
        last, _ = scan(lambda h, layer: (nn.with_parameters(block, layer)(h), None), h, stacked)
        return ops.mean(ops.mul(last, r))

    program = compile(value_and_grad(value, argnums=(0, 1)))
    h, r = jnp.asarray(h), jnp.asarray(r)
    plan = program.plan(stacked, h, r)
    advance = lambda i: float(jax.block_until_ready(program(stacked, h, r))[0])
    run("pullback", recipe, advance, dict(jax=jax.__version__), compile_s=plan.compile_seconds, temp_bytes=plan.temp)


if __name__ == "__main__":
    jax.config.update("jax_enable_compilation_cache", False)
    main()
