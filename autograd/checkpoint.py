"""checkpoint: keep a function's arguments instead of its residuals, and run it again when its pullback is wanted."""

import contextvars
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..lib.precision import POLICY
from ..ops import barrier
from ..ops.op import RULES, aval_of, is_float
from .collect import Row
from .graph import LIVE, ORDER, WATCHERS, Node, Rerun, Tensor, level_of, plain, strip
from .random import KEYS
from .scope import setting
from .walk import COLLECT, EXPANDED, closed_over, walk


def snapshot() -> Callable:
    """`run(f, *args)` calls f under today's rules, policy, scope, keys and live levels, whenever that is.

    Who collects, counts or watches is the business of the time of the call, so those come from there.
    """
    context, table, policy, draws = contextvars.copy_context(), RULES.value, POLICY.value, KEYS.get()
    draws = draws and draws.copy()

    def run(f: Callable, *args):
        now: dict[contextvars.ContextVar, Any] = {variable: variable.get() for variable in (COLLECT, EXPANDED, WATCHERS)}
        levels = LIVE.get()

        def inside():
            for variable, value in now.items():
                variable.set(value)
            LIVE.set(LIVE.get() | levels)
            KEYS.set(draws and draws.copy())
            with RULES(table), POLICY(policy):
                return f(*args)

        return context.copy().run(inside)

    return run


def rerun_node(name: str, outputs: Sequence, level: int, parents: Sequence, pull: Callable, kept) -> list:
    """Tensors of a node whose pullback is the function `pull(y_bars)`, written in ops.

    outputs: values one level down. kept: what `pull` holds on to, for the ledger.
    """
    avals = tuple(aval_of(x) for x in outputs)
    deeper = any(type(x) is Tensor for x in outputs)
    node = Node(Rerun(name, pull), None, {}, kept, None, tuple(parents), avals, True, deeper)
    return [Tensor(x, node, i, level) if is_float(x) else x for i, x in enumerate(outputs)]


def checkpoint(f: Callable, row: tuple[int, int] | None = None) -> Callable:
    """f, with nothing kept but its arguments: the pullback runs it again, with the same rules, keys and policy.

    What f closes over gets its cotangent like an argument. Costs one more forward of f; saves all its residuals.
    row: (i, n) when this is iteration i of n, for the statistics that are collected inside.
    """

    def wrapped(*args, **kwargs):
        run, floor = snapshot(), next(ORDER)
        call = functools.partial(f, **kwargs)
        outputs, tree = jax.tree.flatten(run(spending(call), *args))
        level = level_of(outputs)
        if not level:
            return tree.unflatten(outputs)
        at = [i for i, x in enumerate(outputs) if type(x) is Tensor and x.level == level]
        parents = closed_over([outputs[i] for i in at], floor)
        values = [strip(x, level) for x in outputs]
        del outputs  # the first recording dies here

        def pull(y_bars: list) -> list:
            floor = next(ORDER)
            with setting(WATCHERS, WATCHERS.get() + 1):
                again = jax.tree.leaves(run(lambda *args: call(*held_until(y_bars, args)), *args))
            collector = COLLECT.get()
            with setting(COLLECT, Row(collector, *row) if row and collector is not None else collector):
                end = walk([again[i] for i in at], [y_bars[i] for i in at], floor)
            return [end[node][index] if node in end else None for node, index in parents]

        return tree.unflatten(rerun_node("checkpoint", values, level, parents, pull, [x for x in jax.tree.leaves(args) if is_float(x)]))

    return wrapped


def held_until(y_bars: list, args: tuple) -> tuple:
    """The arguments, behind one barrier with the cotangents.

    Else XLA would recognise the second run and merge it with the first, or do it long before it is wanted, and keep the residuals.
    """
    leaves, tree = jax.tree.flatten(args)
    at = [
        i for i, x in enumerate(leaves) if type(x) is Tensor or (isinstance(x, Array) and not jnp.issubdtype(x.dtype, jax.dtypes.extended))
    ]
    for i, x in zip(at, barrier(*[leaves[i] for i in at], *[plain(bar) for bar in y_bars if bar is not None])):
        leaves[i] = x
    return tree.unflatten(leaves)


def spending(f: Callable) -> Callable:
    """f, whose draws count as draws of the caller too: a later draw of the same identity is refused there."""
    outside = KEYS.get()

    def run(*args):
        result = f(*args)
        inside = KEYS.get()
        if outside is not None and inside is not None:
            outside.used |= inside.used
        return result

    return run
