"""scan: one body, many iterations, one compiled loop; its pullback is a scan too, so every order follows.

The forward keeps the carry that enters each iteration and nothing else; the pullback walks the iterations backwards, runs
the body again on each kept carry and pulls it back. At level L the loop over values one level down is again this function,
until no level is left and `jax.lax.scan` runs it. Outside a trace a compiled loop would be compiled anew for every call, so
there it is a Python loop of `checkpoint(body)`: the same meaning and the same memory.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer

from ..lib.errors import OperandError
from ..ops import add, astype, index, stack, unstack
from ..ops.rule import is_float
from .checkpoint import checkpoint, rerun_node, snapshot
from .collect import Collector
from .graph import ORDER, WATCHERS, Tensor, level_of, lift, plain, strip, tracked_leaves, zeros
from .random import KEYS, Draws
from .scope import machinery, setting
from .walk import COLLECT, closed_over, walk


def scan(f: Callable, init, xs=None, length: int | None = None, reverse: bool = False) -> tuple[Any, Any]:
    """`carry, ys = scan(f, init, xs)` with `carry, y = f(carry, x)`, as jax.lax.scan. Differentiable to any order.

    init, xs: trees of arrays; every array of xs has the iterations as its leading axis. Keys drawn in the body differ by
    iteration. The body may close over tracked values (weights): they get their cotangents.
    """
    for x in jax.tree.leaves(xs):
        if not getattr(x, "shape", ()):
            raise OperandError(f"scan: xs holds {x!r}, which has no leading axis to walk along; close over it, or stack it into an array")
    lengths = {x.shape[0] for x in jax.tree.leaves(xs)} | ({length} if length is not None else set())
    if len(lengths) != 1:
        raise OperandError(f"scan needs one length; the leading axes of xs and length= say {sorted(lengths)}")
    n = lengths.pop()
    step = by_iteration(f)
    init = arrays(init)
    if n and not traced((init, xs)):
        return unrolled(step, init, xs, n, reverse)
    return scan_values(step, init, (jnp.arange(n), xs), reverse)


def by_iteration(f: Callable) -> Callable:
    """The body as `step(carry, (i, x))`: i is folded into the keys, and what it draws counts as drawn by the scan's caller."""
    outside = KEYS.get()
    used = frozenset(outside.used) if outside is not None else frozenset()

    def step(carry, numbered):
        i, x = numbered
        draws = KEYS.get()
        if draws is None or outside is None:
            return pair(f(carry, x))
        inside = Draws(jax.random.fold_in(draws.root, i), draws.first_example, used)
        with setting(KEYS, inside):
            result = pair(f(carry, x))
        outside.used |= inside.used
        return result

    return step


def pair(result) -> tuple:
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise OperandError(f"scan: the body gave a {type(result).__name__}; expected a pair (carry, y)")
    return tuple(result)


def arrays(tree):
    """Python numbers as arrays."""
    return jax.tree.map(lambda x: x if hasattr(x, "dtype") else jnp.asarray(x), tree)


def matched(before, after):
    """The carry that enters the body, held against the one that leaves it. A Python number takes on the body's dtype."""
    flat, tree = jax.tree.flatten(before)
    if jax.tree.structure(after) != tree:
        raise OperandError(f"scan: the carry enters the body with structure {tree} and leaves it with {jax.tree.structure(after)}")
    for i, (x, y) in enumerate(zip(flat, jax.tree.leaves(after))):
        weak = getattr(plain(x), "weak_type", False)
        if x.shape != y.shape or (x.dtype != y.dtype and not weak):
            raise OperandError(f"scan: carry {i} enters the body as {x.dtype}{list(x.shape)} and leaves it as {y.dtype}{list(y.shape)}")
        flat[i] = x if x.dtype == y.dtype else astype(x, y.dtype)
    return tree.unflatten(flat)


def traced(tree) -> bool:
    """Is a program being traced, or a batch mapped, around this call?"""
    return any(isinstance(plain(x), Tracer) for x in [jnp.zeros(()), *jax.tree.leaves(tree)])


def rows_of(x, n: int) -> Sequence:
    """x taken apart by one op, whose cotangent is one array; above 128 rows, where that op takes long to compile, row by row."""
    return unstack(x) if n <= 128 else [index(x, i) for i in range(n)]


