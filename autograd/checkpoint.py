"""checkpoint: keep a function's arguments instead of its residuals, and run it again when its pullback is wanted."""

import contextvars
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import Array, lax
from jax.core import Tracer

from ..lib.precision import POLICY
from ..ops.rule import RULES, aval_of, is_float
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

    What f closes over gets its cotangent like an argument. Costs one more forward of f; saves all its residuals. In a compiled
    program the second run waits for the cotangents through its arguments: what f computes from closed-over values alone does not.
    row: (i, n) when this is iteration i of n, for the statistics that are collected inside.
    """

    def wrapped(*args, **kwargs):
        run, floor = snapshot(), next(ORDER)
        call = lambda args, kwargs: f(*args, **kwargs)
        outputs, tree = jax.tree.flatten(run(spending(call), args, kwargs))
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
                again = jax.tree.leaves(run(call, *held_until(y_bars, (args, kwargs))))
            collector = COLLECT.get()
            with setting(COLLECT, Row(collector, *row) if row and collector is not None else collector):
                end = walk([again[i] for i in at], [y_bars[i] for i in at], floor)
            return [end[node][index] if node in end else None for node, index in parents]

        kept = [x for x in jax.tree.leaves((args, kwargs)) if is_float(x)]
        return tree.unflatten(rerun_node("checkpoint", values, level, parents, pull, kept))

    return wrapped


def held_until(y_bars: list, arguments):
    """The arguments, while tracing behind one barrier with the cotangents.

    Else XLA would recognise the second run and merge it with the first, or do it long before it is wanted, and keep the residuals.
    """
    leaves, tree = jax.tree.flatten(arguments)
    values, bars = list(map(plain, leaves)), [plain(bar) for bar in y_bars if bar is not None]
    at = [i for i, value in enumerate(values) if isinstance(value, Array)]
    if not any(isinstance(x, Tracer) for x in (*values, *bars)):
        return arguments
    held, _ = lax.optimization_barrier(([values[i] for i in at], bars))
    for i, value in zip(at, held):
        leaves[i] = standing_for(leaves[i], value)
    return tree.unflatten(leaves)


def standing_for(x, value):
    """`value` in the place of the array under x: tracked at the levels of x, and its cotangents are those of x."""
    if type(x) is not Tensor:
        return value
    node = Node(Rerun("barrier", lambda y_bars: y_bars), None, {}, None, None, ((x.node, x.index),), (x.node.avals[x.index],), True, False)
    return Tensor(standing_for(x.value, value), node, 0, x.level)


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
