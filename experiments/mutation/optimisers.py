"""Judging a mutant of an optimiser: twenty steps held against the committed trajectories, and the dtypes that it keeps."""

import ast
import builtins
import functools
import json
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ... import nn
from .operators import Mutant, mutants
from .sources import names_in, source_of
from .trajectories import FILE

OPTIMISERS: dict[str, Callable[..., nn.Optimiser]] = {
    f.__name__: f
    for f in (nn.adam, nn.adamw, nn.lion, nn.sgd, nn.rmsprop, nn.adagrad, nn.ema, nn.clip, nn.clip_by_block_rms, nn.clip_by_global_norm)
}
KEEP_DTYPE = ("ema", "clip", "clip_by_block_rms", "clip_by_global_norm")  # the updates of the others are at least float32
PRECISION = 1e-11


class Params(NamedTuple):
    """A number and a matrix. It can be called, as a Module can: a mask of this form is a pytree all the same."""

    scale: Any
    weight: Any

    def __call__(self, params):
        raise AssertionError("a tree was taken for a function")


class OptimiserJudge:
    """The update of an optimiser and what it calls in nn, against its trajectories."""

    def __init__(self, name: str):
        self.name, self.members = name, members(OPTIMISERS[name])
        self.file = trajectories()
        self.cases = [case for case in self.file["trajectories"] if case["optimiser"] == name]

    def mutants(self) -> list[tuple[int, Mutant]]:
        """(which member, the mutant). Of the function that makes the optimiser only its `update` is changed."""
        making = source_of(self.members[0])
        found = [(0, m._replace(source=with_update(making, m.source))) for m in mutants(update_in(making))]
        return found + [(i, m) for i, member in enumerate(self.members) if i for m in mutants(source_of(member))]

    def build(self, which: int, source: str) -> Callable[..., nn.Optimiser]:
        """The factory as it would be with `source` in the place of one member."""
        namespace: dict[str, Any] = {"__builtins__": builtins}
        for fn in self.members:
            namespace |= fn.__globals__
        for fn in self.members:
            text = source if fn is self.members[which] else source_of(fn)
            exec(compile(text, f"<{fn.__name__}>", "exec"), namespace)
        return namespace[self.name]

    def killed_by(self, mutated: Callable[..., nn.Optimiser], share: slice = slice(None)) -> str | None:
        """The first step of a trajectory that is left, or a dtype that is. share: of the trajectories."""
        with jax.enable_x64(True):
            for number, case in list(enumerate(self.cases))[share]:
                try:
                    step = self.leaves(mutated, case)
                except Exception as error:  # a mutant may raise anything
                    return f"trajectory {number}: {type(error).__name__}"
                if step is not None:
                    return f"trajectory {number}, step {step}"
            try:
                if not all(self.dtypes_are_kept(mutated, case) for case in self.cases[share]):
                    return "dtypes"
            except Exception as error:
                return f"dtypes: {type(error).__name__}"
        return None

    def leaves(self, mutated: Callable[..., nn.Optimiser], case: dict[str, Any]) -> int | None:
        """The first step after which the parameters, or the public part of the state, are not what they should be."""
        optimiser, params = mutated(**given(case)), tree(self.file["params"])
        state = optimiser.init(params)
        if case["first_count"]:
            state = state._replace(count=jnp.asarray(case["first_count"], jnp.int32))
        for i, g in enumerate(self.file["gradients"][case["gradients"]]):
            updates, state = optimiser.update(tree(g), state, params)
            params = nn.apply_updates(params, updates)
            pairs = [(params, case["params"][i]), *((getattr(state, name), values[i]) for name, values in case["state"].items())]
            if not all(close(*pair) for pair in pairs):
                return i
        return None

    def dtypes_are_kept(self, mutated: Callable[..., nn.Optimiser], case: dict[str, Any]) -> bool:
        """Weights in bfloat16 with wider gradients, and the other way about: a state keeps its dtypes, an update has its own."""
        for weights, gradients in ((jnp.bfloat16, jnp.float64), (jnp.float32, jnp.bfloat16)):
            params, grads = (jax.tree.map(lambda x, d=d: x.astype(d), tree(self.file["params"])) for d in (weights, gradients))
            optimiser = mutated(**given(case))
            before = optimiser.init(params)
            updates, after = optimiser.update(grads, before, params)
            if kinds(before) != kinds(after):
                return False
            if self.name in KEEP_DTYPE and kinds(updates) != kinds(grads):
                return False
        return True

    def outputs(self, mutated: Callable[..., nn.Optimiser], count: int) -> list[np.ndarray]:
        """Updates and state over four steps with `count` random gradients each, for every settings."""
        rng, found = np.random.default_rng(0), []
        for case in self.cases:
            params = Params(jnp.asarray(0.7), jnp.asarray(rng.normal(size=(count, 1))))
            optimiser = mutated(**given(case))
            state = optimiser.init(params)
            for _ in range(4):
                grads = Params(jnp.asarray(rng.normal()), jnp.asarray(rng.normal(size=(count, 1))))
                updates, state = optimiser.update(grads, state, params)
                found += map(np.asarray, jax.tree.leaves((updates, state)))
        return found


