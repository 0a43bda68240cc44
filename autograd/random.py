"""Randomness bound to identity: (run seed, step, scope, iteration of each enclosing scan, purpose).

A recomputation, another rule, another split of the batch or a resumed run therefore draws the same numbers.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from ..lib.errors import KeyIdentityError
from ..lib.keys import named_key, root_key
from .scope import SCOPE, setting


class Draws:
    """The root key in force, the index of the batch's first example, and the identities that were drawn under it."""

    __slots__ = ("root", "first_example", "used")

    def __init__(self, root: jax.Array, first_example=0, used: frozenset[str] | set[str] = frozenset()):
        self.root, self.first_example, self.used = root, first_example, set(used)

    def copy(self, root: jax.Array | None = None) -> "Draws":
        return Draws(self.root if root is None else root, self.first_example, self.used)


KEYS: ContextVar[Draws | None] = ContextVar("keys", default=None)


@contextlib.contextmanager
def keys(seed: Any, step: Any = 0, first_example: Any = 0) -> Iterator[None]:
    """`with pb.keys(seed, step):` inside the step (around a compiled call it would be baked in, so there it does not reach).

    seed, step: integers, traced or not. first_example: global index of the first example of this batch, for a batch that
    is a part of a larger one.
    """
    with setting(KEYS, Draws(root_key(seed, step), first_example)):
        yield


def draws() -> Draws:
    current = KEYS.get()
    if current is None:
        where = SCOPE.get()
        raise KeyIdentityError(
            f"a random draw{f' in {where}' if where else ''} without keys; open `with pb.keys(seed, step):` inside the compiled step"
        )
    if not isinstance(current.root, Tracer) and isinstance(jnp.zeros(()), Tracer):
        raise KeyIdentityError(
            "pb.keys was opened around a function that JAX is compiling here, which would draw the same numbers at every call; "
            "open `with pb.keys(seed, step):` inside it, with seed and step as its arguments"
        )
    return current


def key(purpose: str) -> jax.Array:
    """The key of this purpose in this scope. A second draw of one identity is an error: give it a purpose of its own."""
    current = draws()
    identity = f"{SCOPE.get()}:{purpose}"
    if identity in current.used:
        raise KeyIdentityError(
            f"second draw of key {purpose!r} in scope {SCOPE.get()!r} would give the same numbers; name it apart, e.g. key('{purpose}.2')"
        )
    current.used.add(identity)
    return named_key(current.root, identity)
