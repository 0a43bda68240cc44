"""The calling law of ops, read from a function's signature, and what to say where a call breaks it.

A positional argument is an *operand* (an array, owed one cotangent), a keyword-only argument is a *static* (hashable,
compiled in). An operand may be `None` where the signature says so; it then has no cotangent.
"""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from ..lib.errors import OperandError, near
from .rule import aval_of


class Signature(NamedTuple):
    """`*xs` counts as one operand, named xs, and is the only one."""

    variadic: bool
    operand_names: tuple[str, ...]
    required: int
    static_names: tuple[str, ...]
    defaults: dict[str, Any]  # of the statics


def signature_of(fn: Callable) -> Signature:
    name = getattr(fn, "__name__", "")
    if not name.isidentifier():
        raise OperandError(f"an op has the name of its function, and {name or repr(fn)} is no name: write `def my_op(...)`")
    parameters = inspect.signature(fn).parameters.values()
    operands, statics = [], []
    for p in parameters:
        (statics if p.kind is p.KEYWORD_ONLY else operands).append(p)
        if p.kind is p.VAR_KEYWORD:
            raise OperandError(f"{name}: **{p.name}; expected each static by name after a `*,`")
        if p.kind is not p.KEYWORD_ONLY and p.default is not p.empty and p.default is not None:
            raise OperandError(f"{name}: operand {p.name} = {p.default!r}; expected None or no default, or a `*,` before it")
        if p.name == "out" or p.name.startswith("_"):
            raise OperandError(f"{name}: an argument named {p.name!r}; `out` is what a rule calls the output, and no name begins with _")
    variadic = any(p.kind is p.VAR_POSITIONAL for p in operands)
    if variadic and len(operands) > 1:
        raise OperandError(f"{name}: operands beside *{operands[-1].name}; expected all of them named, or *xs alone")
    return Signature(
        variadic,
        ("xs",) if variadic else tuple(p.name for p in operands),
        sum(p.default is p.empty for p in operands),
        tuple(p.name for p in statics),
        {p.name: p.default for p in statics if p.default is not p.empty},
    )


def guarded(name: str, operand_names: tuple[str, ...], fn: Callable) -> Callable:
    """Refuses operands by keyword and complex ones; runs while tracing, so it costs nothing afterwards."""

    def forward(*xs, **statics):
        for key in statics:
            if key in operand_names:
                raise by_keyword(name, key)
        for i, x in enumerate(xs):
            aval = aval_of(x)
            if aval is not None and jnp.issubdtype(aval.dtype, jnp.complexfloating):
                raise OperandError(f"{name}: operand {i} is {aval.dtype}; Pullback is for real numbers, pass both parts as one array")
        return fn(*xs, **statics)

    forward.__name__ = name
    return forward


def by_keyword(name: str, operand: str) -> OperandError:
    return OperandError(f"{name}: {operand!r} is an operand; pass it by position")


def explained(name: str, signature: Signature, operands: tuple, statics: dict, error: Exception) -> Exception:
    """A better text for a call that broke the calling law; the error itself where the call was well formed."""
    if isinstance(error, OperandError):
        return error
    variadic, operand_names, required, static_names, _ = signature
    for key in statics:
        if key in operand_names:
            return by_keyword(name, key)
        if key not in static_names:
            return OperandError(f"{name} has no static {key!r}" + near(key, static_names))
    for key, value in statics.items():
        if type(value).__hash__ is None:
            hint = "a tuple" if isinstance(value, list) else "something hashable, such as numbers, strings and tuples of them"
            return OperandError(f"{name}: static {key} is a {type(value).__name__}; pass {hint}")
    if not variadic and not required <= len(operands) <= len(operand_names):
        takes = f"{name}({', '.join(operand_names)}{', *, ' if static_names else ''}{', '.join(static_names)})"
        return OperandError(f"{takes} was called with {len(operands)} operands; statics such as axis go by keyword")
    for i, x in enumerate(operands):
        if isinstance(x, (list, tuple, str, dict)):
            return OperandError(f"{name}: operand {i} is a {type(x).__name__}; pass an array, for example jnp.asarray(...)")
    if "broadcast" in str(error):
        shapes = ", ".join(str(aval.shape) for aval in map(aval_of, operands) if aval is not None)
        return OperandError(f"{name}: shapes {shapes} do not broadcast; counted from the right, sizes must be equal or 1")
    return error
