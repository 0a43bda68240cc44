"""Clipping by the global norm: the length of all gradients together as one vector."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..lib.precision import accumulator
from .hyper import Hyper, Setting, above_0, current, held, setting
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
        limit = current(settings, state.hyper)["max_norm"]
        norm = global_norm(grads)
        factor = jnp.where(norm < limit, 1.0, limit / norm)
        factor = jnp.where(jnp.isfinite(norm), factor, jnp.nan)
        clip = lambda g: (g * factor.astype(accumulator(g.dtype))).astype(g.dtype)
        return jax.tree.map(clip, grads), ClipState(norm.astype(state.norm.dtype), state.hyper)

    return Optimiser(init, update)
