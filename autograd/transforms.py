"""Derivatives of functions: vjp, grad, value_and_grad, jvp, hvp, jacobian, hessian.

Arguments are pytrees. A Module stands for its parameters: its gradient is a dict by parameter name.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..lib.errors import GraphError, OperandError
from ..ops import reshape, stack
from ..ops.rule import aval_of, is_float
from .graph import LEVELS, LIVE, WATCHERS, Tensor, escaped, leaf, plain, recording, strip, tracked_leaves, zeros
from .scope import setting
from .walk import LEDGER, walk


def is_module(x) -> bool:
    """What holds parameters by name says so by `__named_parameters__` and `__with_parameters__` (nn.Module does)."""
    return hasattr(type(x), "__named_parameters__")


def can_be_perturbed(x) -> bool:
    return is_module(x) or isinstance(x, float) or is_float(x)


def refuse_complex(x, position: int) -> None:
    if isinstance(x, complex) or (hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.complexfloating)):
        came = getattr(x, "dtype", "complex")
        raise OperandError(f"argument {position} holds {came}; Pullback is for real numbers: pass both parts as one array")


class Parameters(dict):
    """The leaves of a Module by name; as a class of its own it is one leaf to jax.tree, apart from a user's dict."""


def watch(argument, level: int, position: int) -> tuple[Any, Any]:
    """(what the function is given, the same tree with a leaf, or the leaves of a Module, where a gradient is owed)."""
    ledger = LEDGER.get()

    def leaf_of(x):
        if ledger is not None:
            ledger.argument(plain(x))
        return leaf(x, level)

    def one(x):
        if is_module(x):
            leaves = Parameters({name: leaf_of(value) for name, value in x.__named_parameters__().items()})
            return x.__with_parameters__(dict(leaves)), leaves
        refuse_complex(x, position)
        if isinstance(x, (float, np.ndarray, np.floating)):
            x = jnp.asarray(x)
        x = leaf_of(x) if is_float(x) else x
        return x, x

    flat, tree = jax.tree.flatten(argument, is_leaf=is_module)
    given, leaves = zip(*map(one, flat)) if flat else ((), ())
    return tree.unflatten(given), tree.unflatten(leaves)


def gather(leaves, end: dict, allow_unused: bool):
    """The cotangents that a walk brought to the leaves: zeros where none came, `None` for what cannot be perturbed."""

    def bar(x):
        if type(x) is not Tensor:
            return None
        arrived = end.get(x.node)
        return zeros(x.node.avals[0]) if arrived is None else arrived[0]

    def one(x):
        if type(x) is not Parameters:
            return bar(x)
        unused = [] if allow_unused else [name for name, t in x.items() if t.node not in end]
        if unused:
            shown = ", ".join(unused[:8]) + (f" and {len(unused) - 8} more" if len(unused) > 8 else "")
            raise GraphError(f"no gradient reaches the parameters {shown}; use them, or pass allow_unused=True to get zeros")
        return {name: bar(t) for name, t in x.items()}

    return jax.tree.map(one, leaves)


def seeds_for(outputs: Sequence, tree, y_bar, what: str = "cotangent") -> list:
    """The seed of each output, checked against it. `None` anywhere stands for zeros."""
    try:
        flat = tree.flatten_up_to(y_bar)
    except ValueError:
        raise OperandError(f"the {what} has structure {jax.tree.structure(y_bar)}; expected {tree}") from None
    for i, (y, seed) in enumerate(zip(outputs, flat)):
        if seed is None or not is_float(y):
            continue
        if not hasattr(seed, "dtype") and not isinstance(seed, (int, float)):
            raise OperandError(f"{what} {i} is a {type(seed).__name__}; expected an array of shape {tuple(y.shape)}")
        got: Any = aval_of(seed)
        if tuple(got.shape) != tuple(y.shape):
            raise OperandError(f"{what} {i} has shape {got.shape}; the value that it belongs to has shape {tuple(y.shape)}")
        if not jnp.issubdtype(got.dtype, jnp.floating):
            raise OperandError(f"{what} {i} is {got.dtype}; a {what} is a float array")
        if isinstance(seed, (int, float)):
            flat[i] = jnp.asarray(seed, y.dtype)
        elif got.dtype != y.dtype:
            flat[i] = seed.astype(y.dtype)
    return flat


