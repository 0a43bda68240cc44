"""Every differentiable op to second order: plain, through checkpoint and through scan, eager and compiled, against JAX.

The oracle is JAX's autodiff of an op's forward, for a fused op of its composite: the Jacobian J of the op and the Hessian H of
a loss on top of it. What a vjp, a jvp and a product with the Hessian must be follows from these two by NumPy. One program of
ours and one of theirs per op.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.autograd.scope import setting
from pullback.autograd.walk import EXPANDED
from pullback.ops.cases import CASES
from pullback.ops.cases.case import Case
from pullback.ops.op import REGISTRY, Op
from pullback.ops.rule import is_float

pytestmark = pytest.mark.usefixtures("x64")

ROWS = 2  # iterations of the loop

OPS = [op for op in REGISTRY.values() if op.kind != "constant" and op.__module__.startswith("pullback.")]

FLAT = {"sign", "floor", "ceil", "round", "trunc"}  # no derivative but 0
TELLING = {"pow_constant": "apart ** 3"}  # where the smallest case has nothing to tell: x⁰


def operands_of(case: Case) -> list:
    return [jnp.asarray(x) if isinstance(x, np.ndarray) else x for x in case.make(np.random.default_rng(0))]


def smallest(op: Op) -> Case:
    """The smallest case with as many floats as the op takes and more than a number or two in them."""

    def rank(case: Case) -> tuple:
        sizes = [x.size for x in case.make(np.random.default_rng(0)) if is_float(x)]
        return not sizes or not all(sizes), -len(sizes), sum(sizes) < 4, sum(sizes)

    cases = [case for case in CASES if case.op is op]
    return min((case for case in cases if case.label == TELLING.get(op.name, case.label)), key=rank)


class Problem:
    """A case as a function of its float operands, three ways of calling it, and the weights of a loss."""

    def __init__(self, case: Case):
        self.case, self.rng, self.operands = case, np.random.default_rng(1), operands_of(case)
        self.at = [i for i, x in enumerate(self.operands) if is_float(x)]
        self.xs = tuple(self.operands[i] for i in self.at)
        self.x_dots = self.normal(self.xs)
        self.shapes = jax.eval_shape(self.reference, self.xs)
        rows = [jax.ShapeDtypeStruct((ROWS, *y.shape), y.dtype) for y in self.shapes]
        self.linear, self.quadratic, self.y_bars = self.normal(rows), self.normal(rows), self.normal(rows)

    def normal(self, likes) -> tuple:
        return tuple(jnp.asarray(self.rng.normal(size=x.shape)) for x in likes)

    def call(self, f, xs) -> tuple:
        full = list(self.operands)
        for i, x in zip(self.at, xs):
            full[i] = x
        y = f(*full, **self.case.statics)
        return tuple(y for y in (y if isinstance(y, tuple) else (y,)) if is_float(y))

    def reference(self, xs) -> tuple:
        op = self.case.op
        f = op.composite_fn or op.fn
        return self.call(lambda *xs, **statics: f(*xs, **{**op.defaults, **statics}), xs)

    def plain(self, xs) -> tuple:
        return self.call(self.case.op, xs)

    def checkpointed(self, xs) -> tuple:
        return pb.checkpoint(self.plain)(xs)

    def scanned(self, xs) -> tuple:
        """The same in every iteration: operands come in turn from the carry, from outside and from the rows."""
        carry, closed, rows = xs[0::3], xs[1::3], [ops.stack([x] * ROWS) for x in xs[2::3]]

        def body(carry, rows):
            inside: list = [None] * len(xs)
            inside[0::3], inside[1::3], inside[2::3] = carry, closed, rows
            return carry, self.plain(inside)

        return pb.scan(body, carry, rows, length=ROWS)[1]

    def loss(self, f):
        """Σ a·y + b·y²; the rows of a loop share the coefficients, so that the loss is the same."""
        looped = f == self.scanned
        coefficients = [(a, b) if looped else (a.sum(0), b.sum(0)) for a, b in zip(self.linear, self.quadratic)]
        total = lambda xs: sum(ops.sum(y * a + y * y * b) for y, (a, b) in zip(f(xs), coefficients))
        return total

    def seeds(self, f) -> tuple:
        return self.y_bars if f == self.scanned else tuple(y_bar[0] for y_bar in self.y_bars)

    def first(self, f, xs) -> tuple:
        return pb.vjp(f, xs)[1](self.seeds(f))[0]

    def everything(self, f, xs) -> dict:
        loss = self.loss(f)
        along = lambda x_bars: sum(ops.sum(x_bar * x_dot) for x_bar, x_dot in zip(x_bars, self.x_dots))
        expanded: list[str] = []
        with setting(EXPANDED, expanded):
            first = self.first(f, xs)
        assert expanded == [], "a composite was expanded at first order"
        return {
            "vjp": first,
            "jvp": pb.jvp(f, (xs,), (self.x_dots,))[1],
            "jacobian": pb.jacobian(f)(xs),
            "hvp": pb.hvp(loss, (xs,), (self.x_dots,)),
            "grad(grad)": pb.grad(lambda xs: along(pb.grad(loss)(xs)))(xs),
            "hessian": pb.hessian(loss)(xs),
        }

    def theirs(self, xs) -> tuple:
        coefficients = [(a.sum(0), b.sum(0)) for a, b in zip(self.linear, self.quadratic)]
        loss = lambda xs: sum(jnp.sum(y * a + y * y * b) for y, (a, b) in zip(self.reference(xs), coefficients))
        return jax.jacrev(self.reference)(xs), jax.jacfwd(jax.jacrev(loss))(xs)


def flat(arrays) -> np.ndarray:
    return np.concatenate([np.ravel(x) for x in arrays])


def matrix(blocks, xs) -> np.ndarray:
    """One row per element of the first index, one column per element of xs."""
    return np.concatenate([np.concatenate([np.reshape(b, (-1, x.size)) for b, x in zip(row, xs)], axis=1) for row in blocks])


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_first_and_second_order(op, jit):
    problem = Problem(smallest(op))
    xs, ways = problem.xs, {"plain": problem.plain, "checkpoint": problem.checkpointed, "scan": problem.scanned}
    ours = jit(lambda xs: {name: problem.everything(f, xs) for name, f in ways.items()})(xs)
    jacobian, hessian = jit(problem.theirs)(xs)

    def same(what: str, ours: np.ndarray, theirs: np.ndarray) -> None:
        assert ours.shape == theirs.shape and np.isfinite(theirs).all() and xs[0].size
        gap = np.linalg.norm(ours - theirs) / (np.linalg.norm(theirs) or 1.0)
        assert gap < 1e-10, f"{what} of {op.name} ({problem.case.label}): {gap:.1e} from JAX"

    h, x_dot = matrix(hessian, xs), flat(problem.x_dots)
    assert (np.linalg.norm(h) > 0) == (op.name not in FLAT)
    for name, f in ways.items():
        rows = ROWS if f == problem.scanned else 1
        j = np.concatenate([np.tile(matrix([block], xs), (rows, 1)) for block in jacobian])
        first = flat(problem.seeds(f)) @ j
        wanted = {"vjp": first, "jvp": j @ x_dot, "jacobian": j, "hvp": h @ x_dot, "grad(grad)": h @ x_dot, "hessian": h}
        for what, value in ours[name].items():
            came = matrix(value, xs) if what in ("jacobian", "hessian") else flat(value)
            same(f"compiled {what}, {name},", came, wanted[what])
        same(f"eager vjp, {name},", flat(problem.first(f, xs)), first)


def test_no_differentiable_op_is_left_out():
    assert {op.name for op in OPS} == {case.op.name for case in CASES}
    for op in OPS:
        sizes = [x.size for x in operands_of(smallest(op)) if is_float(x)]
        assert sizes and all(sizes), f"{op.name} has no case with numbers in it"
