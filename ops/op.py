"""What an op is: a jitted forward, its backward rules by name, and its composite. How one is called: calling.py."""

import collections
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax

from ..lib.errors import OperandError, RuleError, UnknownName, near
from .calling import explained, guarded, signature_of
from .rule import Contract, Rule, aval_of, calm, redefined

Kind = Literal["primitive", "fused", "constant"]


class Face(NamedTuple):
    """A function over other ops, with no rule of its own."""

    fn: Callable
    stands_on: tuple[str, ...]


REGISTRY: dict[str, "Op"] = {}
FACES: dict[str, Face] = {}
OVERRIDES: dict[type, Callable] = {}  # operand type -> what takes a call over that has one: apply(op, operands, statics)

inspect_call: Callable | None = None  # called with an op, its plain operands, its statics and its value: autograd/inspection.py


class Op:
    """Called like a function. See calling.py for the calling law, `primitive` and `fused` for the two kinds."""

    def __init__(self, fn: Callable, kind: Kind, saves: tuple[str, ...] = (), residuals: Any = None):
        self.signature = signature_of(fn)
        self.variadic, self.operand_names, self.required, self.static_names, self.defaults = self.signature
        self.name, self.fn, self.__doc__, self.__wrapped__ = fn.__name__, fn, fn.__doc__, fn
        self.__name__, self.__qualname__, self.__module__ = fn.__name__, fn.__qualname__, fn.__module__
        self.kind, self.is_fused, self.saves, self.residuals = kind, kind == "fused", saves, residuals
        extra = residuals._fields if residuals else ()
        for name in extra:
            if name in (*self.operand_names, "out"):
                raise RuleError(f"{self.name!r} has a residual named {name!r}, as an operand or the output is; choose another name")
        self.record = collections.namedtuple(f"{fn.__name__}_residuals", (*self.operand_names, "out", *extra))
        self.rules: dict[str, Rule] = {}
        self.composite_fn: Callable | None = None
        self.recompute_fn: Callable | None = None
        self.recompute: Any = None
        self.forward = calm(jax.jit(guarded(self.name, self.operand_names, fn), static_argnames=self.static_names))
        self.primal, self.program = self.forward, self.forward.program  # the program itself: for who has seen that no table is set
        if residuals:
            first = guarded(self.name, self.operand_names, lambda *xs, **statics: fn(*xs, **statics)[0])
            self.primal = calm(jax.jit(first, static_argnames=self.static_names))

    def __repr__(self) -> str:
        return f"<{self.kind} op {self.name}({', '.join(self.operand_names)})>"

    def which(self, saves: tuple[str, ...]) -> tuple[bool, ...]:
        """One flag per operand name and one for the output: is it kept for the backward?"""
        for name in saves:
            if name not in (*self.operand_names, "out"):
                raise RuleError(f"{self.name!r} saves {name!r}, which is no operand of it" + near(name, (*self.operand_names, "out")))
        return tuple(name in saves for name in (*self.operand_names, "out"))

    def __call__(self, *operands, **statics):
        for x in operands:
            if type(x) in OVERRIDES:
                return OVERRIDES[type(x)](self, operands, statics)
        try:
            y = self.primal(*operands, **statics)
        except (TypeError, ValueError) as error:
            raise self.explain(operands, statics, error) from None if isinstance(error, OperandError) else error
        if inspect_call is not None:
            inspect_call(self, operands, statics, y)
        return y

    def explain(self, operands: tuple, statics: dict, error: Exception) -> Exception:
        """A better text for a call that broke the calling law."""
        return explained(self.name, self.signature, operands, statics, error)

    def forget(self) -> None:
        """Drop compiled programs."""
        self.forward.program.clear_cache()
        self.primal.program.clear_cache()
        if self.recompute is not None:
            self.recompute.program.clear_cache()
        for rule in self.rules.values():
            rule.programs.clear()

    def keep(self, values, out, extra: tuple, rule: Rule):
        """The residual record: what the rule will be given. Built as record(...) would, in half the time."""
        if rule.whole and not self.variadic:
            return tuple.__new__(self.record, (*values, None, *extra))
        kept = rule.kept
        out = out if kept[-1] else None
        if self.variadic:
            return self.record(tuple(values) if kept[0] else tuple(map(aval_of, values)), out, *extra)
        return tuple.__new__(self.record, (*[x if k else aval_of(x) for x, k in zip(values, kept)], out, *extra))

    def evaluate(self, *operands, rule: str = "exact", **statics):
        """(y, res) on plain arrays: what the engine records, for those who test a rule without an engine."""
        values = operands + (None,) * (len(self.operand_names) - len(operands)) if not self.variadic else operands
        y = self.forward(*values, **statics)
        y, extra = y if self.residuals else (y, ())
        return y, self.keep(values, y, tuple(extra), self.find(rule))

    def find(self, name: str) -> Rule:
        if name not in self.rules:
            raise UnknownName(f"{self.name!r} has no rule {name!r}" + near(name, self.rules))
        return self.rules[name]

    def rule(
        self,
        fn: Callable | str | None = None,
        *,
        contract: Contract = "exact",
        saves: tuple[str, ...] | None = None,
        order2: Callable | None = None,
        of: Callable | None = None,
    ):
        """Give the op a backward: `@op.rule` is its exact one, `@op.rule("name", contract="surrogate")` a variant.

        contract: `exact`, `surrogate` (biased on purpose) or `stochastic` (equal in expectation).
        saves: the operands this rule reads, where a variant reads other ones than the exact rule.
        order2: `order2(operands, y_bar, *, statics)` in ops: the same rule for derivatives of higher order, for a variant
        of a fused op.
        of: the function of the same operands and statics, in ops, whose exact rule this surrogate is. A verdict holds the
        surrogate against it.
        """
        if not (fn is None or isinstance(fn, str) or callable(fn)):
            raise RuleError(f"{self.name}.rule takes a function or a name; it came {fn!r}")
        if fn is None or isinstance(fn, str):
            name = fn or "exact"

            def named(fn: Callable) -> Callable:
                self.add_rule(name, fn, contract, saves, order2, of)
                return fn

            return named
        self.add_rule("exact", fn, contract, saves, order2, of)
        return fn

    def add_rule(
        self, name: str, fn: Callable, contract: Contract, saves: tuple[str, ...] | None, order2: Callable | None, of: Callable | None
    ):
        if contract not in ("exact", "surrogate", "stochastic"):
            raise RuleError(f"rule {name!r} of {self.name!r}: contract {contract!r} is none of exact, surrogate, stochastic")
        if name in self.rules:
            redefined()
        self.rules[name] = Rule(self, name, fn, contract, self.saves if saves is None else saves, order2, of)

    def composite(self, fn: Callable) -> Callable:
        """The same function in primitives: the second opinion on the rule and the way to higher orders."""
        if self.composite_fn is not None:
            redefined()
        self.composite_fn = fn
        return fn

    def recomputed(self, fn: Callable) -> Callable:
        """Say that the output is cheap to have again: `fn(res, *, statics) -> y` from the exact rule's residuals.

        An op that would keep this output for its own backward then keeps nothing; the walk calls `fn` when it gets there.
        """
        if self.recompute_fn is not None:
            redefined()
        self.recompute_fn = fn
        run = lambda res, **statics: fn(res, **{**self.defaults, **statics})
        run.__name__ = f"{self.name}_again"
        self.recompute = calm(jax.jit(run, static_argnames=self.static_names))
        return fn


