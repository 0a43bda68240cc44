"""A function at one point: what can be said of its derivative there without asking any rule."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..lib.errors import OperandError
from ..ops.op import Op
from ..ops.rule import Rule, is_float
from . import differences
from .differences import FAST, Slopes
from .transforms import vjp

DIRECTIONS = 4
SMALL = 256  # an operand of so many elements or fewer is also measured element by element


class Point:
    """A function of float64 arrays, where it is, a random cotangent, and its derivative there by differences.

    f: a tuple of arrays -> a tuple of float arrays. names: what to call each x.
    """

    def __init__(self, f: Callable, xs: Sequence, names: Sequence[str], seed: int):
        if not isinstance(seed, int) or seed < 0:
            raise OperandError(f"seed {seed!r}; expected a whole number from 0 on")
        self.f, self.names, self.rng = f, tuple(names), np.random.default_rng([seed, 1])  # not the numbers that a case with this seed drew
        self.xs = tuple(jnp.asarray(x, jnp.float64) for x in xs)
        self.ys = jax.eval_shape(f, self.xs)
        self.y_bars = self.like(self.ys)
        self.directions = differences.signs(self.rng, self.xs, DIRECTIONS)

    def like(self, arrays: Sequence) -> tuple:
        """Random normal cotangents or tangents, one for each array."""
        return tuple(jnp.asarray(self.rng.normal(size=x.shape)) for x in arrays)

    def without_infinities(self, ys: Sequence) -> bool:
        """Ask nothing more of outputs that are not finite here, so that the others can be measured. Was there such a one?"""
        finite = [np.isfinite(np.asarray(y)) for y in ys]
        if all(map(np.all, finite)) or not any(map(np.any, finite)):
            return False
        self.y_bars = tuple(jnp.where(there, bar, 0.0) for there, bar in zip(finite, self.y_bars))
        return True

    @functools.cached_property
    def slopes(self) -> Slopes:
        """Of ⟨ȳ, f⟩ along each of the four directions."""
        return differences.along(self.f, self.xs, self.y_bars, self.directions)

    @functools.cached_property
    def partials(self) -> list[tuple[int, Slopes]]:
        """(index of x, ∂⟨ȳ, f⟩/∂x of its elements, one after the other) for each small x.

        One program measures these and the slopes along the four directions: ask for them first where both are wanted.
        """
        small = [i for i, x in enumerate(self.xs) if 0 < x.size <= SMALL]
        tables = [self.directions, *(differences.elements(self.xs, i) for i in small)]
        measured = differences.along(self.f, self.xs, self.y_bars, tuple(np.concatenate(one) for one in zip(*tables)))
        self.slopes = Slopes(*(numbers[:DIRECTIONS] for numbers in measured))
        found, start = [], DIRECTIONS
        for i in small:
            end, sizes = start + self.xs[i].size, differences.sizes_of(self.xs[i]).ravel()
            found.append((i, Slopes(*(numbers[start:end] / sizes for numbers in measured))))
            start = end
        return found


class OpPoint(Point):
    """An op at one point. Operands that cannot be perturbed (integers, masks, keys, `None`, Python numbers) stay as they are."""

    def __init__(self, op: Op, operands: Sequence, statics: dict[str, Any], seed: int = 0):
        operands = tuple(array(op.name, i, x) if isinstance(x, (np.ndarray, np.generic, list)) else x for i, x in enumerate(operands))
        if not op.variadic:
            operands += (None,) * (len(op.operand_names) - len(operands))
        self.op, self.statics, self.operands = op, {**op.defaults, **statics}, operands
        self.mask = tuple(map(is_float, operands))
        self.at = tuple(i for i, wanted in enumerate(self.mask) if wanted)
        self.dtypes = tuple(operands[i].dtype for i in self.at)
        self.many = isinstance(jax.eval_shape(lambda: op(*operands, **statics)), tuple)
        names = [f"operand {i}" for i in self.at] if op.variadic else [op.operand_names[i] for i in self.at]
        super().__init__(self.forward, [operands[i] for i in self.at], names, seed)

    def merged(self, xs: Sequence) -> tuple:
        """All operands, with these in the place of the floats."""
        operands = list(self.operands)
        for i, x in zip(self.at, xs):
            operands[i] = x
        return tuple(operands)

    def call(self, f: Any, xs: Sequence) -> tuple:
        """The float outputs of f, the op or its composite, as a tuple."""
        y = f(*self.merged(xs), **self.statics)
        return tuple(y for y in (y if isinstance(y, tuple) else (y,)) if is_float(y))

    def forward(self, xs: Sequence) -> tuple:
        return self.call(self.op, xs)

    def residuals(self, rule: Rule, xs: Sequence):
        """(outputs, what the engine would hand to the rule)."""
        values = self.merged(xs)
        y = self.op.forward(*values, **self.statics)
        y, extra = y if self.op.residuals else (y, ())
        return y, self.op.keep(values, y, tuple(extra), rule)

    def seed_for(self, y, y_bars: Sequence):
        """The cotangents as a rule takes them: `None` at integer outputs, one by itself where the op has one output."""
        bars = iter(y_bars)
        filled = tuple(next(bars) if is_float(v) else None for v in (y if self.many else (y,)))
        return filled if self.many else filled[0]

    def both(self, rule: Rule, xs: Sequence, y_bars: Sequence) -> tuple[tuple, tuple]:
        """(float outputs, the rule's cotangents of the float operands)."""
        y, res = self.residuals(rule, xs)
        x_bars = rule.pull(res, self.seed_for(y, y_bars), self.mask, self.statics)
        return tuple(v for v in (y if self.many else (y,)) if is_float(v)), tuple(x_bars[i] for i in self.at)

    def pull(self, rule: Rule, xs: Sequence, y_bars: Sequence) -> tuple:
        """The rule's cotangents of the float operands."""
        return self.both(rule, xs, y_bars)[1]

    def held_against(self, rule: Rule) -> Point:
        """The point that a rule is compared at: a surrogate belongs to another function of the same operands and statics."""
        if rule.of is None:
            return self
        found = Point(lambda xs: self.call(rule.of, xs), self.xs, self.names, 0)
        found.y_bars, found.directions = self.y_bars, self.directions
        return found

    @functools.cached_property
    def by_composite(self) -> tuple[tuple, tuple] | None:
        """(outputs, cotangents) through the composite, for an op that has one."""
        if self.op.composite_fn is None:
            return None

        def program(xs, y_bars):
            y, pullback = vjp(lambda *xs: self.call(self.op.composite_fn, xs), *xs)  # type: ignore[arg-type]
            return y, pullback(y_bars)

        return jax.jit(program, compiler_options=FAST)(self.xs, self.y_bars)

    def __str__(self) -> str:
        shapes = ", ".join(described(x) for x in self.operands)
        given = "".join(f", {name}={value!r}" for name, value in self.statics.items() if value != self.op.defaults.get(name, self))
        return f"{self.op.name}({shapes}{given})"


def array(op: str, i: int, x) -> jax.Array:
    try:
        return jnp.asarray(x)
    except (TypeError, ValueError) as error:  # rows of different lengths, or no numbers
        raise OperandError(f"{op}: operand {i} makes no array: {str(error).splitlines()[0][:200]}") from None


def described(x) -> str:
    """`float32[3,4]`, or the number itself."""
    if not hasattr(x, "dtype"):
        return repr(x)
    return f"{x.dtype}[{','.join(map(str, x.shape))}]"
