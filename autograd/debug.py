"""`pb.debug_nans()`: name the op, the direction, the scope and the source line that made the first NaN."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..lib.errors import PullbackError
from . import inspection
from .inspection import Inspector, inspecting, source_line


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


def which(values) -> str:
    """The operands among these that hold a NaN."""
    return " and ".join(f"operand {i}" for i, x in enumerate(values) if bad(x))


class Nans(Inspector):
    """Ops and pullbacks that run eagerly are checked; compiled steps too, and they donate nothing."""

    def called(self, label: str, operands: Sequence, statics: dict[str, Any], result: Any) -> None:
        if bad(result):
            if bad(operands):
                raise NanError(f"forward of {label!r} was given a NaN as {which(operands)}; called at {source_line()}")
            raise NanError(f"forward of {label!r} made a NaN; called at {source_line()}")

    def recorded(self, node: Any, operands: Sequence, result: Any) -> None:
        node.line = source_line()
        self.called(node.label, operands, node.statics, result)

    def pulled(self, node: Any, y_bars: Sequence, x_bars: Sequence) -> None:
        if bad(x_bars):
            if bad(y_bars):
                did = "was given a NaN cotangent"
            else:
                did = f"made a NaN in the cotangent of {which(x_bars)}"
            line = node.line or "a line that was not watched"
            raise NanError(f"backward of {node.label!r} {did}; its forward was called at {line}")


def watching() -> bool:
    return type(inspection.current) is Nans


@contextlib.contextmanager
def debug_nans(on: bool = True) -> Iterator[None]:
    """Check results for NaN inside the block.

    An op that runs eagerly is checked as it runs, and so is its pullback. A step made by `pb.compile` keeps its arguments
    (nothing is donated); when its result holds a NaN, it is run again eagerly from them, and the first op that makes one is
    named. Slow: for looking.
    """
    with inspecting(Nans() if on else None):
        yield
