"""Writing at indices: index_set and index_add, which give a changed copy, and sums over segments.

`lookup.py` gives the first two NumPy's keys; `indexing.py` has the rule for indices: one that is out of range writes nothing,
and its y has no cotangent.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..lib.errors import OperandError
from ..lib.precision import accumulator
from .indexing import index, integers, place, split_up, take_transpose
from .keys import IDS, Key, checked
from .op import face, primitive
from .rule import is_float
from .shape import broadcasts, unbroadcast


@primitive(saves=("ids",))
def index_set(x: Float[Array, "..."], ids: Int[Array, "..."] | None, y: Float[Array, "..."], *, key: Key):
    """z = x, with y at the key.   x̄ = z̄, 0 at the key;   ȳ = z̄ at the key, summed to the shape of y.

    Of several y for one place the last stays, in row-major order of the indices, and has the cotangent alone: which one a
    device would write last is not known, so the others are taken out before.
    """
    x, at = jnp.asarray(x), place(key, last(ids, key, jnp.shape(x)))
    return x.at[at].set(fitting(x, at, y, "index_set"))


@index_set.rule
def index_set_backward(res, z_bar, *, key):
    x_bar = index_set(z_bar, res.ids, 0.0, key=key)
    return x_bar, None, unbroadcast(index(z_bar, last(res.ids, key, res.x.shape), key=key, fill=0.0), res.y)


@primitive(saves=("ids",))
def index_add(x: Float[Array, "..."], ids: Int[Array, "..."] | None, y: Float[Array, "..."], *, key: Key):
    """z = x, with y added at the key, once for every time that it names a place.   x̄ = z̄;   ȳ = z̄ at the key, summed to its shape.

    The sums are held in `accumulator(dtype)`.
    """
    x, at = jnp.asarray(x), place(key, ids)
    wide = accumulator(x.dtype) if is_float(x) else x.dtype
    return x.astype(wide).at[at].add(fitting(x, at, y, "index_add").astype(wide)).astype(x.dtype)


@index_add.rule
def index_add_backward(res, z_bar, *, key):
    return z_bar, None, unbroadcast(index(z_bar, res.ids, key=key, fill=0.0), res.y)


def last(ids, key: Key, shape: tuple[int, ...]):
    """Of the indices that name one place, all but the last moved past the end of their axis."""
    if ids is None:
        return None
    ids = integers(ids, "index_set")
    sizes = [n for k, n in zip([k for k in key if k not in (None, Ellipsis)], shape) if k == IDS]
    first, *others = arrays = split_up(ids, key)
    order = jnp.arange(first.size).reshape(first.shape)
    latest = jnp.zeros(sizes, order.dtype).at[arrays].max(order)
    first = jnp.where(latest[arrays] == order, first, sizes[0])
    return jnp.stack([first, *others]) if others else first


def fitting(x, at: tuple, y, op: str):
    """y in the dtype of x, if it can be written there."""
    shape = jax.eval_shape(lambda x: x.at[at].get(), x).shape
    dtype = jnp.result_type(y)
    if jnp.issubdtype(dtype, jnp.floating) and not is_float(x):
        raise OperandError(f"{op}: y is {dtype}, which x, of {x.dtype}, cannot hold; cast one of them with astype")
    if not broadcasts(jnp.shape(y), shape):
        raise OperandError(f"{op}: y of shape {jnp.shape(y)} does not broadcast to the place, which has shape {shape}")
    return jnp.asarray(y, x.dtype)


@face("take_transpose")
def segment_sum(x, ids, num_segments: int):
    """z[s] = Σ x[i] over the i with ids[i] = s, for s = 0 … num_segments − 1; 0 for a segment without any.   x̄[i] = z̄[ids[i]].

    ids may have several axes, which lead in x: (*ids, …) to (num_segments, …). A traced id that is no segment, a negative
    one too, is left out, and its x̄ is 0.
    """
    ids = checked(ids, num_segments, "segment_sum", low=0)
    if jnp.ndim(ids) > x.ndim or x.shape[: jnp.ndim(ids)] != jnp.shape(ids):
        raise OperandError(f"segment_sum: x has shape {x.shape} and ids {jnp.shape(ids)}; expected ids for the leading axes of x")
    return take_transpose(x, jnp.where(jnp.less(ids, 0), num_segments, ids), axis=0, size=num_segments)