def vjp(f: Callable, *primals, has_aux: bool = False, allow_unused: bool = False) -> tuple[Any, ...]:
    """`y, pullback = vjp(f, *primals)`: the value, and the function that carries a cotangent of y back to the primals.

    pullback(y_bar) gives a tuple, one cotangent per primal, in its structure: zeros where y does not depend on it, `None`
    at integer leaves, a dict by name for a Module. With has_aux, f returns (y, aux) and vjp (y, pullback, aux).
    A parameter of a Module that y does not depend on is an error that names it, unless allow_unused.
    """
    level = next(LEVELS)
    watched = [watch(primal, level, i) for i, primal in enumerate(primals)]
    with recording(level):
        y = f(*[given for given, _ in watched])
    aux = None
    if has_aux:
        if not isinstance(y, (tuple, list)) or len(y) != 2:
            raise OperandError(f"has_aux=True: the function gave a {type(y).__name__}; expected a pair (value, aux)")
        y, aux = y
    outputs, tree = jax.tree.flatten(y)
    if any(t.level != level and t.level not in LIVE.get() for t in tracked_leaves((outputs, aux))):
        raise escaped("vjp")
    leaves = tuple(leaves for _, leaves in watched)

    def pullback(y_bar) -> tuple:
        pairs = [(t, seed) for t, seed in zip(outputs, seeds_for(outputs, tree, y_bar)) if type(t) is Tensor and t.level == level]
        end = walk([t for t, _ in pairs], [seed for _, seed in pairs])
        return tuple(gather(leaf, end, allow_unused) for leaf in leaves)

    y = strip(y, level)
    return (y, pullback, strip(aux, level)) if has_aux else (y, pullback)


def value_and_grad(f: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, allow_unused: bool = False) -> Callable:
    """`(value, gradient)` of a scalar function with respect to the positional arguments `argnums`."""

    def run(*args, **kwargs):
        closed, chosen = closing(f, argnums, args, kwargs)
        y, pullback, *aux = vjp(closed, *chosen, has_aux=has_aux, allow_unused=allow_unused)
        y = jnp.asarray(y) if isinstance(y, float) else y
        if not is_float(y) or y.shape != ():
            came = f"shape {y.shape}, {y.dtype}" if hasattr(y, "dtype") else f"a {type(y).__name__}"
            raise OperandError(f"grad needs a scalar float loss; this one has {came}: take its sum or mean, or use vjp or jacobian")
        gradients = pullback(jnp.ones((), y.dtype))
        gradients = gradients[0] if isinstance(argnums, int) else gradients
        return ((y, aux[0]), gradients) if has_aux else (y, gradients)

    return run


def closing(f: Callable, argnums: int | tuple[int, ...], args: tuple, kwargs: dict) -> tuple[Callable, list]:
    """f as a function of the arguments `argnums` alone, and those arguments."""
    which = []
    for i in (argnums,) if isinstance(argnums, int) else argnums:
        if not -len(args) <= i < len(args):
            raise OperandError(f"argnums={argnums} asks for argument {i}; the function was called with {len(args)}")
        leaves = jax.tree.leaves(args[i], is_leaf=is_module)
        for x in leaves:
            refuse_complex(x, i)
        if not any(map(can_be_perturbed, leaves)):
            came = getattr(leaves[0], "dtype", type(leaves[0]).__name__) if leaves else "empty"
            raise OperandError(f"argument {i} is {came}: nothing in it can be perturbed; cast it to a float dtype first")
        which.append(i)

    def closed(*sub):
        full = list(args)
        for i, x in zip(which, sub):
            full[i] = x
        return f(*full, **kwargs)

    return closed, [args[i] for i in which]


def grad(f: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, allow_unused: bool = False) -> Callable:
    """The gradient of a scalar function; with has_aux, (gradient, aux)."""
    run = value_and_grad(f, argnums, has_aux, allow_unused)

    def gradient(*args, **kwargs):
        y, gradients = run(*args, **kwargs)
        return (gradients, y[1]) if has_aux else gradients

    return gradient