def register(op: Op) -> Op:
    """One op per name; the same module may define its op again (a notebook cell run twice)."""
    old = REGISTRY.get(op.name)
    if old is not None:
        if (old.__module__, old.__qualname__) != (op.__module__, op.__qualname__):
            raise RuleError(f"an op named {op.name!r} is there already, from {old.__module__}; choose another name")
        redefined()
        for other in REGISTRY.values():  # their programs may have called the old op
            other.forget()
    REGISTRY[op.name] = op
    return op


def primitive(*, saves: tuple[str, ...] = ()) -> Callable[[Callable], Op]:
    """An op whose rule is written in ops, so that it can be recorded and differentiated itself, to any order.

    saves: names of the operands that the rule reads as arrays, and "out" for the output.
    """
    return lambda fn: register(Op(fn, "primitive", saves))


def fused(*, saves: tuple[str, ...] = (), residuals: Any = None) -> Callable[[Callable], Op]:
    """An op whose rule is written for speed in jax.numpy. Higher orders go through its composite.

    residuals: a NamedTuple type; the forward then returns `(y, residuals)`, the caller gets `y`.
    """
    return lambda fn: register(Op(fn, "fused", saves, residuals))


def constant(fn: Callable) -> Op:
    """An op that nothing flows back through (stop_gradient, comparisons, argmax): it takes the values of tracked operands
    and is not recorded."""
    return register(Op(fn, "constant"))


def face(*stands_on: str) -> Callable[[Callable], Callable]:
    """A function whose derivative is that of the ops it names: listed among the ops, checked at cases of its own."""

    def listed(fn: Callable) -> Callable:
        FACES[fn.__name__] = Face(fn, stands_on)
        return fn

    return listed
