"""Taking a function's source, with the plain helpers it calls in its own file, and building it again with a mistake in it."""

import ast
import builtins
import inspect
import textwrap
import types
from collections.abc import Callable

from ... import ops
from ...lib.errors import OperandError
from ...ops.op import Op


def source_of(fn: Callable) -> str:
    """The source of a function without its decorators."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
    except (OSError, TypeError, SyntaxError):
        raise OperandError(f"the source of {getattr(fn, '__name__', fn)!r} cannot be read, so it cannot be mutated") from None
    node = tree.body[0]
    if not isinstance(node, ast.FunctionDef):
        raise OperandError(f"{getattr(fn, '__name__', fn)!r} is not written as a def; a rule to be mutated needs one")
    node.decorator_list = []
    return ast.unparse(node)


def family(fn: Callable) -> list[Callable]:
    """The function and the plain functions of its own module that it calls, and those that they call."""
    found, frontier = [fn], [fn]
    while frontier:
        now = frontier.pop()
        for name in names_in(now.__code__):
            other = now.__globals__.get(name)
            if isinstance(other, types.FunctionType) and other.__module__ == fn.__module__ and other not in found:
                found.append(other)
                frontier.append(other)
    return found


def names_in(code: types.CodeType) -> set[str]:
    """Global names that a function reads, its inner functions included."""
    inner = (names_in(const) for const in code.co_consts if isinstance(const, types.CodeType))
    return set(code.co_names).union(*inner)


def rebuilt(fn: Callable, members: list[Callable], mutated: Callable, source: str) -> Callable:
    """The function as it would be with `source` in the place of one member of its family."""
    # A mutant may call an op that its file does not import; `any` is Python's unless the file says otherwise.
    namespace = {name: value for name, value in vars(ops).items() if not hasattr(builtins, name)}
    namespace.update(fn.__globals__)
    namespace.update(inspect.getclosurevars(fn).nonlocals)
    namespace.setdefault("__builtins__", builtins)
    for member in members:
        exec(compile(source if member is mutated else source_of(member), f"<{member.__name__}>", "exec"), namespace)
    return namespace[fn.__name__]


def fields_of(op: Op) -> tuple[str, ...]:
    """What a rule may read: operands that are kept or known by shape, and residuals."""
    return tuple(name for name in op.record._fields if name != "out" or "out" in op.saves)
