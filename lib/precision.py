"""Which numbers a computation uses: the dtype of activations and the precision of float32 products.

Parameters and optimiser state stay float32 under every policy; `Policy.compute` is what activations and weights are cast
to on their way into a layer. Reductions widen by `accumulator`.
"""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp

from .errors import UnknownName, near


class Policy(NamedTuple):
    """compute: dtype of activations; product: `precision` of matrix products of float32 operands."""

    name: str
    compute: str
    product: str


POLICIES = {
    "float32": Policy("float32", "float32", "highest"),
    "tf32": Policy("tf32", "float32", "default"),
    "bfloat16": Policy("bfloat16", "bfloat16", "default"),
    "float16": Policy("float16", "float16", "default"),  # training wants a loss scale: nn.LossScaling
}

POLICY = jax.make_user_context("float32")  # part of every jax.jit key: no program outlives a change of policy


def policy() -> Policy:
    """The policy in force."""
    return POLICIES[POLICY.value]


@contextlib.contextmanager
def precision(name: str) -> Iterator[Policy]:
    """`with precision("bfloat16"):` for everything inside, compiled programs included."""
    if name not in POLICIES:
        raise UnknownName(f"no precision policy {name!r}" + near(name, POLICIES))
    with POLICY(name):
        yield POLICIES[name]


def accumulator(dtype) -> jnp.dtype:
    """The dtype that sums over `dtype` are held in: at least float32; float64 stays float64."""
    return jnp.promote_types(dtype, jnp.float32)
