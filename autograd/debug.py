"""Watching ops one by one, and `pb.debug_nans()`: name the op, the direction, the scope and the source line that made the first NaN."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..lib.errors import PullbackError
from ..ops import op as op_module
from .scope import SCOPE

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MACHINERY = tuple(os.path.join(PACKAGE, floor) + os.sep for floor in ("lib", "ops", "autograd", "nn"))
OTHERS = (os.path.dirname(jax.__file__) + os.sep, contextlib.__file__, functools.__file__)


class Watcher(NamedTuple):
    """What is called after each op on plain arrays, each op that was recorded and each pullback, all of which may be traced."""

    called: Callable[[Any, tuple, dict, Any], object]  # op, operands, statics, result
    recorded: Callable[[Any, Sequence, Any], object]  # node, operands, result
    pulled: Callable[[Any, Sequence, Sequence], object]  # node, cotangents of its outputs, cotangents of its operands


watcher: Watcher | None = None
watching = False  # debug_nans is on: ops and pullbacks that run eagerly are checked; compiled steps too, and they donate nothing


class NanError(PullbackError):
    """A NaN was met under `debug_nans`."""


def bare(x):
    while hasattr(x, "node"):
        x = x.value
    return x


def bad(tree) -> bool:
    """Does any float of the tree whose value is known hold a NaN?"""
    values = [x for x in map(bare, jax.tree.leaves(tree)) if isinstance(x, (jax.Array, np.ndarray, float)) and not isinstance(x, Tracer)]
    return any(jnp.issubdtype(jnp.result_type(x), jnp.floating) and bool(jnp.isnan(x).any()) for x in values)


def source_line() -> str:
    """The innermost frame that belongs neither to the machinery nor to JAX: a line of a model or of the user's own code."""
    frame = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(MACHINERY + OTHERS):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "an unknown line"


def which(values) -> str:
    """The operands among these that hold a NaN."""
    return " and ".join(f"operand {i}" for i, x in enumerate(values) if bad(x))


def forward(label: str, operands: Sequence, result) -> None:
    if bad(result):
        if bad(operands):
            raise NanError(f"forward of {label!r} was given a NaN as {which(operands)}; called at {source_line()}")
        raise NanError(f"forward of {label!r} made a NaN; called at {source_line()}")


def called(op: Any, operands: tuple, statics: dict, result) -> None:
    """After an op on plain arrays."""
    scope = SCOPE.get()
    forward(f"{scope}/{op.name}" if scope else op.name, operands, result)


def recorded(node: Any, operands: Sequence, result: Any) -> None:
    """After an op that was recorded."""
    node.line = source_line()
    forward(node.label, operands, result)


def pulled(node: Any, y_bars: Sequence, x_bars: Sequence) -> None:
    """After the pullback of a node."""
    if bad(x_bars):
        if bad(y_bars):
            did = "was given a NaN cotangent"
        else:
            did = f"made a NaN in the cotangent of {which(x_bars)}"
        raise NanError(f"backward of {node.label!r} {did}; its forward was called at {node.line or 'a line that was not watched'}")


NANS = Watcher(called, recorded, pulled)


@contextlib.contextmanager
def watched(by: Watcher | None) -> Iterator[None]:
    """Show what runs inside the block to one watcher, or to none."""
    global watcher
    before = watcher
    try:
        watcher, op_module.inspect_call = by, by and by.called
        yield
    finally:
        watcher, op_module.inspect_call = before, before and before.called


@contextlib.contextmanager
def debug_nans(on: bool = True) -> Iterator[None]:
    """Check results for NaN inside the block.

    An op that runs eagerly is checked as it runs, and so is its pullback. A step made by `pb.compile` keeps its arguments
    (nothing is donated); when its result holds a NaN, it is run again eagerly from them, and the first op that makes one is
    named. Slow: for looking.
    """
    global watching
    before = watching
    with watched(NANS if on else None):
        try:
            watching = on
            yield
        finally:
            watching = before
