"""`pb.compile(step)`: jax.jit that starts its trace from a blank context, and says what the program costs."""

import contextlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from ..lib.errors import GraphError
from ..ops.op import RULES
from . import debug
from .graph import WATCHERS, tracked_leaves
from .random import KEYS
from .rules import MATCHED, unmatched
from .scope import SCOPE, setting
from .walk import COLLECT, EXPANDED, LEDGER, Ledger


class MemoryPlan(NamedTuple):
    """What a compiled program needs, in bytes, and how it came about.

    aliased: the part of the outputs that reuses donated arguments. temp: XLA's one temporary arena.
    ledger: bytes kept from forward to backward, by `scope/op`, each array once, arguments left out.
    expanded: the fused ops that were pulled back through their composites; empty at first order.
    """

    arguments: int
    outputs: int
    aliased: int
    temp: int
    compile_seconds: float
    traces: int
    ledger: dict[str, int]
    expanded: tuple[str, ...]

    @property
    def peak(self) -> int:
        return self.arguments + self.outputs - self.aliased + self.temp

    def __str__(self) -> str:
        mib = lambda n: f"{n / 2**20:9.1f} MiB"
        rows = [(name, mib(getattr(self, name))) for name in ("arguments", "outputs", "aliased", "temp", "peak")]
        rows += [("compile", f"{self.compile_seconds:9.2f} s"), ("traces", f"{self.traces:9d}"), ("expanded", f"{len(self.expanded):9d}")]
        kept = sorted(self.ledger.items(), key=lambda item: -item[1])
        lines = [f"{name:<12}{value}" for name, value in rows]
        lines += [f"residuals   {mib(sum(self.ledger.values()))}"] + [f"  {label:<40}{mib(n)}" for label, n in kept[:12]]
        return "\n".join(lines)


class Compiled:
    """A function as one XLA program. `plan(*args)` says what it costs; `traces` counts how often its Python has run."""

    def __init__(self, f: Callable, donate: tuple[int, ...], static: tuple[str, ...]):
        self.f, self.donate, self.static = f, donate, static
        self.__name__, self.__doc__, self.__wrapped__ = getattr(f, "__name__", "step"), f.__doc__, f
        self.traces, self.ledger, self.expanded = 0, Ledger(), []
        self.seconds = 0.0
        self.donating = jax.jit(self.blank, donate_argnums=donate, static_argnames=static)
        self.keeping = jax.jit(self.blank, static_argnames=static)

    def blank(self, *args, **kwargs):
        """f, traced from a blank context: nothing of the caller's scope, keys or collectors is baked in."""
        self.traces += 1
        self.ledger, self.expanded, matched = Ledger(), [], set()
        fresh = {SCOPE: "", KEYS: None, COLLECT: None, WATCHERS: 0, LEDGER: self.ledger, EXPANDED: self.expanded, MATCHED: matched}
        with contextlib.ExitStack() as stack:
            for variable, value in fresh.items():
                stack.enter_context(setting(variable, value))
            out = self.f(*args, **kwargs)
        if tracked_leaves(out):
            raise GraphError(f"{self.__name__} closed over a tracked value and returned it; pass it as an argument")
        if matched:
            unmatched(RULES.value, matched)
        return out

    def __call__(self, *args, **kwargs):
        if tracked_leaves((args, kwargs)):
            return self.f(*args, **kwargs)  # inside somebody's recording: run the Python
        if COLLECT.get() is not None:
            raise GraphError(
                f"pb.collecting is open around the compiled {self.__name__}, which cannot see it; open it inside and return it"
            )
        if debug.enabled:
            return self.checked(*args, **kwargs)
        return self.donating(*args, **kwargs)

    def checked(self, *args, **kwargs):
        """Keep the arguments; when the result holds a NaN, run it again op by op to name the first one."""
        out = self.keeping(*args, **kwargs)
        if debug.bad(out):
            with setting(SCOPE, ""), setting(KEYS, None):
                self.f(*args, **kwargs)
            raise debug.NanError(
                f"{self.__name__} returned a NaN, and no op made one when it was run again eagerly: look at what is computed outside ops "
                "(the optimiser, jax.numpy calls), or at what XLA reorders"
            )
        return out

    def plan(self, *args, **kwargs) -> "MemoryPlan":
        """The memory plan of the program for these arguments (arrays or their shapes), compiled if it was not yet."""
        traces = self.traces
        start = time.perf_counter()
        program = self.donating.lower(*args, **kwargs).compile()
        if self.traces != traces:
            self.seconds = time.perf_counter() - start
        return self.described(program)

    def described(self, program: Any) -> "MemoryPlan":
        memory = program.memory_analysis()
        return MemoryPlan(
            memory.argument_size_in_bytes,
            memory.output_size_in_bytes,
            memory.alias_size_in_bytes,
            memory.temp_size_in_bytes,
            self.seconds,
            self.traces,
            dict(self.ledger.bytes),
            tuple(self.expanded),
        )


def compile(f: Callable | None = None, *, donate: tuple[int, ...] | int = (), static: tuple[str, ...] = ()):
    """`step = pb.compile(step, donate=0)`, also as a decorator.

    donate: positions of arguments whose memory the outputs may take over. static: names of keyword arguments that are
    compiled in. Open keys and collectors inside; rules and precision around it are part of its key.
    """
    donate = (donate,) if isinstance(donate, int) else tuple(donate)
    if f is None:
        return lambda f: Compiled(f, donate, static)
    return Compiled(f, donate, static)
