"""Tables that are looked up by integers: one_hot, embedding, embedding_bag."""

from typing import Literal

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Int

from ..lib.errors import OperandError, OutOfRange
from .arithmetic import div, mul
from .identity import stop_gradient
from .indexing import take
from .keys import checked
from .op import constant, face
from .reduction import sum
from .selection import where
from .shape import reshape


@constant
def one_hot(ids: Int[Array, "..."], *, num_classes: int, dtype: DTypeLike = "float32"):
    """y[…, k] = 1 where ids[…] = k, else 0. A comparison with 0 … num_classes − 1, which stays spread over devices."""
    return (jnp.expand_dims(ids, -1) == jnp.arange(num_classes)).astype(dtype)


@face("take", "where")
def embedding(weight, ids, *, padding_idx: int | None = None):
    """The rows (V, D) of a table at ids (…): (…, D). Rows that ids name several times add up their cotangents.

    padding_idx: a row that is looked up like the others and has no cotangent (torch's rule).
    """
    ids = checked(ids, weight.shape[0], "embedding")
    rows = take(weight, ids)
    if padding_idx is None:
        return rows
    padding = is_padding(ids, padding_idx, weight.shape[0])
    return where(padding, stop_gradient(rows), rows)


@face("take", "where", "mul", "sum", "div")
def embedding_bag(weight, ids, weights=None, *, mode: Literal["sum", "mean"] = "sum", padding_idx: int | None = None):
    """y[b] = Σₙ wₙ·weight[ids[b, n]], the sum of a bag of rows, or their mean: (V, D) at ids (…, N) gives (…, D).

    weights: w, in the shape of ids, for mode "sum" only; 1 where not given.
    padding_idx: a row that counts neither in the sum nor in the number of rows, and has no cotangent (torch's rule); so bags
    of unequal length are filled up with it. An empty bag is 0.
    """
    if mode not in ("sum", "mean") or (mode == "mean" and weights is not None):
        came = "weights go with mode 'sum' only" if mode == "mean" else f"mode {mode!r}; expected 'sum' or 'mean'"
        raise OperandError(f"embedding_bag: {came}")
    ids = checked(ids, weight.shape[0], "embedding_bag")
    if jnp.ndim(ids) == 0 or (weights is not None and weights.shape != jnp.shape(ids)):
        came = f"{jnp.shape(ids)}" + ("" if weights is None else f" with weights of shape {weights.shape}")
        raise OperandError(f"embedding_bag: ids of shape {came}; expected bags along the last axis, and a weight for each id")
    rows = take(weight, ids)
    if weights is not None:
        rows = mul(rows, reshape(weights, shape=(*weights.shape, 1)))
    count = jnp.shape(ids)[-1]
    if padding_idx is not None:
        padding = is_padding(ids, padding_idx, weight.shape[0])
        rows = where(padding, 0.0, rows)
        count = jnp.sum(~padding, axis=-2)
    bags = sum(rows, axis=-2)
    return bags if mode == "sum" else div(bags, jnp.maximum(count, 1).astype(bags.dtype))


def is_padding(ids, padding_idx: int, size: int):
    """Where ids name the padding row, either counted from the end or not; with an axis for the columns."""
    if not -size <= padding_idx < size:
        raise OutOfRange(f"padding_idx {padding_idx} of a table of {size} rows; expected {-size} to {size - 1}")
    ids = jnp.asarray(ids)
    return jnp.expand_dims((ids == padding_idx % size) | (ids == padding_idx % size - size), -1)
