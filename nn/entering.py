"""Scopes: while a module's method runs, the scope is the path of the module.

The owner names what it owns, at the time of the call: the nearest module that is running and holds me, by identity, gives me
its own path and my name below it. No path is kept in a module, so a module shared by two owners has two scopes (and one
parameter name), calls may skip a level, and any public method is a way in. What nobody holds is named by its class.
"""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

import jax
from jax.core import Tracer

from ..autograd.graph import plain
from ..autograd.scope import SCOPE
from .reflection import descendants, joined


class Running(NamedTuple):
    """A module whose method runs, its path, and what ran around it."""

    module: Any
    path: str
    outer: "Running | None"


RUNNING: ContextVar[Running | None] = ContextVar("running modules", default=None)


def entering(method: Callable) -> Callable:
    """The method, run in the scope of its module."""

    @functools.wraps(method)
    def run(self, *args, **kwargs):
        outer, scope = RUNNING.get(), SCOPE.get()
        if outer is not None:
            if outer.module is self:
                return method(self, *args, **kwargs)
            if not scope.startswith(outer.path):
                outer = None  # a compiled step starts from a blank scope: who called it does not count
        path = path_of(self, scope, outer)
        running, scoped = RUNNING.set(Running(self, path, outer)), SCOPE.set(path)
        try:
            name = path.removeprefix(scope).removeprefix(".")
            if name and any([isinstance(plain(x), Tracer) for x in (*args, *kwargs.values())]):  # XLA's names are there while tracing only
                with jax.named_scope(name):
                    return method(self, *args, **kwargs)
            return method(self, *args, **kwargs)
        finally:
            SCOPE.reset(scoped)
            RUNNING.reset(running)

    return run


def path_of(m, scope: str, outer: Running | None) -> str:
    """The path of m, given the scope in force and the modules that are running."""
    owner = outer
    while owner is not None:
        if owner.module is m:  # something that it called has called it back
            return owner.path
        name = descendants(owner.module).get(id(m))
        if name is not None:
            return joined(scope if owner is outer else owner.path, name)
        owner = owner.outer
    return scope if outer is None else joined(scope, type(m).__name__.lower())
