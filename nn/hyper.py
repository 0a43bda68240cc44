"""The numbers of an optimiser are arguments of the compiled step, never constants of it.

A setting given as a plain number is written into the state by `init` (`state.hyper`, scalars by name) and read from there by
`update`. So one program serves every learning rate, a `jax.vmap` over states is a sweep, and a checkpoint brings its numbers
along. Change one with `with_hyperparameters(state, learning_rate=1e-4)`; another optimiser around an old state does not
change what the state carries.

A setting given as an array, traced or not, or as a schedule (step -> value, evaluated inside the program) is used as given
and is not in the state. So `adamw(lr).update(...)` inside a step whose argument is `lr` works as well.
"""

import math
import numbers
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from ..lib.errors import ConfigError, UnknownName, near

Setting = float | Float[Array, ""] | np.ndarray
Hyper = dict[str, Float[Array, ""]]


def at_least_0(value: float) -> bool:
    """finite and 0 or more"""
    return 0 <= value < math.inf


def below_1(value: float) -> bool:
    """from 0 up to, but not, 1"""
    return 0 <= value < 1


def above_0(value: float) -> bool:
    """above 0; inf for no limit"""
    return value > 0


def setting(name: str, value, allowed: Callable[[float], bool], *, schedule: bool = False) -> Any:
    """A setting as it came: a float that is `allowed`, an array, or a schedule where one makes sense."""
    if isinstance(value, numbers.Real) and allowed(float(value)):
        return float(value)
    if isinstance(value, (jax.Array, np.ndarray)) or (schedule and callable(value)):
        return value
    kinds = "an array or a schedule (step -> value)" if schedule else "or an array"
    raise ConfigError(f"{name} is {value!r}; expected a number {allowed.__doc__}, {kinds}")


def held(settings: dict[str, Any]) -> Hyper:
    """The plain numbers, as the scalars that a state carries: float32, or float64 where that is enabled."""
    return {name: jnp.asarray(value, float) for name, value in settings.items() if isinstance(value, float)}


def carried(settings: dict[str, Any], hyper: Hyper) -> dict[str, Any]:
    """Every setting: a plain number as the state carries it, an array or a schedule as it was given."""

    def now(name: str, value):
        if isinstance(value, float):
            return hyper.get(name, value)
        return value

    return {name: now(name, value) for name, value in settings.items()}


def current(settings: dict[str, Any], hyper: Hyper, count: Int[Array, ""]) -> dict[str, Any]:
    """The value of every setting at this step."""
    return {name: value(count) if callable(value) else value for name, value in carried(settings, hyper).items()}


def carries(node) -> bool:
    """Is it the state of one of our optimisers?"""
    return isinstance(node, tuple) and "hyper" in getattr(node, "_fields", ())


def hyperparameters(state: PyTree) -> Hyper:
    """The numbers that a state carries, by name, those of chained optimisers together."""
    return {name: x for node in jax.tree.leaves(state, is_leaf=carries) if carries(node) for name, x in node.hyper.items()}


def with_hyperparameters(state: PyTree, **values) -> PyTree:
    """The state with other numbers: same shapes and dtypes, so a compiled step runs on without a new trace.

    In a chain every optimiser that carries the name gets the value. A setting that follows a schedule, or was given as an
    array, is not carried: UnknownName.
    """
    known = hyperparameters(state)
    for name in values:
        if name not in known:
            raise UnknownName(f"the state carries no hyperparameter {name!r} (does it follow a schedule?)" + near(name, known))

    def put(node):
        if not carries(node):
            return node
        return node._replace(hyper={name: jnp.asarray(values.get(name, x), x.dtype) for name, x in node.hyper.items()})

    return jax.tree.map(put, state, is_leaf=carries)
