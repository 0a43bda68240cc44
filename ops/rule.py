"""What a rule is: a named backward of an op, with its contract, jitted for each choice of wanted cotangents.

A rule is `rule(res, y_bar, *, statics) -> tuple` with one cotangent per operand. `res` has a field for every operand:
the array where the op saves it, else its `Aval` (shape and dtype, no memory); further fields are the output (`out`) where
it is saved, and a fused op's residuals. A rule knows no engine: it is called with arrays by a jitted program, and, when it
is written in ops, with tracked values as well.
"""

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from ..lib.errors import RuleError

Contract = Literal["exact", "surrogate", "stochastic"]

# Both are part of every jax.jit key, a user's own jit included, so no program outlives a change of rules.
RULES = jax.make_user_context(())  # ((pattern, rule), ...), in order
EPOCH = jax.make_user_context(0)  # counts redefinitions of ops and rules


@jax.tree_util.register_static
class Aval(NamedTuple):
    """What a rule sees of an operand that was not saved."""

    shape: tuple[int, ...]
    dtype: Any

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        size = 1
        for n in self.shape:
            size *= n
        return size


def aval_of(x) -> Aval | None:
    """Shape and dtype of an array, a tracked value or a Python number; `None` for `None`."""
    if x is None:
        return None
    return Aval(x.shape, x.dtype) if hasattr(x, "dtype") else Aval((), jnp.result_type(x))


def is_float(x) -> bool:
    """Can x be perturbed? Integers, booleans and keys cannot."""
    return hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)


def calm(program: Callable) -> Callable:
    """A per-op program does not depend on the table of rules: call it with the table off, to keep its compiled code."""

    @functools.wraps(program)
    def call(*args, **kwargs):
        if RULES.value or EPOCH.value:
            with RULES(()), EPOCH(0):
                return program(*args, **kwargs)
        return program(*args, **kwargs)

    call.program = program  # type: ignore[attr-defined]
    return call


class Rule:
    """A named backward of an op."""

    __slots__ = ("op", "name", "fn", "contract", "kept", "whole", "order2", "of", "programs")

    contract: Contract

    def __init__(
        self,
        op: Any,  # the Op, which knows its rules
        name: str,
        fn: Callable,
        contract: Contract,
        saves: tuple[str, ...],
        order2: Callable | None = None,
        of: Callable | None = None,
    ):
        self.op, self.name, self.fn, self.contract, self.order2, self.of = op, name, fn, contract, order2, of
        self.kept = op.which(saves)
        self.whole = self.kept == (True,) * len(op.operand_names) + (False,)  # keeps the operands, all of them, and not the output
        self.programs: dict[tuple[bool, ...], Callable] = {}

    def __repr__(self) -> str:
        return f"<rule {self.op.name}={self.name} ({self.contract})>"

    def pull(self, res, y_bar, mask: tuple[bool, ...], statics: dict) -> tuple:
        """Cotangents of the operands that `mask` asks for, checked against their primals and cast to their dtypes."""
        op = self.op
        bars = self.fn(res, y_bar, **{**op.defaults, **statics})
        if not isinstance(bars, tuple) or len(bars) != len(mask):
            came = f"a tuple of {len(bars)}" if isinstance(bars, tuple) else f"a {type(bars).__name__}"
            raise RuleError(f"rule {self.name!r} of {op.name!r} gave {came}; expected a tuple of {len(mask)}, one cotangent per operand")
        primals = res.xs if op.variadic else res
        return tuple(self.fit(i, x, bar) if wanted else None for i, (wanted, x, bar) in enumerate(zip(mask, primals, bars)))

    def fit(self, i: int, x, bar):
        where = f"backward of {self.op.name!r}"
        if bar is None:
            raise RuleError(f"{where} gave None for operand {i}, which can be perturbed; give zeros where the derivative is zero")
        if not hasattr(bar, "shape"):
            raise RuleError(f"{where} gave a {type(bar).__name__} for operand {i}; expected an array of shape {tuple(x.shape)}")
        if tuple(bar.shape) != tuple(x.shape):
            raise RuleError(f"{where} gave shape {tuple(bar.shape)} for operand {i} of shape {tuple(x.shape)}; did the rule forget sum_to?")
        if not is_float(bar):
            raise RuleError(f"{where} gave {bar.dtype} for operand {i}; expected floats, of any width: they are cast to {x.dtype}")
        return bar if bar.dtype == x.dtype else bar.astype(x.dtype)

    def program(self, mask: tuple[bool, ...]) -> Callable:
        """The rule jitted for one choice of wanted cotangents; what nobody wants is compiled away."""
        if mask not in self.programs:

            def backward(res, y_bar, **statics):
                return self.pull(res, y_bar, mask, statics)

            backward.__name__ = f"{self.op.name}_backward"
            self.programs[mask] = calm(jax.jit(backward, static_argnames=self.op.static_names))
        return self.programs[mask]


def redefined() -> None:
    """Programs that hold the old rule must not be found again."""
    EPOCH.set_global(EPOCH.get_global() + 1)
