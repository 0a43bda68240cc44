"""What the tests of ops share: running a case, and two opinions on its rule that know nothing of the rule.

A case is run as an engine would run it: `Op.evaluate` forward, then the rule's compiled program for the operands that can be
perturbed. Everything here works in float64, inside `with jax.enable_x64(True)`.
"""

import collections
import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.autograd.differences import FAST
from pullback.ops.rule import is_float

LADDER = 2.0 ** -np.arange(18)  # steps of the differences, times the size of x
NEAR = 2.0**-17 * np.arange(8)  # close points whose high differences show the rounding of f


def arrays(values, dtype=None):
    """Operands as JAX arrays; floats in `dtype`. Python numbers, `None` and keys stay."""

    def one(x):
        x = np.asarray(x) if isinstance(x, (list, np.generic)) else x
        if not isinstance(x, np.ndarray):
            return x
        return jnp.asarray(x, dtype) if dtype is not None and np.issubdtype(x.dtype, np.floating) else jnp.asarray(x)

    return tuple(map(one, values))


def rng_for(case):
    """The same numbers for a case every time."""
    return np.random.default_rng(list(f"{case.op.name}/{case.label}".encode()))


def mask_of(op, xs):
    """Which operands can be perturbed: one flag for each, those left out included."""
    left_out = 0 if op.variadic else len(op.operand_names) - len(xs)
    return tuple(map(is_float, xs)) + (False,) * left_out


def random_like(rng, y):
    """A random cotangent for an output, `None` for an integer one."""
    return jnp.asarray(rng.normal(size=y.shape), y.dtype) if is_float(y) else None


def run(case, rule="exact", dtype="float64"):
    """operands, which of them are floats, y, y_bar, x_bars by the rule."""
    rng = rng_for(case)
    xs = arrays(case.make(rng), dtype)
    y, res = case.op.evaluate(*xs, rule=rule, **case.statics)
    y_bar = tuple(random_like(rng, v) for v in y) if isinstance(y, tuple) else random_like(rng, y)
    mask = mask_of(case.op, xs)
    x_bars = case.op.rules[rule].program(mask)(res, y_bar, **case.statics)
    return SimpleNamespace(case=case, xs=xs, mask=mask[: len(xs)], y=y, y_bar=y_bar, x_bars=x_bars[: len(xs)], rng=rng)


def flat(y):
    return [v for v in (y if isinstance(y, tuple) else (y,)) if is_float(v)]


def weighed(ran, y):
    """⟨ȳ, y⟩ over the float outputs."""
    bars = [bar for bar in (ran.y_bar if isinstance(ran.y_bar, tuple) else (ran.y_bar,)) if bar is not None]
    return sum(float(np.vdot(bar, v)) for bar, v in zip(bars, flat(y)))


def by_autodiff(ran):
    """Opinion 1: jax.vjp of the forward. The worst gap, ‖x̄ − x̄'‖/‖x̄'‖, over the operands."""
    op, statics = ran.case.op, ran.case.statics
    floats = [x for x, wanted in zip(ran.xs, ran.mask) if wanted]

    def forward(*floats):
        moved = iter(floats)
        y = op.fn(*[next(moved) if wanted else x for x, wanted in zip(ran.xs, ran.mask)], **statics)
        return tuple(flat(y[0] if op.residuals else y))

    bars = tuple(bar for bar in (ran.y_bar if isinstance(ran.y_bar, tuple) else (ran.y_bar,)) if bar is not None)
    theirs = jax.jit(lambda floats, bars: jax.vjp(forward, *floats)[1](bars))(floats, bars)
    ours = [bar for bar, wanted in zip(ran.x_bars, ran.mask) if wanted]
    gaps = [np.linalg.norm(np.ravel(a - b)) / (np.linalg.norm(np.ravel(b)) or 1.0) for a, b in zip(ours, theirs)]
    return max(gaps, default=0.0)


def by_differences(ran, directions=2):
    """Opinion 2: the slope of t ↦ ⟨ȳ, f(x + t·v)⟩ for random signs v, extrapolated. The worst |claimed − measured| in error bars."""
    op, statics, worst = ran.case.op, ran.case.statics, 0.0
    points = [np.asarray(x) for x, wanted in zip(ran.xs, ran.mask) if wanted]
    bars = [np.asarray(bar) for bar, wanted in zip(ran.x_bars, ran.mask) if wanted]
    if not sum(x.size for x in points):
        return worst
    size = np.sqrt(np.mean(np.concatenate([x.ravel() for x in points]) ** 2)) or 1.0
    for _ in range(directions):
        signs = [ran.rng.choice((-size, size), size=x.shape) for x in points]

        def along(t, signs=signs):
            moved = iter(x + t * v for x, v in zip(points, signs))
            return weighed(ran, op.primal(*[next(moved) if wanted else x for x, wanted in zip(ran.xs, ran.mask)], **statics))

        slope, bar = extrapolated(along)
        claimed = sum(float(np.vdot(x_bar, v)) for x_bar, v in zip(bars, signs))
        worst = max(worst, abs(claimed - slope) / bar)
    return worst


