"""How a rule behaves: one by one and compiled, twice, at second order, in narrow dtypes; how far a surrogate is off."""

import math
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ..lib.errors import PullbackError, RuleOrderError
from ..ops.rule import Rule
from . import differences
from .checks import Seen
from .differences import FAST
from .lines import CLOSE, Line, against_bars, compared, element, first_line
from .point import OpPoint
from .random import keys
from .rules import rules
from .transforms import vjp

# Units in the last place that a rule may lose in a narrow dtype, beyond PRICE times what rounded operands cost. Sums and fused
# rules are held in float32, where GELU in its tails loses 30 units; to half precision they are rounded once.
ROUNDED = {"float32": 64.0, "bfloat16": 2.0, "float16": 2.0}
PRICE = 4.0
UNLIKELY = 1e-6  # the p-value under which a stochastic rule is not right on average


def ways(point: OpPoint, rule: Rule, seen: Seen) -> Iterator[Line]:
    """One by one, as the engine's compiled program, inside a larger one, under vmap, with one array as two operands; twice."""
    y, res = point.residuals(rule, point.xs)
    y_bar = point.seed_for(y, point.y_bars)
    floats = lambda x_bars: tuple(x_bars[i] for i in point.at)
    batched = jax.jit(jax.vmap(lambda xs, bars: point.pull(rule, xs, bars)), compiler_options=FAST)
    found = {
        "eager": floats(rule.pull(res, y_bar, point.mask, point.statics)),
        "compiled": floats(rule.program(point.mask)(res, y_bar, **point.statics)),
        "in a larger program": larger(point, rule),
        "under vmap": tuple(bar[1] for bar in batched(*two(point))),
    }
    lines = [compared("ways", point.names, x_bars, seen.x_bars, name) for name, x_bars in found.items()]
    failed = [line for line in lines if line.outcome == "failed"]
    worst = max((line.gap or 0.0 for line in lines), default=0.0)
    yield failed[0] if failed else Line("ways", "held", f"{', '.join(found)}: at most {worst:.0e} apart", worst, CLOSE)
    again = floats(rule.program(point.mask)(res, y_bar, **point.statics))
    same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found["compiled"], again))
    yield Line("repeated", "held" if same else "failed", "the same to the bit" if same else "a second run gave other bits")


def larger(point: OpPoint, rule: Rule) -> tuple:
    """The rule between other ops, in one program of the graph: x ↦ op(x/2·2)·1, pulled back by the walk."""

    def program(xs, y_bars):
        half = tuple(x * 0.5 for x in xs)
        with rules({point.op.name: rule.name}) if rule.name in point.op.rules else rules({}):
            return vjp(lambda *xs: tuple(y * 1.0 for y in point.forward([x * 2.0 for x in xs])), *half)[1](y_bars)

    return tuple(2.0**-1 * x_bar for x_bar in jax.jit(program, compiler_options=FAST)(point.xs, point.y_bars))


def two(point: OpPoint) -> tuple:
    """Operands and cotangents with a leading axis of two: the first row is another point, the second this one."""
    other = tuple(x * 1.0625 for x in point.xs)  # inside most domains
    return jax.tree.map(lambda a, b: jnp.stack([a, b]), (other, point.y_bars), (point.xs, point.y_bars))


def second_order(point: OpPoint, rule: Rule) -> Line:
    """⟨u, x̄⟩ as a function of the operands and of ȳ: its derivative by the graph against differences of the rule itself."""
    if not sum(x.size for x in point.xs):
        return Line("order 2", "not asked", "no element to move")
    us, n, both = point.like(point.xs), len(point.xs), (*point.xs, *point.y_bars)
    along = differences.signs(point.rng, both, 4)
    for i, v in enumerate(along):  # two directions for the operands, two for ȳ
        v[slice(2, 4) if i < n else slice(0, 2)] = 0.0

    def claimed(both, us, along):
        def x_bars(*both):
            with rules({point.op.name: rule.name}):
                return vjp(lambda *xs: point.forward(xs), *both[:n])[1](both[n:])

        bars = vjp(x_bars, *both)[1](us)
        return sum(jnp.tensordot(v.reshape(len(v), -1), bar.ravel(), 1) for v, bar in zip(along, bars))

    try:
        slopes = jax.jit(claimed, compiler_options=FAST)(both, us, along)
    except RuleOrderError as error:
        if rule.contract == "exact":
            return Line("order 2", "failed", str(error))
        return Line("order 2", "noted", f"first order only: {error}")
    except Exception as error:  # a composite or a rule of a user may raise anything
        text = str(error) if isinstance(error, PullbackError) else f"raised {type(error).__name__}: {first_line(error)}"
        return Line("order 2", "failed", text)
    measured = differences.along(lambda both: point.pull(rule, both[:n], both[n:]), both, us, along)
    where = ["the operands, direction 0", "the operands, direction 1", "ȳ, direction 0", "ȳ, direction 1"]
    return against_bars("order 2", np.asarray(slopes), measured, where)


