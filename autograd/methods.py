"""Operators and methods of a tracked value, in NumPy's and PyTorch's names."""

import sys
from collections.abc import Callable

from .. import ops
from ..lib.errors import GraphError


def refused(what: str) -> GraphError:
    return GraphError(
        f"{what} met a tracked value. Call ops from pullback.ops on it; differentiate inside the transform, not around it "
        "(jax.vmap(pb.grad(f)), jax.jit(pb.grad(f))); or take its array with .detach()"
    )


def is_axes(shape) -> tuple:
    """`x.reshape(2, 3)` and `x.reshape((2, 3))` alike."""
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else tuple(shape)


def method(op: Callable) -> Callable:
    """An op as a method: the value is its first operand."""
    return lambda self, *args, **statics: op(self, *args, **statics)


def reduction(op: Callable) -> Callable:
    """A reduction as a method, its axis by position."""
    return lambda self, axis=None, keepdims=False, **statics: op(self, axis=axis, keepdims=keepdims, **statics)


class Methods:
    """Mixed into Tensor; knows only ops."""

    __slots__ = ()

    shape: tuple[int, ...]

    def __add__(self, other):
        return ops.add(self, other)

    def __radd__(self, other):
        return ops.add(other, self)

    def __sub__(self, other):
        return ops.sub(self, other)

    def __rsub__(self, other):
        return ops.sub(other, self)

    def __mul__(self, other):
        return ops.mul(self, other)

    def __rmul__(self, other):
        return ops.mul(other, self)

    def __truediv__(self, other):
        return ops.div(self, other)

    def __rtruediv__(self, other):
        return ops.div(other, self)

    def __matmul__(self, other):
        return ops.matmul(self, other)

    def __rmatmul__(self, other):
        return ops.matmul(other, self)

    def __neg__(self):
        return ops.neg(self)

    def __pos__(self):
        return self

    def __pow__(self, exponent):
        return ops.pow(self, exponent)

    def __rpow__(self, base):
        return ops.power(base, self)

    def __abs__(self):
        return ops.abs(self)

    def __getitem__(self, key):
        return ops.index(self, key)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tracked value")
        return self.shape[0]

    # Comparisons give plain boolean arrays: nothing flows back through them.
    def __lt__(self, other):
        return bare(self) < bare(other)

    def __le__(self, other):
        return bare(self) <= bare(other)

    def __gt__(self, other):
        return bare(self) > bare(other)

    def __ge__(self, other):
        return bare(self) >= bare(other)

    def __eq__(self, other):
        return bare(self) == bare(other)

    def __ne__(self, other):
        return bare(self) != bare(other)

    __hash__ = object.__hash__

    def __float__(self) -> float:
        return float(bare(self))

    def __int__(self) -> int:
        return int(bare(self))

    def __bool__(self) -> bool:
        return bool(bare(self))

    def __format__(self, spec: str) -> str:
        return format(bare(self), spec) if spec else str(self)

    def item(self) -> float:
        """The Python number of a one-element value."""
        return bare(self).item()

    def detach(self):
        """The array under it, which nothing flows back to."""
        return ops.stop_gradient(self)

    # NumPy and JAX ask for these when they meet a value that is not theirs.
    __array_priority__ = 1000  # NumPy's operators give way to ours (its ufuncs go on to __array__)

    def __array__(self, dtype=None, copy=None):
        raise refused("NumPy")

    def __array_function__(self, function, types, args, kwargs):
        if function.__name__ in ("shape", "ndim"):
            return getattr(self, function.__name__)
        raise refused(f"np.{function.__name__}")

    @property
    def __jax_array__(self):
        # A JAX array's operators ask for this first, and give way to ours when there is none.
        if sys._getframe(1).f_code.co_name.startswith("_operator_"):
            raise AttributeError
        raise refused("a jax.numpy function or a JAX transform")

    @property
    def T(self):
        return ops.transpose(self)

    def reshape(self, *shape):
        return ops.reshape(self, shape=is_axes(shape))

    def transpose(self, *axes):
        return ops.transpose(self, axes=is_axes(axes) if axes else None)

    def astype(self, dtype):
        return ops.astype(self, dtype)

    def flip(self, *axis):
        return ops.flip(self, is_axes(axis) if axis else None)

    def cumsum(self, axis=None):
        return ops.cumsum(self, axis=axis)

    def cumprod(self, axis=None):
        return ops.cumprod(self, axis=axis)

    all = reduction(ops.all)
    any = reduction(ops.any)
    argmax = reduction(ops.argmax)
    argmin = reduction(ops.argmin)
    logsumexp = reduction(ops.logsumexp)
    max = reduction(ops.max)
    mean = reduction(ops.mean)
    min = reduction(ops.min)
    norm = reduction(ops.norm)
    prod = reduction(ops.prod)
    std = reduction(ops.std)
    sum = reduction(ops.sum)
    var = reduction(ops.var)

    diagonal = method(ops.diagonal)
    flatten = method(ops.ravel)
    moveaxis = method(ops.moveaxis)
    ravel = method(ops.ravel)
    repeat = method(ops.repeat)
    roll = method(ops.roll)
    squeeze = method(ops.squeeze)
    swapaxes = method(ops.swapaxes)
    tile = method(ops.tile)
    trace = method(ops.trace)
    tril = method(ops.tril)
    triu = method(ops.triu)

    def clip(self, min=None, max=None):
        return ops.clip(self, min, max)

    abs = method(ops.abs)
    arccos = method(ops.arccos)
    arcsin = method(ops.arcsin)
    arctan = method(ops.arctan)
    ceil = method(ops.ceil)
    cos = method(ops.cos)
    cosh = method(ops.cosh)
    erf = method(ops.erf)
    exp = method(ops.exp)
    expm1 = method(ops.expm1)
    floor = method(ops.floor)
    log = method(ops.log)
    log1p = method(ops.log1p)
    reciprocal = method(ops.reciprocal)
    relu = method(ops.relu)
    round = method(ops.round)
    sigmoid = method(ops.sigmoid)
    sign = method(ops.sign)
    sin = method(ops.sin)
    sinh = method(ops.sinh)
    sqrt = method(ops.sqrt)
    square = method(ops.square)
    tan = method(ops.tan)
    tanh = method(ops.tanh)
    trunc = method(ops.trunc)

    def sort(self, axis=-1, descending: bool = False):
        return ops.sort(self, axis, descending=descending)

    def argsort(self, axis=-1, descending: bool = False):
        return ops.argsort(self, axis=axis, descending=descending)

    def masked_fill(self, mask, value):
        return ops.masked_fill(self, mask, value)


def bare(x):
    return ops.stop_gradient(x) if isinstance(x, Methods) else x
