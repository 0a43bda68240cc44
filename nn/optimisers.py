"""Optimisers in optax's protocol: two pure functions over a pytree of arrays.

    state = optimiser.init(params)
    updates, state = optimiser.update(grads, state, params)
    params = apply_updates(params, updates)

optax's chains and loops take these optimisers, and `chain` takes optax's. The settings are arguments of the compiled step,
carried by the state or given per step: see hyper.py. Moments are held in `accumulator(dtype)`, at least float32,
and updates come in that dtype, so that `apply_updates` rounds once.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import all_leaves, keystr, tree_leaves_with_path
from jaxtyping import Array, Int, PyTree

from ..lib.errors import ConfigError, OperandError
from ..lib.precision import accumulator
from .hyper import Hyper, Setting, at_least_0, below_1, current, held, setting
from .schedules import Schedule


class Optimiser(NamedTuple):
    """A pair `init(params) -> state`, `update(grads, state, params=None) -> (updates, state)`."""

    init: Callable[[PyTree], PyTree]
    update: Callable[..., tuple[PyTree, PyTree]]


def apply_updates(params: PyTree, updates: PyTree) -> PyTree:
    """params + updates, summed in the wider of both dtypes and rounded to each parameter's own."""
    fits("updates", updates, params)
    return jax.tree.map(lambda p, u: jnp.asarray(p + u, jnp.result_type(p)), params, updates)


def chain(*optimisers) -> Optimiser:
    """One after the other: each gets the updates of the one before; the states are a tuple. Takes optax's too."""

    def init(params):
        return tuple(optimiser.init(params) for optimiser in optimisers)

    def update(grads, state, params=None):
        if len(state) != len(optimisers):
            raise OperandError(f"chain of {len(optimisers)} was given {len(state)} states; pass what its own init returned")
        states = []
        for optimiser, old in zip(optimisers, state):
            grads, new = optimiser.update(grads, old, params)
            states.append(new)
        return grads, tuple(states)

    return Optimiser(init, update)


class AdamWState(NamedTuple):
    """count: updates done; mu, nu: moving means of g and g², uncorrected; hyper: the settings that are plain numbers."""

    count: Int[Array, ""]
    mu: PyTree
    nu: PyTree
    hyper: Hyper


def matrices(params: PyTree) -> PyTree:
    """True for leaves of two axes or more: what `adamw` decays unless told otherwise (no biases, no norm scales)."""
    return jax.tree.map(lambda p: jnp.ndim(p) >= 2, params)


def adamw(
    learning_rate: Setting | Schedule,
    b1: Setting = 0.9,
    b2: Setting = 0.999,
    eps: Setting = 1e-8,
    weight_decay: Setting | Schedule = 1e-4,
    mask: PyTree | Callable[[PyTree], PyTree] = matrices,
) -> Optimiser:
    """Adam with decoupled weight decay. Update t = 1, 2, ..., for each leaf with gradient g:

        m ← b1·m + (1 − b1)·g          v ← b2·v + (1 − b2)·g²
        update = −lr·( m/(1 − b1ᵗ) / (√(v/(1 − b2ᵗ)) + eps) + weight_decay·p )

    mask: pytree of bools (or a prefix of one), or a function from params to it: which leaves decay. By default **only
        matrices** do; optax decays everything: there `mask=nn.matrices` gives this default, here `mask=None` gives optax's.
    A schedule sees t − 1. The factors 1 − bᵗ are folded into scalars,

        α = lr/(1 − b1ᵗ)     ρ = 1/√(1 − b2ᵗ)     δ = lr·weight_decay          update = −(α·m / (ρ·√v + eps) + δ·p)

    so that an element costs one root and one division, and eps stays outside the root and the correction. A gradient whose
    square overflows (above 1.8e19 in float32) makes v infinite and its updates 0 from then on, as in optax. torch's AdamW is
    the same with `mask=None`; its default weight decay is 1e-2.
    Kingma & Ba 2015, algorithm 1; Loshchilov & Hutter 2019, algorithm 2
    """
    settings = {
        "learning_rate": setting("learning_rate", learning_rate, at_least_0, schedule=True),
        "b1": setting("b1", b1, below_1),
        "b2": setting("b2", b2, below_1),
        "eps": setting("eps", eps, at_least_0),
        "weight_decay": setting("weight_decay", weight_decay, at_least_0, schedule=True),
    }

    def init(params):
        return AdamWState(jnp.zeros((), jnp.int32), zeros(params), zeros(params), held(settings))

    def update(grads, state, params=None):
        if params is None:
            raise OperandError("adamw decays weights, so it needs them: update(grads, state, params)")
        fits("gradients", grads, state.mu)
        fits("parameters", params, state.mu)
        count = increment(state.count)
        lr, b1, b2, eps, weight_decay = current(settings, state.hyper, state.count).values()  # in the order above
        scalars = (b1, b2, eps, lr / correction(b1, count), correction(b2, count) ** -0.5, lr * weight_decay)

        @functools.cache
        def scalars_in(dtype):
            return tuple(jnp.asarray(s, dtype) for s in scalars)

        def leaf(g, m, v, p, decays):
            b1, b2, eps, alpha, rho, delta = scalars_in(m.dtype)
            g = jnp.asarray(g, m.dtype)
            m = b1 * m + (1 - b1) * g
            v = b2 * v + (1 - b2) * g * g
            step = alpha * m / (rho * jnp.sqrt(v) + eps)
            return -(step + delta * p if decays else step), m, v

        rows = jax.tree.map(leaf, grads, state.mu, state.nu, params, chosen(mask, params))
        column = lambda i: jax.tree.map(lambda _, row: row[i], grads, rows)
        return column(0), AdamWState(count, column(1), column(2), state.hyper)

    return Optimiser(init, update)


