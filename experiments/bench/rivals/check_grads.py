"""Rival: how often `jax.test_util.check_grads`, with its defaults, rejects a right and several wrong derivatives.

usage: python check_grads.py [--seeds 100]
"""

import argparse
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.test_util import check_grads

N = 100  # elements
OFF = 37  # the element that is off


def with_slope(f, slope):
    """f whose derivative is said to be `slope(x)`."""
    wrapped = jax.custom_vjp(f)
    wrapped.defvjp(lambda x: (f(x), x), lambda x, y_bar: (y_bar * slope(x),))
    return wrapped


def erf_slope(x):
    return 0.5 * (1 + jax.lax.erf(x / math.sqrt(2))) + x * jnp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def gelu_slope(x):
    return jax.vmap(jax.grad(lambda x: jax.nn.gelu(x, approximate=True)))(x)


tanh_slope = lambda x: 1 - jnp.tanh(x) ** 2
gelu = lambda x: jax.nn.gelu(x, approximate=True)

SUBJECTS = {
    "right": (jnp.tanh, tanh_slope),
    "uniform 1e-6": (jnp.tanh, lambda x: tanh_slope(x) * (1 + 1e-6)),
    "one element 1e-5": (jnp.tanh, lambda x: tanh_slope(x).at[OFF].multiply(1 + 1e-5)),
    "gelu, right": (gelu, gelu_slope),
    "gelu, erf slope": (gelu, erf_slope),
}


def rejected(f, slope, dtype: str, seeds: int) -> int:
    count, wrapped = 0, with_slope(f, slope)
    for seed in range(seeds):
        x = jnp.asarray(np.random.default_rng(1000 + seed).normal(size=N), dtype)
        try:
            check_grads(wrapped, (x,), order=1, modes=("rev",))
        except AssertionError:
            count += 1
    return count


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=100)
    seeds = parser.parse_args().seeds
    table = {}
    for dtype in ("float32", "float64"):
        jax.config.update("jax_enable_x64", dtype == "float64")
        table[dtype] = {name: rejected(f, slope, dtype, seeds) for name, (f, slope) in SUBJECTS.items()}
    print(json.dumps(table))
