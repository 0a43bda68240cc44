"""Who is told of each op that runs: `debug_nans` and `first_difference` look on from here. Nobody, mostly, and that costs nothing."""

import contextlib
import functools
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from ..ops import op as op_module
from .scope import SCOPE

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MACHINERY = tuple(os.path.join(PACKAGE, floor) + os.sep for floor in ("lib", "ops", "autograd", "nn"))
OTHERS = (os.path.dirname(jax.__file__) + os.sep, contextlib.__file__, functools.__file__)


class Inspector:
    """Is told of values after they were computed."""

    def called(self, label: str, operands: tuple, statics: dict[str, Any], result: Any) -> None:
        """After an op on plain arrays. label: `scope/op`."""

    def recorded(self, node: Any, operands: Sequence, result: Any) -> None:
        """After an op that was recorded."""

    def pulled(self, node: Any, y_bars: Sequence, x_bars: Sequence) -> None:
        """After the pullback of a node."""


current: Inspector | None = None


@contextlib.contextmanager
def inspecting(inspector: Inspector | None) -> Iterator[None]:
    """Have this one told inside the block, in place of the one before."""
    global current
    before = current
    try:
        begin(inspector)
        yield
    finally:
        begin(before)


def begin(inspector: Inspector | None) -> None:
    global current
    current, op_module.inspect_call = inspector, called if inspector else None


def called(op: Any, operands: tuple, statics: dict[str, Any], result: Any) -> None:
    scope = SCOPE.get()
    if current is not None:
        current.called(f"{scope}/{op.name}" if scope else op.name, operands, statics, result)


def source_line() -> str:
    """The innermost frame that belongs neither to the machinery nor to JAX: a line of a model or of the user's own code."""
    frame = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(MACHINERY + OTHERS):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "an unknown line"
