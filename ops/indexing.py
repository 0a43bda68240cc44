"""Looking values up by index: take, take_along_axis, index, each with its transpose, which adds values back.

One rule for indices, forward and backward alike. Negative ones count from the end. One that is out of range gives NaN (an
integer array: its smallest value; any array: `fill`, where given) and receives no cotangent: nothing is clamped or wrapped
in silence. Python and NumPy indices are checked before that, in `keys.py`, and raise. Repeated indices add up, in
`accumulator(dtype)`.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..lib.errors import OperandError
from ..lib.precision import accumulator
from .keys import IDS, Key
from .op import primitive
from .rule import is_float
from .shape import axes_of, unbroadcast


def integers(ids, op: str):
    """Indices wide enough to count any axis: a uint8 or an int8 would overflow on the way."""
    dtype = jnp.result_type(ids)
    if not jnp.issubdtype(dtype, jnp.integer):
        hint = "; choose by a mask with where(mask, x, 0)" if dtype == jnp.bool_ else ""
        raise OperandError(f"{op}: indices are {dtype}; expected integers{hint}")
    return jnp.asarray(ids, jnp.int64 if dtype == jnp.uint64 else jnp.promote_types(dtype, jnp.int32))


def added(shape: tuple[int, ...], place, y):
    """zeros(shape) with y added at an index; indices out of range are dropped."""
    wide = accumulator(y.dtype) if is_float(y) else y.dtype
    return jnp.zeros(shape, wide).at[place].add(y.astype(wide), mode="drop").astype(y.dtype)


@primitive(saves=("ids",))
def take(x: Float[Array, "..."], ids: Int[Array, "..."], *, axis: int = 0, fill: float | None = None):
    """y = the slices of x at ids along an axis, which the axes of ids replace.   x̄ = ȳ added up by id."""
    return jnp.take(jnp.asarray(x), integers(ids, "take"), axes_of(axis, jnp.ndim(x), "take")[0], mode="fill", fill_value=fill)


@take.rule
def take_backward(res, y_bar, *, axis, fill):
    at = axes_of(axis, res.x.ndim, "take")[0]
    return take_transpose(y_bar, res.ids, axis=at, size=res.x.shape[at]), None


@primitive(saves=("ids",))
def take_transpose(y: Float[Array, "..."], ids: Int[Array, "..."], *, axis: int, size: int):
    """x = zeros, `size` long on the axis, with each slice of y added at its id.   ȳ = the slices of x̄ at ids, 0 out of range."""
    ids = integers(ids, "take_transpose")
    rows = jnp.moveaxis(y, range(axis, axis + ids.ndim), range(ids.ndim))
    return jnp.moveaxis(added((size, *rows.shape[ids.ndim :]), ids, rows), 0, axis)


@take_transpose.rule
def take_transpose_backward(res, x_bar, *, axis, size):
    return take(x_bar, res.ids, axis=axis, fill=0.0), None


@primitive(saves=("ids",))
def take_along_axis(x: Float[Array, "..."], ids: Int[Array, "..."], *, axis: int, fill: float | None = None):
    """y[…, j, …] = x[…, ids[…, j, …], …]: a lookup per row. The other axes broadcast.   x̄ = ȳ added up by id, row by row."""
    x, ids = jnp.asarray(x), integers(ids, "take_along_axis")
    if x.ndim != ids.ndim:
        raise OperandError(f"take_along_axis: x has {x.ndim} axes and ids {ids.ndim}; expected as many")
    return jnp.take_along_axis(x, ids, axes_of(axis, x.ndim, "take_along_axis")[0], mode="fill", fill_value=fill)


@take_along_axis.rule
def take_along_axis_backward(res, y_bar, *, axis, fill):
    return unbroadcast(take_along_axis_transpose(y_bar, res.ids, axis=axis, size=res.x.shape[axis]), res.x), None


@primitive(saves=("ids",))
def take_along_axis_transpose(y: Float[Array, "..."], ids: Int[Array, "..."], *, axis: int, size: int):
    """x = zeros, `size` long on the axis, with y added at its id, row by row.   ȳ = x̄ at ids, 0 out of range.

    Row by row under vmap: a batch that is spread over devices stays where it is.
    """
    ids = jnp.broadcast_to(integers(ids, "take_along_axis_transpose"), y.shape)
    row = lambda y, ids: added((size,), ids, y)
    for _ in range(y.ndim - 1):
        row = jax.vmap(row)
    return jnp.moveaxis(row(jnp.moveaxis(y, axis, -1), jnp.moveaxis(ids, axis, -1)), -1, axis)


@take_along_axis_transpose.rule
def take_along_axis_transpose_backward(res, x_bar, *, axis, size):
    return take_along_axis(x_bar, res.ids, axis=axis, fill=0.0), None


@primitive(saves=("ids",))
def index(x: Float[Array, "..."], ids: Int[Array, "..."] | None, *, key: Key, fill: float | None = None):
    """y = x[key], NumPy's way, with the index arrays in place of each "ids" of the key.   x̄ = ȳ added up at the key.

    ids: the index array; where the key has several, all of them, broadcast and stacked along a leading axis; `None` where it
    has none (`slicing.slice` is then the cheaper one).
    """
    return jnp.asarray(x).at[place(key, ids)].get(mode="fill", fill_value=fill)


@index.rule
def index_backward(res, y_bar, *, key, fill):
    return index_transpose(y_bar, res.ids, key=key, shape=res.x.shape), None


@primitive(saves=("ids",))
def index_transpose(y: Float[Array, "..."], ids: Int[Array, "..."] | None, *, key: Key, shape: tuple[int, ...]):
    """x = zeros(shape) with y added at the key.   ȳ = x̄[key], 0 out of range."""
    return added(shape, place(key, ids), y)


@index_transpose.rule
def index_transpose_backward(res, x_bar, *, key, shape):
    return index(x_bar, res.ids, key=key, fill=0.0), None


def place(key: Key, ids) -> tuple:
    """The key with its slices and index arrays back in it; `ids` may be `None` where it has none."""
    arrays = iter(() if ids is None else split_up(integers(ids, "index"), key))
    return tuple(next(arrays) if k == IDS else slice(*k) if isinstance(k, tuple) else k for k in key)


def split_up(ids, key: Key) -> tuple:
    """The index arrays of a key, one for each "ids" in it."""
    return tuple(ids) if key.count(IDS) > 1 else (ids,)
