"""Clipping of gradients: of each element, of each leaf by its size, of all together by the global norm."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..lib.precision import accumulator
from .hyper import Hyper, Setting, above_0, carried, held, setting
from .optimisers import Optimiser


def global_norm(tree: PyTree) -> Float[Array, ""]:
    """√(Σ x²) over every element of every leaf, summed in at least float32; 0 for an empty tree.

    Not finite if an element is not, or if the sum of squares overflows (a norm above 1.8e19 in float32).
    """
    wide = (jnp.asarray(x, accumulator(jnp.result_type(x))) for x in jax.tree.leaves(tree))
    return jnp.sqrt(sum((jnp.sum(jnp.square(x)) for x in wide), start=jnp.zeros((), jnp.float32)))


class ClipState(NamedTuple):
    """norm: of the last gradients, before clipping; 0 before the first. hyper: the limit, if it is a plain number."""

    norm: Float[Array, ""]
    hyper: Hyper


class LimitState(NamedTuple):
    """hyper: the limit, if it is a plain number."""

    hyper: Hyper


def clip_by_global_norm(max_norm: Setting) -> Optimiser:
    """Gradients as they are while their norm is below `max_norm`, else g·max_norm/norm. Keeps each leaf's dtype.

    The norm before clipping is in the state (`state.norm`), to be logged and to skip a bad step by. Where it is not finite,
    **every** update is NaN: a half-applied step would go unnoticed. (optax then gives 0 for the finite gradients of an
    infinite norm.) torch divides by norm + 1e-6; optax and this do not.   Pascanu et al. 2013
    """
    settings = {"max_norm": setting("max_norm", max_norm, above_0)}

    def init(params):
        norm = jax.eval_shape(global_norm, params)
        return ClipState(jnp.zeros(norm.shape, norm.dtype), held(settings))

    def update(grads, state, params=None):
        limit = carried(settings, state.hyper)["max_norm"]
        norm = global_norm(grads)
        factor = shrinking(norm, limit)
        leaf = lambda g: (g * factor).astype(jnp.result_type(g))
        return jax.tree.map(leaf, grads), ClipState(norm.astype(state.norm.dtype), state.hyper)

    return Optimiser(init, update)


def clip_by_block_rms(threshold: Setting) -> Optimiser:
    """Each leaf by itself: as it is while rms = √(mean g²) is below `threshold`, else g·threshold/rms. Keeps its dtype.

    A leaf whose rms is not finite is NaN throughout. (optax gives 0 for the finite gradients beside an infinite one.)
    Shazeer & Stern 2018, section 6
    """
    settings = {"threshold": setting("threshold", threshold, above_0)}

    def init(params):
        return LimitState(held(settings))

    def update(grads, state, params=None):
        limit = carried(settings, state.hyper)["threshold"]

        def leaf(g):
            wide = jnp.asarray(g, accumulator(jnp.result_type(g)))
            return (g * shrinking(jnp.sqrt(jnp.mean(jnp.square(wide))), limit)).astype(jnp.result_type(g))

        return jax.tree.map(leaf, grads), state

    return Optimiser(init, update)


def clip(max_delta: Setting) -> Optimiser:
    """Each element kept within [−max_delta, max_delta]. Keeps each leaf's dtype.

    NaN stays NaN; an infinite gradient becomes `max_delta` and is not noticed any more. torch's `clip_grad_value_`.
    """
    settings = {"max_delta": setting("max_delta", max_delta, above_0)}

    def init(params):
        return LimitState(held(settings))

    def update(grads, state, params=None):
        limit = carried(settings, state.hyper)["max_delta"]

        def leaf(g):
            bound = jnp.asarray(limit, jnp.result_type(g))
            return jnp.clip(g, -bound, bound)

        return jax.tree.map(leaf, grads), state

    return Optimiser(init, update)


def shrinking(size: Float[Array, ""], limit: Setting) -> Float[Array, ""]:
    """1 while the size is below the limit, else limit/size; NaN where the size is not finite."""
    return jnp.where(jnp.isfinite(size), jnp.minimum(1.0, limit / size), jnp.nan)
