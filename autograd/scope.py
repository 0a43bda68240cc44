"""Where am I? A scope is the dotted path of the module that is running; every node, key and XLA op carries it."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import jax

SCOPE: ContextVar[str] = ContextVar("scope", default="")


@contextlib.contextmanager
def setting(variable: ContextVar, value) -> Iterator[None]:
    """Give a context variable a value inside the `with` block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextlib.contextmanager
def scope(name: str) -> Iterator[None]:
    """`with pb.scope("head"):` names what is recorded inside, below the scope around it."""
    outer = SCOPE.get()
    with setting(SCOPE, f"{outer}.{name}" if outer else name), jax.named_scope(name):
        yield


MACHINERY = "(loop)"


@contextlib.contextmanager
def machinery() -> Iterator[None]:
    """Around what an eager loop records to take its inputs apart and to put its outputs together. A compiled loop has no such
    ops, so statistics leave them out."""
    with setting(SCOPE, SCOPE.get() + MACHINERY):
        yield


@contextlib.contextmanager
def backward_scope(path: str) -> Iterator[None]:
    """The walk works in the scope of the node that it pulls through, marked `/backward`."""
    with setting(SCOPE, f"{path}/backward" if path else "backward"), jax.named_scope(f"{path}/backward" if path else "backward"):
        yield
