"""Dynamic loss scaling, without which the small cotangents of float16 would be zeros."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ..lib.errors import ConfigError


class LossScale(NamedTuple):
    """scale: what the loss is multiplied by. good: steps since it changed. skipped: steps that changed nothing, of all."""

    scale: Float[Array, ""]
    good: Int[Array, ""]
    skipped: Int[Array, ""]


@dataclass(frozen=True)
class LossScaling:
    """The loss is multiplied before the backward walk and the gradients are divided after it, by the largest power that fits.

        scaling = nn.LossScaling()
        state = scaling.init()
        grads = unscaled(grads of loss * state.scale, state)      # before clipping
        finite = all_finite(grads)
        params, state = kept(finite, changed, params), scaling.update(state, finite)

    After `interval` good steps in a row the scale grows; a step whose gradients are not all finite is to be skipped (weights,
    moments and their counters stay as they are) and halves it. Micikevicius et al. 2018, section 3.2
    """

    initial: float = 2.0**16
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 1000

    def __post_init__(self):
        for name, good in (
            ("initial", 0 < self.initial < math.inf),
            ("growth", 1 < self.growth < math.inf),
            ("backoff", 0 < self.backoff < 1),
            ("interval", self.interval >= 1),
        ):
            if not good:
                raise ConfigError(
                    f"loss scaling: {name} is {getattr(self, name)}; expected initial above 0, growth above 1, backoff between 0 and 1, "
                    "interval at least 1"
                )

    def init(self) -> LossScale:
        return LossScale(jnp.float32(self.initial), jnp.int32(0), jnp.int32(0))

    def update(self, state: LossScale, finite: Bool[Array, ""]) -> LossScale:
        """The scale for the next step, given whether the gradients of this one were finite."""
        grown = state.scale * self.growth
        full = (state.good + 1 >= self.interval) & jnp.isfinite(grown)
        scale = jnp.where(finite, jnp.where(full, grown, state.scale), state.scale * self.backoff)
        return LossScale(scale, jnp.where(finite & ~full, state.good + 1, 0), state.skipped + ~finite)


def unscaled(grads: PyTree, state: LossScale) -> PyTree:
    """Gradients of the loss itself."""
    return jax.tree.map(lambda g: g / state.scale.astype(g.dtype), grads)


def all_finite(tree: PyTree) -> Bool[Array, ""]:
    """Is no element of any leaf infinite or NaN?"""
    return jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(tree)] or [jnp.bool_(True)]).all()


def kept(finite: Bool[Array, ""], new: PyTree, old: PyTree) -> PyTree:
    """`new` after a good step, `old` after one that is skipped."""
    return jax.tree.map(lambda x, y: jnp.where(finite, x, y), new, old)