def unrolled(step: Callable, carry, xs, n: int, reverse: bool):
    rows = []
    flat, tree = jax.tree.flatten(xs)
    with machinery():
        columns = [rows_of(x, n) for x in flat]
    for i in reversed(range(n)) if reverse else range(n):
        x = tree.unflatten([column[i] for column in columns])
        after, y = checkpoint(step, row=(i, n))(carry, (jnp.int32(i), x))
        after = arrays(after)
        matched(carry, after)
        carry = after
        rows.append(y)
    if reverse:
        rows.reverse()
    with machinery():
        return carry, jax.tree.map(lambda *ys: stack(ys), *rows)


def scan_values(step: Callable, init, xs, reverse: bool):
    """scan, one level at a time."""
    run, floor = snapshot(), next(ORDER)
    level, closed, init = watched_by(step, run, init, xs, floor)
    if not level:
        return lax.scan(lambda carry, x: run(step, carry, x), init, xs, reverse=reverse)

    def forward(carry, x):
        after, y = strip(run(step, carry, x), level)
        return after, (y, carry)

    below_init, below_xs = strip(init, level), strip(xs, level)
    after, (ys, carries) = scan_values(forward, below_init, below_xs, reverse)
    outputs, tree = jax.tree.flatten((after, ys))
    n_carry = len(jax.tree.leaves(after))
    inputs = jax.tree.leaves((init, xs))
    inputs_float = [i for i, x in enumerate(inputs) if is_float(x)]
    carry_float = [i for i in inputs_float if i < n_carry]

    def pull(y_bars: list) -> list:
        bars = [zeros_like(y) if bar is None and is_float(y) else bar for bar, y in zip(y_bars, outputs)]
        ys_at = [i for i in range(n_carry, len(bars)) if bars[i] is not None]
        collector = COLLECT.get()

        def back(state, given):
            """Pull one iteration back: (cotangent of the carry after it, sums so far) -> (of the carry before it, sums)."""
            carry_bars, closed_bars = state
            carry, x, y_bars = given
            floor = next(ORDER)
            lifted = lift((carry, x), level)
            with setting(WATCHERS, WATCHERS.get() + 1):
                again = jax.tree.leaves(run(step, *lifted))
            pairs = [*zip([again[i] for i in carry_float], carry_bars), *zip([again[i] for i in ys_at], y_bars)]
            pairs = [(t, bar) for t, bar in pairs if type(t) is Tensor and t.level == level]
            inner = collector and Collector(collector.stat, collector.where, {})
            with setting(COLLECT, inner):
                end = walk([t for t, _ in pairs], [bar for _, bar in pairs], floor)
            input_bars = [end[t.node][0] if t.node in end else zeros(t.node.avals[0]) for t in tracked_leaves(lifted) if t.level == level]
            before, x_bars = input_bars[: len(carry_float)], input_bars[len(carry_float) :]
            closed_bars = [
                bar if node not in end or end[node][i] is None else add(bar, end[node][i]) for bar, (node, i) in zip(closed_bars, closed)
            ]
            return (before, closed_bars), (x_bars, inner.out if inner else {})

        start = ([bars[i] for i in carry_float], [zeros(node.avals[i]) for node, i in closed])
        (first, closed_bars), (x_bars, rows) = scan_values(back, start, (carries, below_xs, [bars[i] for i in ys_at]), not reverse)
        for label, values in rows.items():
            collector.put(label, values)
        input_bars = dict(zip(inputs_float, [*first, *x_bars]))
        return [input_bars.get(i) if parent else None for i, parent in enumerate(parents)] + list(closed_bars)

    parents = [(t.node, t.index) if type(t) is Tensor and t.level == level else None for t in inputs]
    return tree.unflatten(rerun_node("scan", outputs, level, parents + closed, pull, (carries, below_xs)))


def watched_by(step: Callable, run: Callable, init, xs, floor: int) -> tuple[int, list, Any]:
    """By a dry run: the highest level that the loop touches, what its body closes over there, and init in the body's dtypes."""
    found: dict[str, Any] = {}

    def look(carry, x):
        after, y = run(step, carry, x)
        outputs = tracked_leaves((after, y))
        found["level"] = level_of(outputs)
        found["closed"] = closed_over([t for t in outputs if t.level == found["level"]], floor)
        return jax.tree.map(plain, after)

    row = lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype, weak_type=getattr(plain(x), "weak_type", False))
    init = matched(init, jax.eval_shape(look, jax.tree.map(plain, init), jax.tree.map(row, xs)))
    level = max(level_of((init, xs)), found["level"])
    return level, found["closed"] if level == found["level"] else [], init


def zeros_like(x):
    return jnp.zeros(x.shape, x.dtype)
