"""Small graphs whose gradients are known from analysis: what a mutant of the walk is judged by.

Each is a function of the walk under test and of a number x. It gives what came out and what should have come; an error that
is due is part of what came out.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ... import ops
from ...autograd.checkpoint import checkpoint
from ...autograd.explore import watch
from ...autograd.graph import Rerun, Tensor, leaf, plain, recording
from ...autograd.scope import SCOPE, scope, setting
from ...autograd.walk import COLLECT, EXPANDED, LEDGER, LEVELS, Ledger
from ...lib.errors import PullbackError
from ...ops.op import Op
from ...ops.rule import Rule

Walk = Callable[..., dict]
GRAPHS: list[Callable[[Walk, Any], tuple[Any, Any]]] = []


def graph(f: Callable) -> Callable:
    GRAPHS.append(f)
    return f


def recorded(f: Callable, *xs) -> tuple[list[Tensor], Any]:
    """Leaves at the values xs, and f of them, recorded at a level of their own."""
    level = next(LEVELS)
    leaves = [leaf(jnp.asarray(x), level) for x in xs]
    with recording(level):
        return leaves, f(*leaves)


def bars(end: dict, leaves: list[Tensor]) -> list:
    """The cotangents that arrived; "nothing" where none did."""
    return [end[x.node][x.index] if x.node in end else "nothing" for x in leaves]


def said(f: Callable) -> str:
    """The kind of error that a call ends in."""
    try:
        f()
    except PullbackError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


@graph
def fan_out(walk, x):
    """x·x + 3x: one value read three times."""
    leaves, y = recorded(lambda x: x * x + 3.0 * x, x)
    return bars(walk([y], [1.0 + x]), leaves), [(2 * x + 3) * (1 + x)]


@graph
def diamond(walk, x):
    """a = 2x, b = a², a + b: the cotangent of a is complete before it is pulled."""

    def f(x):
        a = x * 2.0
        return a + a * a

    leaves, y = recorded(f, x)
    end = walk([y], [1.0])
    return [bars(end, leaves), len(end)], [[2 + 8 * x], 1]


@graph
def long_and_short(walk, x):
    """x reaches the sum at once and through a chain: order of birth, not of distance, decides."""

    def f(x):
        y = x
        for _ in range(5):
            y = ops.tanh(y)
        return x * y + ops.exp(y)

    leaves, y = recorded(f, x)
    values, slope = [x], 1.0
    for _ in range(5):
        values.append(jnp.tanh(values[-1]))
        slope = slope * (1 - values[-1] ** 2)
    return bars(walk([y], [1.0]), leaves), [values[-1] + (x + jnp.exp(values[-1])) * slope]


@graph
def two_leaves(walk, x):
    """x/y, and a leaf that nothing reads."""
    leaves, z = recorded(lambda x, y, unread: x / y, x, 2.0 + x, 5.0)
    return bars(walk([z], [3.0]), leaves), [3 / (2 + x), -3 * x / (2 + x) ** 2, "nothing"]


@graph
def several_outputs(walk, x):
    """Of three slices two are used, one of them twice: zeros for the third."""

    def f(x):
        a, _, c = ops.unstack(x)
        return a * c + c

    leaves, y = recorded(f, jnp.stack([x, x + 1, x + 2]))
    zero = jnp.zeros_like(x)
    return bars(walk([y], [1.0]), leaves), [jnp.stack([x + 2, zero, x + 1])]


@graph
def several_seeds(walk, x):
    """Two outputs, one of them given twice, one without a seed."""
    leaves, (a, b, c) = recorded(lambda x: (x * x, ops.exp(x), x * 7.0), x)
    return bars(walk([a, b, a, c], [1.0, 2.0, 10.0, None]), leaves), [22 * x + 2 * jnp.exp(x)]


@graph
def an_output_is_a_leaf(walk, x):
    leaves, y = recorded(lambda x: x, x)
    return bars(walk([y], [4.0]), leaves), [4.0]


@graph
def floor(walk, x):
    """Nodes born before the floor are ends, whatever is behind them."""
    level = next(LEVELS)
    a = leaf(jnp.asarray(x), level)
    with recording(level):
        old = a * 3.0
        bound = leaf(jnp.asarray(0.0), level).node.order
        y = ops.exp(old) + a
        end = walk([y], [1.0], floor=bound)
        last = walk([old], [2.0], floor=old.node.order)
    return [bars(end, [old, a]), bars(last, [old, a])], [[jnp.exp(3 * x), 1.0], [2.0, "nothing"]]


@graph
def again(walk, x):
    """A walk leaves the graph as it was, unless it is told to free it."""
    leaves, y = recorded(lambda x: ops.exp(x) * x, x)
    first, second = bars(walk([y], [1.0]), leaves), bars(walk([y], [1.0], free=True), leaves)
    right = [jnp.exp(x) * (1 + x)]
    third = said(lambda: walk([y], [1.0]))
    return [first, second, third[:18], y.node.parents], [right, right, "GraphError: a seco", ()]


@graph
def freed_by_halves(walk, x):
    """What a freed walk did not reach can still be walked."""
    leaves, (y, z) = recorded(lambda x: (ops.exp(x), ops.tanh(x)), x)
    walk([y], [1.0], free=True)
    return bars(walk([z], [1.0]), leaves), [1 - jnp.tanh(x) ** 2]


@graph
def watched(walk, x):
    """Tensors that watch are filled and added to; below a floor they are not."""
    leaves, (a, y) = recorded(lambda x: (a := x * 2.0, a * a), x)
    for one in (*leaves, a):
        watch(one)
    end = walk([y], [1.0])
    walk([y], [1.0])
    walk([y], [1.0], floor=a.node.order)
    return [leaves[0].grad, a.grad, end[a.node][0]], [16 * x, 8 * x, 4 * x]


@graph
def watched_slices(walk, x):
    """Each watches its own output; one that is gone is passed over, one that nothing reached stays empty, or as it was."""
    leaves, (parts, y) = recorded(lambda x: (p := ops.unstack(x), p[0] * p[2]), jnp.stack([x, x + 1, x + 2]))
    first, second = (watch(one) for one in parts[:2])
    watch(parts[2])
    del parts
    walk([y], [1.0])
    empty, second.grad = second.grad, 5.0
    walk([y], [1.0])
    return [first.grad, empty, second.grad, leaves[0].grad], [2 * (x + 2), None, 5.0, None]


@graph
def collected(walk, x):
    """A collector sees every node that is pulled, with its cotangents, the last born first."""
    seen = []
    leaves, y = recorded(lambda x: ops.exp(x * 2.0), x)
    with setting(COLLECT, lambda node, y_bars: seen.append((node.op.name, y_bars[0]))):
        walk([y], [3.0])
    return seen, [("exp", 3.0), ("mul", 3 * jnp.exp(2 * x))]


@graph
def ledger(walk, x):
    """Bytes that are kept, each array once; the walk of a re-run does not count."""
    leaves, y = recorded(lambda x: ops.exp(x) * ops.exp(x + 1.0), jnp.stack([x, x]))
    size = leaves[0].value.dtype.itemsize * 2
    first, second = Ledger(), Ledger()
    with setting(LEDGER, first):
        walk([y], [jnp.ones(2)])
    with setting(LEDGER, second):
        walk([y], [jnp.ones(2)], floor=0)
    return [first.bytes, second.bytes], [{"exp": 2 * size}, {}]


@graph
def second_order(walk, x):
    """The slope of a slope: a primitive's rule is recorded, a fused op goes through its composite."""
    outer, inner = next(LEVELS), next(LEVELS)
    with recording(outer):
        a = leaf(jnp.asarray(x), outer)
        with recording(inner):
            b = leaf(a, inner)
            y, z = ops.exp(b) * b, ops.gelu(b) * ops.softmax(ops.stack([b, b * 0.0]))[0]
        expanded: list[str] = []
        with setting(EXPANDED, expanded):
            first, fused = (walk([out], [jnp.ones_like(x)])[b.node][0] for out in (y, z))
    value = [bars(walk([out], [jnp.ones_like(x)]), [a])[0] for out in (first, fused)]
    return [first.value, value, sorted(expanded)], [jnp.exp(x) * (1 + x), [jnp.exp(x) * (2 + x), gated(x)], ["gelu", "softmax"]]