def precision(point: OpPoint, rule: Rule) -> Iterator[Line]:
    """The rule in a narrow dtype against itself in float64 on the same rounded operands, in units of the last place."""
    run = jax.jit(lambda xs, bars: point.both(rule, xs, bars), compiler_options=FAST)
    for name in ("float32", "bfloat16", "float16"):
        xs, y_bars = (tuple(x.astype(name) for x in arrays) for arrays in (point.xs, point.y_bars))
        if all(np.isfinite(np.asarray(x, np.float64)).all() for x in (*xs, *y_bars)):
            yield in_dtype(name, point, run, xs, y_bars)
        else:
            yield Line(name, "not asked", "the operands overflow in this dtype")


def in_dtype(name: str, point: OpPoint, run: Callable, xs: Sequence, y_bars: Sequence) -> Line:
    """What moving the operands by half a unit changes is the price of the dtype, which no rule can help: it widens the limit."""
    eps, tiny = float(jnp.finfo(name).eps), float(jnp.finfo(name).tiny)
    wide = [tuple(x.astype("float64") for x in arrays) for arrays in (xs, y_bars)]

    def shaken() -> list[tuple]:
        return [tuple(x * (1 + eps / 2 * s) for x, s in zip(arrays, differences.coins(point.rng, arrays))) for arrays in wide]

    (ys, right), (_, found), moved = run(*wide), run(xs, y_bars), [run(*shaken())[1] for _ in range(4)]
    if not all(np.isfinite(np.asarray(v)).all() for v in right):
        return Line(name, "not asked", "the cotangent is not finite at the rounded operands")
    if any(np.any(np.isfinite(v) & (np.abs(v) > float(jnp.finfo(name).max))) for v in map(np.asarray, (*ys, *right))):
        return Line(name, "not asked", "the output or a cotangent overflows in this dtype")
    worst = Line(name, "held", "no element", 0.0, ROUNDED[name])
    for i, (narrow, exact) in enumerate(zip(found, right)):
        if not exact.size:
            continue
        if narrow.dtype != xs[i].dtype:
            return Line(name, "failed", f"cotangent of {point.names[i]} is {narrow.dtype}", where=point.names[i])
        exact = np.asarray(exact)
        unit = eps * max(float(np.max(np.abs(exact))), tiny)
        limit = ROUNDED[name] + PRICE * max(float(np.max(np.abs(np.asarray(one[i]) - exact))) for one in moved) / unit
        off = np.abs(np.asarray(narrow, np.float64) - exact) / unit
        k = int(np.argmax(off))
        ulps, where = float(off.ravel()[k]), element(point.names[i], exact.shape, k)
        if not ulps <= limit:
            text = f"{ulps:.3g} units in the last place off float64 at {where} (limit {limit:.0f})"
            return Line(name, "failed", text, ulps, limit, where)
        if ulps / limit >= (worst.gap or 0.0) / (worst.limit or 1.0):
            worst = Line(name, "held", f"{ulps:.2g} units in the last place off float64 (limit {limit:.0f})", ulps, limit)
    return worst


def bias(point: OpPoint, rule: Rule, x_bars: Sequence) -> Line:
    """How far a surrogate is from the exact rule: direction, length, worst element. Nothing to pass or fail."""
    exact = point.pull(point.op.find("exact"), point.xs, point.y_bars)
    a, b = (np.concatenate([np.ravel(np.asarray(x, np.float64)) for x in bars] or [np.zeros(0)]) for bars in (x_bars, exact))
    lengths = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    if not all(np.isfinite(lengths)) or not all(lengths):
        return Line("bias", "noted", f"norm {lengths[0]:.3g}, of the exact rule {lengths[1]:.3g}")
    cosine = float(a @ b / (lengths[0] * lengths[1]))
    k = int(np.argmax(np.abs(a - b)))
    text = f"cosine {cosine:.4f}, norm ratio {lengths[0] / lengths[1]:.4f}, worst element {a[k]:.4g} for {b[k]:.4g}"
    return Line("bias", "noted", text, 1 - cosine)


def mean(point: OpPoint, rule: Rule, draws: int = 400) -> Line:
    """Equal in expectation? The mean of many draws along random directions against the exact rule: a t-test with its p-value."""
    exact = point.pull(point.op.find("exact"), point.xs, point.y_bars)
    looks = [point.like(exact) for _ in range(8)]

    def draw(step):
        with keys(0, step):
            x_bars = point.pull(rule, point.xs, point.y_bars)
        return jnp.stack([sum(jnp.vdot(u, x_bar - right) for u, x_bar, right in zip(us, x_bars, exact)) for us in looks])

    off = np.asarray(jax.jit(lambda: jax.lax.map(draw, jnp.arange(draws)))())
    sizes = [sum(float(jnp.sum(jnp.abs(u * right))) for u, right in zip(us, exact)) for us in looks]
    spread = np.maximum(off.std(axis=0, ddof=1) / np.sqrt(draws), 1e-12 * np.array(sizes))  # what is drawn may be nothing but rounding
    if not np.isfinite(off).all():
        return Line("mean", "failed", "a draw is not finite")
    z = float(np.max(np.abs(off.mean(axis=0)) / np.maximum(spread, 1e-300)))
    p = min(1.0, len(looks) * math.erfc(z / math.sqrt(2)))
    text = f"mean of {draws} draws, {z:.2f} standard errors off at most in {len(looks)} directions: p = {p:.2g} (limit {UNLIKELY:g})"
    return Line("mean", "failed" if p < UNLIKELY else "held", text, p, UNLIKELY)
