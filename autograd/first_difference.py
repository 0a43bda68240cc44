"""`pb.first_difference(f, g, *args)`: where two programs that ought to be the same first are not.

Each program becomes a sequence of named arrays, in the order in which they are computed:

    blocks.0.mlp/gelu                  what an op gave (a second one of that name is blocks.0.mlp/gelu#2)
    blocks.0.mlp/gelu/backward         the cotangent that reached it, all its users' together
    blocks.0.mlp/gelu/backward/x       the one that its rule gave for an operand
    gradient/0/blocks.0.mlp.up.weight  of an argument
    output                             what the function returned; a dict of arrays by its own names

and the sequences are compared by name. What was computed before the first difference was the same, so its op is to blame.
"""

import collections
import hashlib
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import get_opaque_trace_state
from jax.tree_util import keystr, tree_flatten_with_path

from ..lib.errors import OperandError, UnknownName, near
from ..lib.gap import Gap, gap, offs
from ..ops.rule import is_float
from .compile import Compiled, usual_options
from .graph import Rerun, plain
from .inspection import Inspector, inspecting, source_line
from .scope import MACHINERY, SCOPE, setting
from .transforms import can_be_perturbed, is_module, vjp

Put = Callable[[str, Any, str], None]  # takes a name, its array, and the source line behind it


class Difference(NamedTuple):
    """name: see the head of this file. gap: None where the shapes differ. line: of the source, where the op was called."""

    name: str
    gap: Gap | None
    text: str
    line: str

    def __str__(self) -> str:
        where = f" (called at {self.line})" if self.line else ""
        return f"{self.name}{where}: {self.text}"


