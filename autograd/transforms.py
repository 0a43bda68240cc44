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
from ..ops.op import aval_of, is_float
from .graph import LEVELS, WATCHERS, Tensor, leaf, plain, recording, strip, zeros
from .scope import setting
from .walk import LEDGER, walk


def is_module(x) -> bool:
    """What holds parameters by name says so by `__named_parameters__` and `__with_parameters__` (nn.Module does)."""
    return hasattr(type(x), "__named_parameters__")


def watch(argument, level: int, position: int) -> tuple[Any, Any]:
    """(what the function is given, the same tree with a leaf, or a dict of leaves, where a gradient is owed)."""

    ledger = LEDGER.get()

    def leaf_of(x):
        if ledger is not None:
            ledger.argument(plain(x))
        return leaf(x, level)

    def one(x):
        if is_module(x):
            leaves = {name: leaf_of(value) for name, value in x.__named_parameters__().items()}
            return x.__with_parameters__(leaves), leaves
        if isinstance(x, (float, np.ndarray, np.floating)):
            x = jnp.asarray(x)
        if hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.complexfloating):
            raise OperandError(f"argument {position} holds {x.dtype}; Pullback is for real numbers: pass both parts as one array")
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
        if isinstance(x, dict) and not allow_unused:
            unused = [name for name, t in x.items() if t.node not in end]
            if unused:
                shown = ", ".join(unused[:8]) + (f" and {len(unused) - 8} more" if len(unused) > 8 else "")
                raise GraphError(f"no gradient reaches the parameters {shown}; use them, or pass allow_unused=True to get zeros")
        return jax.tree.map(bar, x)

    return jax.tree.map(one, leaves, is_leaf=lambda x: isinstance(x, dict) and bool(x) and all(type(t) is Tensor for t in x.values()))


def seeds_for(outputs: Sequence, tree, y_bar) -> list:
    """The seed of each output, checked against it."""
    flat, seed_tree = jax.tree.flatten(y_bar, is_leaf=lambda x: x is None)
    if len(flat) != len(outputs):
        raise OperandError(f"the cotangent has structure {seed_tree}; the function's value has {tree}")
    for i, (y, seed) in enumerate(zip(outputs, flat)):
        if seed is None or type(y) is not Tensor:
            continue
        got = aval_of(seed)
        if got is None or tuple(got.shape) != tuple(y.shape):
            raise OperandError(f"cotangent {i} has shape {got and got.shape}; the value that it belongs to has shape {tuple(y.shape)}")
        if not jnp.issubdtype(got.dtype, jnp.floating):
            raise OperandError(f"cotangent {i} is {got.dtype}; a cotangent is a float array")
        if got.dtype != y.dtype or not hasattr(seed, "astype"):
            flat[i] = seed.astype(y.dtype) if hasattr(seed, "astype") else jnp.asarray(seed, y.dtype)
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
        y, aux = y
    outputs, tree = jax.tree.flatten(y)
    leaves = tuple(leaves for _, leaves in watched)

    def pullback(y_bar) -> tuple:
        pairs = [(t, seed) for t, seed in zip(outputs, seeds_for(outputs, tree, y_bar)) if type(t) is Tensor and t.level == level]
        end = walk([t for t, _ in pairs], [seed for _, seed in pairs])
        return tuple(gather(leaf, end, allow_unused) for leaf in leaves)

    y = strip(y, level)
    return (y, pullback, strip(aux, level)) if has_aux else (y, pullback)


