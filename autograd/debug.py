"""`pb.debug_nans()`: name the op, the direction, the scope and the source line that made the first NaN."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from ..lib.errors import PullbackError

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

enabled = False  # debug_nans is on: compiled steps are checked and donate nothing
watching = False  # every recorded op and every pullback is checked, eagerly


class NanError(PullbackError):
    """A computation made a NaN out of operands without one."""


def bare(x):
    while hasattr(x, "node"):
        x = x.value
    return x


def bad(tree) -> bool:
    """Does any concrete float array of the tree hold a NaN?"""
    for x in jax.tree.leaves(tree):
        x = bare(x)
        if isinstance(x, jax.Array) and not isinstance(x, Tracer) and jnp.issubdtype(x.dtype, jnp.floating):
            if bool(jnp.isnan(x).any()):
                return True
    return False


def source_line() -> str:
    """The innermost frame of the user's own code."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE + os.sep) or name.startswith(os.path.join(PACKAGE, "tests")):
            if f"{os.sep}jax{os.sep}" not in name and "contextlib" not in name:
                return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return "unknown line"


def recorded(node: Any, result: Any) -> None:
    node.line = source_line()
    if bad(result):
        raise NanError(f"forward of {node.label!r} made a NaN; called at {node.line}")


def pulled(node: Any, x_bars: Any) -> None:
    if bad(x_bars):
        which = [i for i, bar in enumerate(x_bars) if bar is not None and bad(bar)]
        raise NanError(
            f"backward of {node.label!r} made a NaN in the cotangent of operand {which[0]}; its forward was called at {node.line}"
        )


@contextlib.contextmanager
def debug_nans(on: bool = True) -> Iterator[None]:
    """Check results for NaN inside the block.

    An op that runs eagerly is checked as it runs. A step made by `pb.compile` keeps its arguments (nothing is donated); when
    its result holds a NaN, it is run again eagerly from them, and the first op that makes one is named. Slow: for looking.
    """
    global enabled, watching
    before = enabled, watching
    enabled = watching = on
    try:
        yield
    finally:
        enabled, watching = before