class Comparison(NamedTuple):
    """same: names that were compared and the same, up to the first difference or all of them. first: None if there is no
    difference. only_f, only_g: names that the other program does not have. notes: what else is to be known."""

    same: int
    first: Difference | None
    only_f: tuple[str, ...]
    only_g: tuple[str, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        if self.first is None:
            lines = [f"no difference: {self.same:,} values are the same"]
        else:
            lines = [f"first difference, after {self.same:,} values that are the same:", f"  {self.first}"]
        for who, names in (("the first", self.only_f), ("the second", self.only_g)):
            if names:
                more = f" and {len(names) - 4:,} more" if len(names) > 4 else ""
                lines.append(f"only {who} program has {', '.join(names[:4])}{more}")
        return "\n".join([*lines, *self.notes])


class Values(Inspector):
    """Names what is computed, in eager calls or in the one trace that it was made in; what belongs to an inner trace is left out."""

    def __init__(self, put: Put):
        self.put, self.trace = put, get_opaque_trace_state()
        self.counts: collections.Counter[str] = collections.Counter()
        self.names: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    def here(self, label: str) -> bool:
        return get_opaque_trace_state() == self.trace and MACHINERY not in label

    def name(self, label: str) -> str:
        self.counts[label] += 1
        return label if self.counts[label] == 1 else f"{label}#{self.counts[label]}"

    def called(self, label: str, operands: Sequence, statics: dict[str, Any], result: Any) -> None:
        if self.here(label):
            self.several(self.name(label), result, source_line())

    def recorded(self, node: Any, operands: Sequence, result: Any) -> None:
        if self.here(node.label):
            node.line = source_line()
            self.names[node] = self.name(node.label)
            self.several(self.names[node], result, node.line)

    def pulled(self, node: Any, y_bars: Sequence, x_bars: Sequence) -> None:
        if isinstance(node.op, Rerun) or not self.here(node.label):
            return
        name, line = f"{self.names.get(node, node.label)}/backward", node.line or ""
        self.several(name, y_bars if node.many else y_bars[0], line)
        operands = [f"{node.op.operand_names[0]}.{i}" for i in range(len(x_bars))] if node.op.variadic else node.op.operand_names
        for operand, x_bar in zip(operands, x_bars):
            if x_bar is not None:
                self.put(f"{name}/{operand}", plain(x_bar), line)

    def several(self, name: str, result: Any, line: str) -> None:
        if isinstance(result, (tuple, list)):
            for i, y in enumerate(result):
                if y is not None:
                    self.put(f"{name}.{i}", plain(y), line)
        else:
            self.put(name, plain(result), line)


class Run(NamedTuple):
    """What a program computed. values: what is held of each, by name, in order; lines: of the source; outputs: names among them."""

    values: dict[str, Any]
    lines: dict[str, str]
    outputs: list[str]
    notes: list[str]


def computed(f: Callable, args: tuple, keep: Callable[[str, Any], Any]) -> Run:
    """Run a program. keep: what is to be held of a value, from its name and itself."""
    inside = getattr(f, "__wrapped__", None) if isinstance(f, Compiled) or hasattr(f, "lower") else None
    if inside is None:
        return eagerly(f, args, keep)
    runs: list[Run] = []

    def program(*args):
        with setting(SCOPE, ""):
            runs.append(eagerly(inside, args, lambda name, x: x))
        return list(runs[-1].values.values())

    arrays = jax.jit(program, compiler_options=usual_options())(*args)
    run = runs[-1]
    run.notes.append("a compiled program was run with all that it computes as outputs; XLA may fuse it otherwise when nobody looks")
    return run._replace(values={name: keep(name, x) for name, x in zip(run.values, arrays)})


def eagerly(f: Callable, args: tuple, keep: Callable[[str, Any], Any]) -> Run:
    """Call f, and pull a 1 back through it if what it gives is one float that ops have made."""
    run = Run({}, {}, [], [])

    def put(name: str, x: Any, line: str = "") -> None:
        run.values[name], run.lines[name] = keep(name, x), line

    values = Values(put)
    with inspecting(values):
        out = f(*args)
    places = [i for i, x in enumerate(args) if any(map(can_be_perturbed, jax.tree.leaves(x, is_leaf=is_module)))]
    if run.values and places and isinstance(out, jax.Array) and out.shape == () and is_float(out):
        run.values.clear()
        values = Values(put)
        of_floats = lambda *floats: f(*[floats[places.index(i)] if i in places else x for i, x in enumerate(args)])
        with inspecting(values):
            out, pullback = vjp(of_floats, *[args[i] for i in places], allow_unused=True)
            bars = pullback(jnp.ones((), out.dtype))
        for i, bar in zip(places, bars):
            for name, x in named(bar, f"gradient/{i}").items():
                put(name, x)
    for name, x in named(jax.tree.map(plain, out), "output").items():
        put(name, x)
        run.outputs.append(name)
    return run


def named(tree: Any, root: str) -> dict[str, Any]:
    """The arrays of a tree; those of a dict that a function returned have their own names."""
    if root == "output" and isinstance(tree, Mapping) and all(isinstance(name, str) for name in tree):
        return dict(tree)
    return {"/".join(filter(None, [root, keystr(path, simple=True, separator="/")])): x for path, x in tree_flatten_with_path(tree)[0]}


def first_difference(f: Callable, g: Callable, *args: Any, limit: float = 0.0) -> Comparison:
    """The first value that f(*args) and g(*args) compute differently, forward or backward, named by scope and op.

    Two rules or two precisions, each under its `with` inside a function; compiled and eager (a function from `pb.compile` or `jax.jit` is
    looked into); one of ours and any function that returns a dict of arrays by the names above, or by scope alone
    (`blocks.0.attn`: the last value that is computed there). A function that gives one float is pulled back, too, with respect to
    every argument that holds floats. A context that it opens has ended by then: take the gradient inside (`pb.value_and_grad`) to
    have it hold for the backward as well.

    What a compiled loop computes inside has no names; what comes out of it has.

    limit: ‖a − b‖/‖b‖ up to which two values count as the same; at 0 they are to be the same to the bit, and the programs run twice, so
    that no more is held than they hold. Raises UnknownName where a name that a function returned is not in the other, and
    OperandError where nothing can be compared.
    """
    keep = (lambda name, x: array_of(x)) if limit else (lambda name, x: digest(array_of(x)))
    runs = [computed(h, args, keep) for h in (f, g)]
    pairs = matched(*runs)
    if not pairs:
        raise OperandError("first_difference: the two programs have no name in common, so there is nothing to compare")
    differs = lambda a, b: a.shape != b.shape or offs(a, b)[1] > limit if limit else a != b
    first = next((i for i, (a, b) in enumerate(pairs) if differs(runs[0].values[a], runs[1].values[b])), None)
    difference = None
    if first is not None:
        a, b = (
            computed(h, args, only(name)).values[name] if not limit else run.values[name]
            for h, name, run in zip((f, g), pairs[first], runs)
        )
        difference = described(pairs[first][0], a, b, runs[0].lines[pairs[first][0]])
    only_f, only_g = (tuple(name for name in run.values if name not in names) for run, names in zip(runs, map(set, zip(*pairs))))
    notes = tuple(dict.fromkeys(runs[0].notes + runs[1].notes))
    return Comparison(len(pairs) if first is None else first, difference, only_f, only_g, notes)


def only(wanted: str) -> Callable[[str, Any], Any]:
    return lambda name, x: array_of(x) if name == wanted else None


def array_of(x: Any) -> np.ndarray:
    if hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    return np.asarray(x)


def digest(x: np.ndarray) -> tuple:
    return x.shape, x.dtype, hashlib.blake2b(np.ascontiguousarray(x).reshape(-1).view(np.uint8).data).digest()


def described(name: str, a: np.ndarray, b: np.ndarray, line: str) -> Difference:
    if a.shape != b.shape:
        return Difference(name, None, f"shapes {a.shape} and {b.shape}", line)
    dtypes = "" if a.dtype == b.dtype else f"{a.dtype} and {b.dtype}: "
    return Difference(name, gap(a, b), f"{dtypes}{gap(a, b)}", line)


def matched(a: Run, b: Run) -> list[tuple[str, str]]:
    """The names of what is to be compared, in the order of the program that computes more. Of one that only returns arrays, a name may
    also be a scope of the other."""
    if len(b.values) > len(a.values):
        return [(x, y) for y, x in matched(b, a)]
    foreign, order = len(b.values) == len(b.outputs) < len(a.values), {name: i for i, name in enumerate(a.values)}
    pairs = [(name if name in a.values else last(name, a), name) for name in b.values if foreign or name in a.values]
    return sorted(pairs, key=lambda pair: order[pair[0]])


def last(scope: str, run: Run) -> str:
    """What the forward computes last in a scope."""
    found = [name for name in run.values if name.startswith((f"{scope}/", f"{scope}.")) and "/backward" not in name]
    if not found:
        raise UnknownName(f"first_difference: no value and no scope {scope!r}" + near(scope, run.values))
    return found[-1]