def value_and_grad(f: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, allow_unused: bool = False) -> Callable:
    """`(value, gradient)` of a scalar function with respect to the positional arguments `argnums`."""
    which = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def run(*args, **kwargs):
        for i in which:
            if not -len(args) <= i < len(args):
                raise OperandError(f"argnums={argnums} asks for argument {i}; the function was called with {len(args)}")
            leaves = jax.tree.leaves(args[i], is_leaf=is_module)
            if not any(is_module(x) or isinstance(x, float) or is_float(x) for x in leaves):
                came = getattr(leaves[0], "dtype", type(leaves[0]).__name__) if leaves else "empty"
                raise OperandError(f"argument {i} is {came}: nothing in it can be perturbed; cast it to a float dtype first")

        def closed(*sub):
            full = list(args)
            for i, x in zip(which, sub):
                full[i] = x
            return f(*full, **kwargs)

        y, pullback, *aux = vjp(closed, *[args[i] for i in which], has_aux=has_aux, allow_unused=allow_unused)
        if not is_float(y) or y.shape != ():
            came = f"shape {y.shape}, {y.dtype}" if hasattr(y, "dtype") else f"a {type(y).__name__}"
            raise OperandError(f"grad needs a scalar float loss; this one has {came}: take its sum or mean, or use vjp or jacobian")
        gradients = pullback(jnp.ones((), y.dtype))
        gradients = gradients[0] if isinstance(argnums, int) else gradients
        return ((y, aux[0]), gradients) if has_aux else (y, gradients)

    return run


def grad(f: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, allow_unused: bool = False) -> Callable:
    """The gradient of a scalar function; with has_aux, (gradient, aux)."""
    run = value_and_grad(f, argnums, has_aux, allow_unused)

    def gradient(*args, **kwargs):
        y, gradients = run(*args, **kwargs)
        return (gradients, y[1]) if has_aux else gradients

    return gradient


def jvp(f: Callable, primals: Sequence, tangents: Sequence) -> tuple:
    """`(y, y_dot)`: the value and its directional derivative, ẏ = J·ẋ.

    The pullback is linear in its cotangent, u ↦ Jᵀu; pulling it back once more along ẋ gives J·ẋ.
    """
    primals, tangents = tuple(primals), tuple(tangents)
    if jax.tree.structure(primals) != jax.tree.structure(tangents):
        raise OperandError(f"tangents have structure {jax.tree.structure(tangents)}; the primals have {jax.tree.structure(primals)}")
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
    dots = linear(jax.tree.map(lambda x, x_dot: x_dot if is_float(x) or isinstance(x, float) else None, primals, tangents))
    out: list = [None] * len(flat)
    for i, y_dot in zip(floats, dots):
        out[i] = y_dot
    return y, tree.unflatten(out)


def hvp(f: Callable, primals: Sequence, tangents: Sequence):
    """Hessian times vector of a scalar function of its first argument's tree: d/dε ∇f(x + ε·ẋ) at 0."""
    return jvp(grad(f), primals, tangents)[1]


def jacobian(f: Callable, argnums: int = 0) -> Callable:
    """∂y/∂x, shape (*y.shape, *x.shape); trees give trees: y's structure with x's structure inside.

    One pullback per element of y: under jax.vmap, or one after the other where an outer level watches.
    """

    def run(*args, **kwargs):
        def closed(x):
            return f(*args[:argnums], x, *args[argnums + 1 :], **kwargs)

        with setting(WATCHERS, WATCHERS.get() + 1):
            y, pullback = vjp(closed, args[argnums], allow_unused=True)
        flat, tree = jax.tree.flatten(y)

        def rows(i: int):
            """All pullbacks of output i."""
            y = flat[i]
            basis = jnp.eye(y.size, dtype=y.dtype).reshape((y.size, *y.shape))
            pull = lambda seed: pullback(tree.unflatten([seed if j == i else None for j in range(len(flat))]))[0]
            if y.size == 0:
                return jax.tree.map(lambda x: jnp.zeros((*y.shape, *x.shape), x.dtype), pull(jnp.zeros(y.shape, y.dtype)))
            if type(y) is Tensor or WATCHERS.get():  # jax.vmap does not take tracked values
                columns = [pull(seed) for seed in basis]
                return jax.tree.map(lambda *xs: reshape(stack(xs), shape=(*y.shape, *xs[0].shape)), *columns)
            return jax.tree.map(lambda x: x.reshape((*y.shape, *x.shape[1:])), jax.vmap(pull)(basis))

        return tree.unflatten([rows(i) for i in range(len(flat))])

    return run


def hessian(f: Callable, argnums: int = 0) -> Callable:
    """∂²f/∂x², shape (*x.shape, *x.shape)."""
    return jacobian(grad(f, argnums), argnums)