def gated(x):
    """d²/dx² of gelu(x)·σ(x)."""
    k, c = 0.7978845608028654, 0.044715
    s, u, du, ddu = jax.nn.sigmoid(x), k * (x + c * x**3), k * (1 + 3 * c * x * x), 6 * k * c * x
    t = jnp.tanh(u)
    dt = (1 - t * t) * du
    ddt = (1 - t * t) * ddu - 2 * t * dt * du
    g, dg, ddg = x * (1 + t) / 2, (1 + t) / 2 + x * dt / 2, dt + x * ddt / 2
    ds = s * (1 - s)
    return ddg * s + 2 * dg * ds + g * ds * (1 - 2 * s)


@graph
def tracked_seed(walk, x):
    """The pullback is linear in its seed, and the seed may be tracked."""
    leaves, y = recorded(lambda x: ops.tanh(x) * 2.0, x)
    level = next(LEVELS)
    with recording(level):
        seed = leaf(jnp.ones_like(x), level)
        x_bar = walk([y], [seed])[leaves[0].node][0]
    return bars(walk([x_bar], [3.0]), [seed]), [6 * (1 - jnp.tanh(x) ** 2)]


@graph
def variants(walk, x):
    """At second order a surrogate of a fused op needs an order2 of its own; without one, and without operands, an error says so."""

    def twice(rule: str, watched: bool):
        outer, inner = next(LEVELS), next(LEVELS)
        gelu = ops.gelu
        with recording(outer):
            a = leaf(jnp.asarray(x), outer)
            b = leaf(a if watched else jnp.asarray(x), inner)
            with recording(inner):
                y = gelu(b)
            y.node.rule = gelu.find(rule)
            return walk([y], [a * a])[b.node][0], a

    straight, a = twice("straight_through", True)
    return [bars(walk([straight], [1.0]), [a]), said(lambda: twice("erf_slope", True))[:30]], [[2 * x], "RuleOrderError: rule 'erf_slop"]