def extrapolated(f):
    """(f'(0), error bar), by Ridders' table of central differences over halving steps.

    The bar is what neighbours in the table disagree by, plus rounding carried through it. Rounding is measured: the fourth
    differences of eight close points are nothing else. Entries that are not finite (a pole under a large step) are passed over.
    """
    near = np.array([f(t) for t in NEAR])
    rounding = max(np.max(np.abs(np.diff(near, 4))) / 8, np.finfo(np.float64).eps * np.max(np.abs(near)), 1e-300)
    slopes = np.array([(f(h) - f(-h)) / (2 * h) for h in LADDER])
    noise = rounding / LADDER
    best, bar = np.nan, np.inf
    for order in range(1, 7):
        factor = 4.0**order
        finer = (factor * slopes[1:] - slopes[:-1]) / (factor - 1)
        noise = (factor * noise[1:] + noise[:-1]) / (factor - 1)
        errors = np.maximum(np.abs(finer - slopes[1:]), np.abs(finer - slopes[:-1]) / factor) + noise
        k = np.argmin(np.where(np.isfinite(errors), errors, np.inf))
        if errors[k] < bar:
            best, bar = finer[k], errors[k]
        slopes = finer
    return best, bar


# A drawn example -------------------------------------------------------------------------------------------------------------

UNITS = 64  # in the last place of the largest element: a rule in a narrow dtype rounds at each of its steps
FEW = 8  # for half precision in ops that compute in float32 and round once or twice

quickly_built = functools.partial(jax.jit, compiler_options=FAST)


@functools.cache
def programs(op, statics: tuple, theirs):
    """(ours: values and cotangents, JAX's cotangents) for an op with its statics; operands are the floats, then those that stay."""
    f = functools.partial(op, **dict(statics))
    theirs = functools.partial(theirs, **dict(statics))

    def ours(xs, rest, y_bar):
        y, pullback = pb.vjp(lambda *xs: f(*xs, *rest), *xs)
        return y, pullback(y_bar.astype(y.dtype))

    return quickly_built(ours), quickly_built(lambda xs, rest, y_bar: jax.vjp(lambda *xs: theirs(*xs, *rest), *xs)[1](y_bar))


def compared(op, numpy, theirs, drawn, dtype: str, seed: int, rest=(), size=0.0, half=UNITS, **statics) -> None:
    """An op's values against NumPy's and its cotangents against jax.vjp, both in float64 on operands rounded to `dtype`.

    op: a function, or the name of one in pullback.ops; drawn: its operands that have a cotangent; rest: those after them.
    size: of the terms, where they may cancel: what is left is then held to the rounding of these. half: units in half precision.
    """
    forgetting()
    op = getattr(ops, op) if isinstance(op, str) else op
    name, units = op.__name__, half if dtype in ("bfloat16", "float16") else UNITS
    xs = [jnp.asarray(x, dtype) for x in drawn]
    wide = [np.asarray(x, np.float64) for x in xs]
    right = numpy(*wide, *rest, **statics)
    y_bar = jnp.asarray(np.random.default_rng(seed).normal(size=np.shape(right)), dtype)
    ours, oracle = programs(op, tuple(sorted(statics.items())), theirs)
    rest = tuple(map(jnp.asarray, rest))
    y, x_bars = ours(tuple(xs), rest, y_bar)
    closely(y, right, dtype, size, units, f"{name} of {dtype}")
    due = oracle(tuple(map(jnp.asarray, wide)), rest, y_bar.astype("float64"))
    for i, (x, x_bar, right) in enumerate(zip(xs, x_bars, due, strict=True)):
        assert x_bar.dtype == x.dtype and x_bar.shape == x.shape
        closely(x_bar, right, dtype, size, units, f"cotangent {i} of {name} in {dtype}")


def closely(came, due, dtype: str, size: float, units: int, what: str) -> None:
    due = np.asarray(due, np.float64)
    assert came.shape == due.shape, what
    unit = max(float(jnp.finfo(dtype).eps) * np.max(np.abs(due), initial=size), float(jnp.finfo(dtype).smallest_subnormal))
    off = np.max(np.abs(np.asarray(came, np.float64) - due), initial=0.0)
    assert off <= units * unit, f"{what}: {off / unit:.0f} units off"


MANY = 2000  # compiled programs, a gigabyte or two
compiled = collections.Counter()
jax.monitoring.register_event_duration_secs_listener(lambda event, duration_secs, **_: compiled.update([event]))


def forgetting() -> None:
    """Let go of compiled programs when there are MANY: those of ten thousand examples would fill the memory."""
    if compiled["/jax/core/compile/backend_compile_duration"] > MANY:
        compiled.clear()
        programs.cache_clear()
        jax.clear_caches()


@pytest.fixture(scope="session")
def compare():
    return compared


@pytest.fixture(scope="session")
def compare_closely():
    return functools.partial(compared, half=FEW)


@pytest.fixture(scope="session")
def forget():
    return forgetting


@pytest.fixture(scope="module")
def x64_drawn():
    with jax.enable_x64(True):
        yield
    programs.cache_clear()  # hundreds of compiled programs that nobody asks for again
    jax.clear_caches()


@pytest.fixture(scope="session")
def judge():
    """The tools above, by name."""
    return SimpleNamespace(
        arrays=arrays, mask=mask_of, run=run, by_autodiff=by_autodiff, by_differences=by_differences, extrapolated=extrapolated
    )