def jvp(f: Callable, primals: Sequence, tangents: Sequence) -> tuple:
    """`(y, y_dot)`: the value and its directional derivative, ẏ = J·ẋ, `None` at integer leaves.

    tangents: one per primal, in its structure; a dict by name for a Module.

    The pullback is linear in its cotangent, u ↦ Jᵀu; pulling it back once more along ẋ gives J·ẋ.
    """
    primals = tuple(primals)
    by_name = jax.tree.map(lambda x: dict(x.__named_parameters__()) if is_module(x) else x, primals, is_leaf=is_module)
    leaves, structure = jax.tree.flatten(by_name)
    leaves = [jnp.asarray(x) if isinstance(x, float) else x for x in leaves]
    x_dots = seeds_for(leaves, structure, tuple(tangents), "tangent")
    x_dots = structure.unflatten([x_dot if is_float(x) else None for x, x_dot in zip(leaves, x_dots)])
    with setting(WATCHERS, WATCHERS.get() + 1):  # the walk below is watched: fused ops must keep their operands
        y, pullback = vjp(f, *primals, allow_unused=True)
    flat, tree = jax.tree.flatten(y)
    floats = [i for i, leaf in enumerate(flat) if is_float(leaf)]

    def transpose(*bars):
        seeds: list = [None] * len(flat)
        for i, bar in zip(floats, bars):
            seeds[i] = bar
        return pullback(tree.unflatten(seeds))

    _, linear = vjp(transpose, *[jnp.zeros(flat[i].shape, flat[i].dtype) for i in floats])
    out: list = [None] * len(flat)
    for i, y_dot in zip(floats, linear(x_dots)):
        out[i] = y_dot
    return y, tree.unflatten(out)


def hvp(f: Callable, primals: Sequence, tangents: Sequence):
    """Hessian times vector of a scalar function of its first argument's tree: d/dε ∇f(x + ε·ẋ) at 0."""
    return jvp(grad(f), primals, tangents)[1]


def jacobian(f: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """∂y/∂x, shape (*y.shape, *x.shape); trees give trees: y's structure with x's structure inside.

    One pullback per element of y: under jax.vmap, or one after the other where y is tracked by an outer level.
    """

    def run(*args, **kwargs):
        closed, chosen = closing(f, argnums, args, kwargs)
        with setting(WATCHERS, WATCHERS.get() + 1):
            y, pullback = vjp(closed, *chosen, allow_unused=True)
        flat, tree = jax.tree.flatten(y)
        flat = [jnp.asarray(y) if isinstance(y, float) else y for y in flat]
        for i, y in enumerate(flat):
            if not is_float(y):
                came = getattr(y, "dtype", type(y).__name__)
                raise OperandError(f"jacobian: output {i} is {came}, which has no derivative; leave it out")

        def rows(i: int):
            """All pullbacks of output i."""
            y = flat[i]

            def pull(seed):
                x_bars = pullback(tree.unflatten([seed if j == i else None for j in range(len(flat))]))
                return x_bars[0] if isinstance(argnums, int) else x_bars

            if y.size == 0:
                return jax.tree.map(lambda x: jnp.zeros((*y.shape, *x.shape), x.dtype), pull(jnp.zeros(y.shape, y.dtype)))
            basis = jnp.eye(y.size, dtype=y.dtype).reshape((y.size, *y.shape))
            if type(y) is Tensor:  # jax.vmap does not take tracked values
                columns = [pull(seed) for seed in basis]
                return jax.tree.map(lambda *xs: reshape(stack(xs), shape=(*y.shape, *xs[0].shape)), *columns)
            return jax.tree.map(lambda x: x.reshape((*y.shape, *x.shape[1:])), jax.vmap(pull)(basis))

        return tree.unflatten([rows(i) for i in range(len(flat))])

    return run


def hessian(f: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """∂²f/∂x², shape (*x.shape, *x.shape)."""
    return jacobian(grad(f, argnums), argnums)