@graph
def without_operands(walk, x):
    """A fused op that was recorded before an outer level opened cannot be expanded."""
    leaves, y = recorded(ops.gelu, x)
    outer = next(LEVELS)
    with recording(outer):
        text = said(lambda: walk([y], [leaf(jnp.ones_like(x), outer)]))
    return text[:31], "RuleOrderError: backward of 'ge"


@graph
def scoped_error(walk, x):
    """An error of a rule names the scope."""
    with scope("block"):
        leaves, y = recorded(ops.exp, x)
    y.node.rule = Rule(ops.exp, "bad", lambda res, y_bar: (y_bar, y_bar), "exact", ())
    bare = recorded(ops.exp, x)[1]
    bare.node.rule = y.node.rule
    texts = [said(lambda out=out: walk([out], [jnp.ones_like(x)])) for out in (y, bare)]
    return [text[:25] for text in texts], ["RuleError: block: rule 'b", "RuleError: rule 'bad' of "]


@graph
def recomputed(walk, x):
    """An output that is cheap to have again is not kept: the op that reads it gets it at its turn."""
    w = jnp.stack([jnp.stack([x, x + 1]), jnp.stack([x - 1, x + 2])])

    def f(x, w):
        h = ops.gelu(x)
        return ops.sum(ops.linear(h, w)) + ops.sum(ops.linear(h, w))

    leaves, y = recorded(f, jnp.stack([x, 2 * x]), w)
    compiled = jax.jit(lambda x, w: bars(walk([recorded_at(f, x, w)[1]], [jnp.ones(())]), recorded_at.leaves))
    hs = [ops.gelu(x), ops.gelu(2 * x)]
    slopes = [gelu_slope(x), gelu_slope(2 * x)]
    right = [2 * jnp.stack([slopes[0] * (2 * x - 1), slopes[1] * (2 * x + 3)]), 2 * jnp.stack([jnp.stack(hs), jnp.stack(hs)])]
    return [bars(walk([y], [1.0]), leaves), compiled(jnp.stack([x, 2 * x]), w)], [right, right]