def correction(decay, count: Int[Array, ""]):
    """1 − decayᵗ, the weight that t steps of a moving mean have gathered; without the cancellation near decay = 1."""
    return -jnp.expm1(count * jnp.log(jnp.asarray(decay, float)))  # float: the widest enabled, whatever the count is


class SGDState(NamedTuple):
    """count: updates done; trace: the momentum, or () without one; hyper: the settings that are plain numbers."""

    count: Int[Array, ""]
    trace: PyTree
    hyper: Hyper


def sgd(learning_rate: Setting | Schedule, momentum: Setting | None = None, nesterov: bool = False) -> Optimiser:
    """Gradient descent. For each leaf with gradient g and momentum μ:

        trace ← g + μ·trace          update = −lr·trace,   with `nesterov`  −lr·(g + μ·trace)

    Without momentum  update = −lr·g. The rate multiplies the trace, not the gradient that enters it; there is no dampening:
    torch's SGD with its defaults, optax's too.   Sutskever et al. 2013
    """
    if momentum is None and nesterov:
        raise ConfigError("sgd: nesterov=True needs a momentum, for example momentum=0.9")
    settings = {"learning_rate": setting("learning_rate", learning_rate, at_least_0, schedule=True)}
    if momentum is not None:
        settings["momentum"] = setting("momentum", momentum, at_least_0)

    def init(params):
        return SGDState(jnp.zeros((), jnp.int32), () if momentum is None else zeros(params), held(settings))

    def update(grads, state, params=None):
        known = params if momentum is None else state.trace
        if known is not None:
            fits("gradients", grads, known)
        now = current(settings, state.hyper, state.count)
        scale = lambda s, x: jnp.asarray(s, x.dtype) * x
        step = jax.tree.map(lambda g: jnp.asarray(g, accumulator(jnp.result_type(g))), grads)
        trace = state.trace
        if momentum is not None:
            blend = lambda g, t: g.astype(t.dtype) + scale(now["momentum"], t)
            trace = jax.tree.map(blend, step, trace)
            step = jax.tree.map(blend, step, trace) if nesterov else trace
        updates = jax.tree.map(lambda x: -scale(now["learning_rate"], x), step)
        return updates, SGDState(increment(state.count), trace, state.hyper)

    return Optimiser(init, update)


# What the optimisers share.


def zeros(params: PyTree) -> PyTree:
    """A moment for each parameter, in the dtype that sums over it are held in."""
    return jax.tree.map(lambda p: jnp.zeros_like(p, dtype=accumulator(jnp.result_type(p))), params)


def increment(count: Int[Array, ""]) -> Int[Array, ""]:
    """count + 1, staying at the largest int32 rather than turning negative."""
    return jnp.minimum(count, jnp.iinfo(jnp.int32).max - 1) + 1


def chosen(mask: PyTree | Callable[[PyTree], PyTree], params: PyTree) -> PyTree:
    """The mask as a full pytree of bools. A pytree that can also be called (a Module of bools) is a pytree."""
    if mask is None:
        mask = True
    elif callable(mask) and all_leaves([mask]):
        mask = mask(params)
    return jax.tree.map(bool, jax.tree.broadcast(mask, params))


def fits(what: str, tree: PyTree, like: PyTree) -> None:
    """The same leaves in the same shapes, or an error that names the first that differs: broadcasting would hide a shape."""
    got, want = ({keystr(path): jnp.shape(x) for path, x in tree_leaves_with_path(t)} for t in (tree, like))
    for name in {**want, **got}:
        if name not in got:
            raise OperandError(f"{what}: leaf {name} of shape {want[name]} is missing; give zeros, or leave it out of the parameters")
        if name not in want:
            raise OperandError(f"{what}: leaf {name} of shape {got[name]} belongs to no parameter; the parameters are {', '.join(want)}")
        if got[name] != want[name]:
            raise OperandError(f"{what}: leaf {name} has shape {got[name]}, expected {want[name]}")