def members(factory: Callable) -> list[Callable]:
    """The factory, then every function of nn that its `update` calls, and that those call."""
    update = next(c for c in factory.__code__.co_consts if isinstance(c, types.CodeType) and c.co_name == "update")
    found, frontier = [factory], called(factory, update)
    while frontier:
        fn = frontier.pop(0)
        if fn not in found:
            found.append(fn)
            frontier += called(fn, fn.__code__)
    return found


def called(fn: Callable, code: types.CodeType) -> list[Any]:
    """The functions of nn that a piece of fn's code names, in a fixed order."""
    named = (fn.__globals__.get(name) for name in sorted(names_in(code)))
    return [f for f in named if isinstance(f, types.FunctionType) and f.__module__.startswith(f"{nn.__name__}.")]


def update_in(source: str) -> str:
    """The source of the `update` inside a factory's."""
    return ast.unparse(next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef) and node.name == "update"))


def with_update(source: str, update: str) -> str:
    """The factory's source with another `update` in it."""
    module, new = ast.parse(source), ast.parse(update).body[0]
    body = module.body[0].body  # type: ignore[attr-defined]
    module.body[0].body = [new if isinstance(s, ast.FunctionDef) and s.name == "update" else s for s in body]  # type: ignore[attr-defined]
    return ast.unparse(module)


@functools.cache
def trajectories() -> dict[str, Any]:
    return json.loads(FILE.read_text())


def given(case: dict[str, Any]) -> dict[str, Any]:
    """The settings as the factory takes them: a list as a schedule, a mask as a tree, numbers as arrays where the case says so."""

    def one(name: str, value):
        if isinstance(value, list):
            return lambda count: jnp.asarray(value)[count]
        if isinstance(value, dict):
            return Params(**value)
        plain = isinstance(value, bool) or value is None or case["given"] == "numbers"
        return value if plain else np.asarray(value)

    return {name: one(name, value) for name, value in case["settings"].items()}


def tree(numbers: list[float]) -> Params:
    return Params(jnp.asarray(numbers[0]), jnp.asarray(numbers[1:]).reshape(2, 2))


def close(came: Any, due: Any) -> bool:
    """A number, or the five of a tree, against what the file says."""
    came, due = np.concatenate([np.ravel(x) for x in jax.tree.leaves(came)]), np.array(due, float)
    return bool(np.allclose(came, due, rtol=PRECISION, atol=PRECISION, equal_nan=True))


def kinds(tree: Any) -> tuple[Any, list]:
    return jax.tree.structure(tree), [(x.shape, x.dtype, x.weak_type) for x in map(jnp.asarray, jax.tree.leaves(tree))]