def recorded_at(f, *xs):
    recorded_at.leaves, y = recorded(f, *xs)
    return recorded_at.leaves, y


def gelu_slope(x):
    k, c = 0.7978845608028654, 0.044715
    t = jnp.tanh(k * (x + c * x**3))
    return (1 + t) / 2 + x / 2 * (1 - t * t) * k * (1 + 3 * c * x * x)


@graph
def freed_recomputation(walk, x):
    """What a freed node would be computed again from is gone with it."""
    leaves, (h, y) = recorded(lambda x: (h := ops.gelu(x), h * h), x)
    walk([h], [jnp.ones_like(x)], free=True)
    return said(lambda: walk([y], [jnp.ones_like(x)]))[:18], "GraphError: a seco"


@graph
def integers_in_between(walk, x):
    """Operands that are not tracked get no cotangent, masks and ids included."""
    leaves, y = recorded(lambda x: ops.sum(ops.where(jnp.array([True, False]), ops.take(x, jnp.array([2, 2])), 1.0)), jnp.stack([x, x, x]))
    zero = jnp.zeros_like(x)
    return bars(walk([y], [1.0]), leaves), [jnp.stack([zero, zero, zero + 1])]


@graph
def a_long_chain(walk, x):
    """Depth is no matter."""

    def f(x):
        for _ in range(2000):
            x = x + 1.0
        return x * x

    leaves, y = recorded(f, x)
    return bars(walk([y], [1.0]), leaves), [2 * (x + 2000)]


@graph
def rerun(walk, x):
    """A checkpoint pulls by running its function again; what the function does not use gets nothing."""

    def f(x, unused):
        return checkpoint(lambda x, unused: ops.exp(x) * x)(x, unused)

    leaves, y = recorded(f, x, x + 1)
    return bars(walk([y], [3.0]), leaves)[:1], [3 * jnp.exp(x) * (1 + x)]


@graph
def rerun_without_a_cotangent(walk, x):
    """Of a pullback that gives `None` nothing is passed on."""
    leaves, y = recorded(lambda x, y: x * y, x, x + 1)
    y.node.rule, y.node.op = None, Rerun("half", lambda y_bars: [y_bars[0] * 2.0, None])
    return bars(walk([y], [3.0]), leaves), [6.0, "nothing"]


def corners(x, n, y, unused):
    """x², n and 2y: two floats and an integer come out, and one integer goes in."""
    return x * x, n, 2.0 * y


CORNERS = Op(corners, "fused", ("x",))  # of no use but here, so it is not registered
SEEN: list = []


@CORNERS.rule
def corners_backward(res, y_bars):
    SEEN.append((y_bars[1], SCOPE.get()))
    return 2.0 * res.x * y_bars[0], None, 2.0 * y_bars[2], jnp.zeros(res.unused.shape)


@CORNERS.composite
def corners_composite(x, n, y, unused):
    return ops.mul(x, x), n, ops.mul(2.0, y)


