"""Dropout, with a mask that belongs to the example and not to the call."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ..lib.errors import KeyIdentityError, OperandError
from .arithmetic import mul
from .op import fused
from .selection import where


@fused(saves=("key", "first"))
def dropout(x: Float[Array, "B ..."], key: PRNGKeyArray | None, first: Int[Array, ""] | int | None = None, *, rate: float):
    """y = x/(1 − rate) where the mask keeps, else 0;   x̄ = ȳ/(1 − rate) where it keeps, else 0.

    Each element is kept with probability 1 − rate (to 2⁻³²). The mask of row i of x is drawn from `fold_in(key, first + i)`:
    it depends on the example's index in the whole batch (`first` = that of row 0, 0 by default) and not on how the batch
    was split. The key is saved, the mask never: no residuals. rate 0 is the identity, rate 1 gives zeros; both need no key.
    A mask selects, so what is dropped may be infinite.     Srivastava et al. 2014, "Dropout"
    """
    if not 0 <= rate <= 1:
        raise OperandError(f"dropout: rate {rate}; expected a probability from 0 to 1")
    return select(x, key, first, rate)


def select(x, key, first, rate: float):
    kept = keep_mask(key, first, x.shape, rate)
    return jnp.where(kept, x * gain(rate), 0)


def gain(rate: float) -> float:
    """1/(1 − rate), which leaves the mean of x as it is."""
    return 1 / (1 - rate) if rate < 1 else 0.0


def keep_mask(key, first, shape: tuple[int, ...], rate: float) -> Bool[Array, "B ..."]:
    """True where an element stays; row i comes from fold_in(key, first + i), in every dtype and on every split the same."""
    if rate in (0, 1):
        return jnp.full(shape, rate == 0)
    if key is None:
        raise KeyIdentityError("dropout: no key; pass one, for example jax.random.key(0), or rate=0 when evaluating")
    if not shape:
        raise OperandError("dropout: x is a scalar; expected a leading axis of examples, for example reshape(x, shape=(1,))")
    limit = jnp.uint32(min(round((1 - rate) * 2**32), 2**32 - 1))
    rows = jnp.arange(shape[0], dtype=jnp.uint32) + (0 if first is None else first)
    return jax.vmap(lambda i: jax.random.bits(jax.random.fold_in(key, i), shape[1:], jnp.uint32) < limit)(rows)


@dropout.rule
def dropout_backward(res, y_bar, *, rate):
    # y = x·gain where kept: linear in x, so the rule is the forward on ȳ
    return select(y_bar, res.key, res.first, rate), None, None


@dropout.composite
def dropout_composite(x, key, first=None, *, rate):
    return where(keep_mask(key, first, x.shape, rate), mul(x, gain(rate)), 0.0)
