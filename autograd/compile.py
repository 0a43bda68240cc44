"""`pb.compile(step)`: jax.jit that starts its trace from a blank context, and says what the program costs."""

import contextlib
import functools
import time
import types
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, overload

import jax
from jax.core import Tracer

from ..lib.errors import GraphError
from ..ops.rule import RULES
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


@jax.tree_util.register_static
class Notes:
    """What the trace of one program saw. It rides on the program's output as structure, so it is found wherever the program is."""

    def __init__(self):
        self.ledger, self.expanded, self.seconds = Ledger(), [], 0.0
        self.matched: set[str] = set()


# XLA for CPUs takes barriers out before it merges equal computations: what a backward recomputes behind one would be merged
# with the forward's and kept. Without that pass they hold, through to the schedule. Small loops must then stay loops: the other
# form that XLA gives them, a call, cannot hold a barrier, and compiling it ends the process.
OPTIONS = {"cpu": {"xla_disable_hlo_passes": "cse_barrier_expander,small-while-loop-hoisting"}}


def usual_options() -> dict[str, Any]:
    """Those of the device that programs run on now."""
    device = getattr(jax.config, "jax_default_device", None)
    return OPTIONS.get(getattr(device, "platform", None) or jax.default_backend(), {})


class Compiled:
    """A function as one XLA program. `plan(*args)` says what it costs; `traces` counts how often its Python has run."""

    def __init__(self, f: Callable, donate: tuple[int, ...], static: tuple[str, ...], options: Mapping[str, Any]):
        self.f, self.traces, self.options = f, 0, options
        self.__name__, self.__doc__, self.__wrapped__ = getattr(f, "__name__", "step"), f.__doc__, f

        @functools.wraps(f)  # jax.jit reads names and positions off the signature of f
        def program(*args, **kwargs):
            return self.blank(args, kwargs)

        program.__name__ = self.__name__
        self.program, self.donate, self.static = program, donate, static
        self.inner = jax.jit(program, donate_argnums=donate, static_argnames=static)  # part of another program
        self.keeping = jax.jit(program, static_argnames=static)

    @functools.cached_property
    def donating(self):
        """The program; made at the first call, for only then is it certain which device JAX runs on."""
        options = {**usual_options(), **self.options}
        return jax.jit(self.program, donate_argnums=self.donate, static_argnames=self.static, compiler_options=options or None)

    def __get__(self, instance, owner=None) -> Any:
        """As a method it is given its object, like any function."""
        return self if instance is None else types.MethodType(self, instance)

    def blank(self, args: tuple, kwargs: dict) -> tuple[Any, Notes]:
        """f, traced from a blank context: nothing of the caller's scope, keys or collectors is baked in."""
        self.traces += 1
        notes, outermost = Notes(), LEDGER.get() is None
        for x in jax.tree.leaves((args, kwargs)):
            notes.ledger.argument(x)
        fresh = {SCOPE: "", KEYS: None, COLLECT: None, WATCHERS: 0, LEDGER: notes.ledger, EXPANDED: notes.expanded, MATCHED: notes.matched}
        with contextlib.ExitStack() as stack:
            for variable, value in fresh.items():
                stack.enter_context(setting(variable, value))
            out = self.f(*args, **kwargs)
        if tracked_leaves(out):
            raise GraphError(f"{self.__name__} closed over a tracked value and returned it; pass it as an argument")
        if notes.matched and outermost:
            unmatched(RULES.value, notes.matched)
        notes.ledger.seen.clear()
        return out, notes

    def __call__(self, *args, **kwargs):
        if tracked_leaves((args, kwargs)):
            return self.f(*args, **kwargs)  # inside somebody's recording: run the Python
        if COLLECT.get() is not None:
            raise GraphError(
                f"pb.collecting is open around the compiled {self.__name__}, which cannot see it; open it inside and return it"
            )
        out, notes = self.run(args, kwargs)
        matched = MATCHED.get()
        if matched is not None and notes.matched:
            if LEDGER.get() is not None:
                matched |= notes.matched  # this call is part of a trace that will report
            else:
                matched.update(pattern for pattern, _ in RULES.value)  # the program's own trace has reported
        if debug.watching() and debug.bad(out):
            self.blame(args, kwargs)
        return out

    def run(self, args: tuple, kwargs: dict) -> tuple[Any, Notes]:
        """Alone, or as part of the program that is being traced around this call, whose options are its own."""
        if debug.watching():
            return self.keeping(*args, **kwargs)
        if any(isinstance(x, Tracer) for x in jax.tree.leaves((args, kwargs))):
            return self.inner(*args, **kwargs)
        try:
            return self.donating(*args, **kwargs)
        except ValueError as error:
            if "compiler_options" not in str(error):
                raise
            return self.inner(*args, **kwargs)  # a trace that none of the arguments shows

    def blame(self, args: tuple, kwargs: dict) -> NoReturn:
        """The result held a NaN: run again op by op, from the arguments that were kept, to name what made the first one."""
        with setting(SCOPE, ""), setting(KEYS, None):
            self.f(*args, **kwargs)
        given = "its arguments hold one already, and " if debug.bad((args, kwargs)) else ""
        raise debug.NanError(
            f"{self.__name__} returned a NaN; {given}no op made one when it was run again eagerly: look at what is computed outside ops "
            "(the optimiser, jax.numpy calls), or at what XLA reorders"
        )

    def text(self, *args, **kwargs) -> str:
        """What XLA made of the program for these arguments, instruction by instruction; compiled if it was not yet."""
        return self.donating.lower(*args, **kwargs).compile().as_text() or ""

    def plan(self, *args, **kwargs) -> MemoryPlan:
        """The memory plan of the program for these arguments (arrays or their shapes), compiled if it was not yet."""
        traces = self.traces
        start = time.perf_counter()
        program = self.donating.lower(*args, **kwargs).compile()
        seconds = time.perf_counter() - start
        notes = program.out_tree.unflatten([None] * program.out_tree.num_leaves)[1]
        if self.traces != traces:
            notes.seconds = seconds
        memory: Any = program.memory_analysis()
        return MemoryPlan(
            memory.argument_size_in_bytes,
            memory.output_size_in_bytes,
            memory.alias_size_in_bytes,
            memory.temp_size_in_bytes,
            notes.seconds,
            self.traces,
            dict(notes.ledger.bytes),
            tuple(notes.expanded),
        )


@overload
def compile(
    f: Callable, *, donate: tuple[int, ...] | int = (), static: tuple[str, ...] | str = (), options: Mapping[str, Any] = ...
) -> Compiled: ...
@overload
def compile(
    *, donate: tuple[int, ...] | int = (), static: tuple[str, ...] | str = (), options: Mapping[str, Any] = ...
) -> Callable[[Callable], Compiled]: ...
def compile(
    f: Callable | None = None,
    *,
    donate: tuple[int, ...] | int = (),
    static: tuple[str, ...] | str = (),
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """`step = pb.compile(step, donate=0)`, also as a decorator.

    donate: positions of arguments whose memory the outputs may take over. static: names of arguments that are compiled in. options: of
    XLA, by name, beside those that it is always given; a program that is part of another has the other's.
    Open keys and collectors inside; rules and precision around it are part of its key.
    """

    def compiled(f: Callable) -> Compiled:
        positions, names = (donate,) if isinstance(donate, int) else tuple(donate), (static,) if isinstance(static, str) else tuple(static)
        return Compiled(f, positions, names, options)

    return compiled if f is None else compiled(f)