@graph
def corners_of_the_walk(walk, x):
    """Zeros for a float output that nothing reached, `None` for an integer one; nothing for an integer operand."""
    SEEN.clear()
    CORNERS.rules["exact"].programs.clear()
    leaves, (a, n, b) = recorded(lambda x, y: CORNERS(x, jnp.asarray(3), y, y), x, x + 1)
    first, second = bars(walk([a], [1.0 + x]), leaves), bars(walk([b], [1.0 + x]), leaves)
    zero = jnp.zeros_like(x)
    return [first, second, SEEN[0][0]], [[2 * x * (1 + x), zero], [zero, 2 * (1 + x)], None]


@graph
def corners_at_second_order(walk, x):
    """Through the composite: zeros for what it does not use; an output that no inner leaf is in has no part."""
    outer, inner = next(LEVELS), next(LEVELS)
    with recording(outer):
        a = watch(leaf(jnp.asarray(x), outer))
        with recording(inner):
            b, c, unused = leaf(a, inner), leaf(a * 2.0, inner), leaf(a, inner)
            y, _, z = CORNERS(b, jnp.asarray(3), c, unused)
            once, _, outside = CORNERS(b, jnp.asarray(3), a, b)
        slopes = bars(walk([y, z], [a * a, a]), [b, c, unused])
        alone = bars(walk([once, outside], [a, a]), [b])
        untouched = a.grad  # no walk of the inner level goes on into the outer one
    ends = [bars(walk([bar], [1.0]), [a])[0] for bar in (slopes[0], slopes[1], alone[0])]
    return [ends, plain(slopes[2]), untouched], [[6 * x * x, 2.0, 4 * x], jnp.zeros_like(x), None]


@graph
def scopes(walk, x):
    """A rule runs in the scope of its node, marked as backward, when it is traced or recorded."""

    def run(x):
        with scope("block"):
            leaves, (y, _, _) = recorded(lambda x: CORNERS(x, jnp.asarray(3), x, x), x)
        return walk([y], [jnp.ones_like(x)])[leaves[0].node][0]

    found = []
    for call in (run, jax.jit(run)):
        SEEN.clear()
        CORNERS.rules["exact"].programs.clear()
        call(jnp.asarray(x))
        found.append(SEEN[0][1])
    labels: list[str] = []
    with setting(COLLECT, None), setting(EXPANDED, labels):
        outer, inner = next(LEVELS), next(LEVELS)
        with recording(outer), scope("block"):
            a = leaf(jnp.asarray(x), outer)
            with recording(inner):
                b = leaf(a, inner)
                y = ops.exp(b)
        y.node.rule = Rule(ops.exp, "noted", lambda res, y_bar: (labels.append(SCOPE.get()), (y_bar,))[1], "exact", ())
        with recording(outer):
            walk([y], [a])
    return [*found, *labels], ["", "block/backward", "block/backward"]


@graph
def barriers(walk, x):
    """While tracing, one barrier holds the cotangents of a node that has both a leaf and another node behind it, and one the
    residuals of what is computed again; eagerly there is none."""

    def first(x, w):  # linear: a leaf and a node; exp and tanh: a leaf each
        f = lambda x, w: ops.sum(ops.linear(ops.exp(x) + ops.tanh(x), w))
        return bars(walk([recorded_at(f, x, w)[1]], [jnp.ones(())]), recorded_at.leaves)

    def second(x, w):  # gelu is computed again
        return bars(walk([recorded_at(lambda x, w: ops.sum(ops.linear(ops.gelu(x), w)), x, w)[1]], [jnp.ones(())]), recorded_at.leaves)

    x, w = jnp.stack([x, 2 * x]), jnp.ones((3, 2)) * x
    counts = [str(jax.make_jaxpr(f)(x, w)).count("optimization_barrier") for f in (first, second)]
    asked = []
    true = jax.lax.optimization_barrier
    jax.lax.optimization_barrier = lambda x: asked.append(x) or true(x)
    try:
        first(x, w)
        second(x, w)
    finally:
        jax.lax.optimization_barrier = true
    return [counts, len(asked)], [[1, 2], 0]
