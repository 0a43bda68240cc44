"""Random shapes, dtypes, broadcasting, axes and statics for every family: values against NumPy, cotangents against jax.vjp.

Operands are drawn in float64 and rounded to the dtype; NumPy and JAX's autodiff work in float64 on the rounded operands, so
what is compared is the rounding of ours. Shapes come from a short list, so that programs are shared between examples.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.usefixtures("x64_drawn")

SHAPES = [(), (1,), (3,), (0,), (2, 3), (2, 1), (1, 3), (4, 2, 3), (2, 0, 3)]
PAIRS = [(a, b) for a in SHAPES for b in SHAPES if all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1]))]
DTYPES = ["float64", "float32", "bfloat16", "float16"]


def positive(rng, shape):
    return rng.uniform(0.3, 3, shape)


def either(rng, shape):
    return rng.choice((-1.0, 1.0), shape) * rng.uniform(0.1, 2.5, shape)


def inside(rng, shape):
    return rng.uniform(-0.9, 0.9, shape)


erf = np.vectorize(math.erf, otypes=[float])

UNARY = {  # ours: NumPy's (also as jax.numpy knows it), and where it is drawn
    "abs": (np.abs, jnp.abs, either),
    "arccos": (np.arccos, jnp.arccos, inside),
    "arcsin": (np.arcsin, jnp.arcsin, inside),
    "arctan": (np.arctan, jnp.arctan, either),
    "cos": (np.cos, jnp.cos, either),
    "cosh": (np.cosh, jnp.cosh, either),
    "exp": (np.exp, jnp.exp, either),
    "expm1": (np.expm1, jnp.expm1, either),
    "log": (np.log, jnp.log, positive),
    "log1p": (np.log1p, jnp.log1p, positive),
    "neg": (np.negative, jnp.negative, either),
    "reciprocal": (np.reciprocal, jnp.reciprocal, either),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), jax.nn.sigmoid, either),
    "silu": (lambda x: x / (1 + np.exp(-x)), jax.nn.silu, either),
    "sin": (np.sin, jnp.sin, either),
    "sinh": (np.sinh, jnp.sinh, either),
    "softplus": (lambda x: np.logaddexp(x, 0), jax.nn.softplus, either),
    "sqrt": (np.sqrt, jnp.sqrt, positive),
    "square": (np.square, jnp.square, either),
    "tan": (np.tan, jnp.tan, inside),
    "tanh": (np.tanh, jnp.tanh, either),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), jax.nn.elu, either),
    "erf": (erf, jax.lax.erf, either),
    "relu": (lambda x: np.maximum(x, 0), jax.nn.relu, either),
    "leaky_relu": (lambda x: np.where(x > 0, x, 0.01 * x), jax.nn.leaky_relu, either),
    "mish": (lambda x: x * np.tanh(np.logaddexp(x, 0)), jax.nn.mish, either),
    "gelu_erf": (
        lambda x: x * (1 + np.vectorize(math.erf, otypes=[float])(x / 2**0.5)) / 2,
        functools.partial(jax.nn.gelu, approximate=False),
        either,
    ),
}

BINARY = {
    "add": (np.add, jnp.add, either),
    "sub": (np.subtract, jnp.subtract, either),
    "mul": (np.multiply, jnp.multiply, either),
    "div": (np.divide, jnp.divide, either),
    "power": (np.power, jnp.power, positive),
    "maximum": (np.maximum, jnp.maximum, either),
    "minimum": (np.minimum, jnp.minimum, either),
}

REDUCTIONS = {
    "sum": (np.sum, jnp.sum),
    "mean": (np.mean, jnp.mean),
    "max": (np.max, jnp.max),
    "min": (np.min, jnp.min),
    "prod": (np.prod, jnp.prod),
    "var": (np.var, jnp.var),
    "std": (np.std, jnp.std),
    "logsumexp": (lambda x, **kw: np.log(np.sum(np.exp(x), **kw)), jax.nn.logsumexp),
    "norm": (lambda x, **kw: np.sqrt(np.sum(x * x, **kw)), lambda x, **kw: jnp.sqrt(jnp.sum(x * x, **kw))),
}

ALONG = {  # one axis
    "cumsum": (np.cumsum, jnp.cumsum),
    "cumprod": (np.cumprod, jnp.cumprod),
    "flip": (np.flip, jnp.flip),
    "sort": (np.sort, jnp.sort),
    "softmax": (lambda x, axis: (e := np.exp(x)) / e.sum(axis, keepdims=True), jax.nn.softmax),
    "log_softmax": (lambda x, axis: x - np.log(np.exp(x).sum(axis, keepdims=True)), jax.nn.log_softmax),
}


seeds = st.integers(0, 2**16)
dtypes = st.sampled_from(DTYPES)


@given(st.sampled_from(sorted(UNARY)), st.sampled_from(SHAPES), dtypes, seeds)
def test_of_one_operand(compare, name, shape, dtype, seed):
    numpy, theirs, draw = UNARY[name]
    terms = 0.3 if name in ("silu", "mish", "gelu_erf") else 0.0  # of slopes that cross 0
    compare(name, numpy, theirs, [draw(np.random.default_rng(seed), shape)], dtype, seed, size=terms)


@given(st.sampled_from(sorted(BINARY)), st.sampled_from(PAIRS), dtypes, seeds)
def test_of_two_operands_that_broadcast(compare, name, shapes, dtype, seed):
    numpy, theirs, draw = BINARY[name]
    rng = np.random.default_rng(seed)
    drawn = [draw(rng, shape) for shape in shapes]
    compare(name, numpy, theirs, drawn, dtype, seed, size=terms(theirs, drawn, seed) if shapes[0] != shapes[1] else 0.0)


def terms(theirs, drawn, seed: int) -> float:
    """The largest of what is added up over broadcast axes, which may cancel: the cotangents of operands that need no broadcast."""
    full = [np.broadcast_to(x, np.broadcast_shapes(*map(np.shape, drawn))) for x in drawn]
    y, pullback = jax.vjp(theirs, *full)
    return max(
        float(np.max(np.abs(x), initial=0.0)) for x in pullback(jnp.asarray(np.random.default_rng(seed).normal(size=y.shape), y.dtype))
    )


@st.composite
def axes_of(draw):
    """A shape, and one axis, several or all of it that are not empty."""
    shape = draw(st.sampled_from(SHAPES))
    there = [i for i, n in enumerate(shape) if n] if 0 in shape else list(range(len(shape)))
    axes = draw(st.lists(st.sampled_from(there), unique=True)) if there else []
    signed = tuple(i - len(shape) if draw(st.booleans()) else i for i in axes)
    if not shape or 0 not in shape and draw(st.booleans()):
        return shape, None
    return shape, signed[0] if len(signed) == 1 and draw(st.booleans()) else signed


@given(st.sampled_from(sorted(REDUCTIONS)), axes_of(), st.booleans(), dtypes, seeds)
def test_reductions(compare, name, where, keepdims, dtype, seed):
    numpy, theirs = REDUCTIONS[name]
    shape, axis = where
    x = np.random.default_rng(seed).permutation(np.linspace(0.5, 2.5, max(1, math.prod(shape))))[: math.prod(shape)].reshape(shape)
    n = math.prod(shape if axis is None else [shape[i] for i in (axis if isinstance(axis, tuple) else (axis,))])
    if n == 1 and name in ("norm", "std"):
        return  # |x|, and √0: where JAX has NaN
    compare(name, numpy, theirs, [x], dtype, seed, axis=axis, keepdims=keepdims)


@given(st.sampled_from(sorted(ALONG)), st.sampled_from([s for s in SHAPES if s]), st.data(), dtypes, seeds)
def test_along_an_axis(compare, name, shape, data, dtype, seed):
    numpy, theirs = ALONG[name]
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    if not shape[axis] and "softmax" in name:
        return  # JAX refuses
    n = math.prod(shape)
    x = np.random.default_rng(seed).permutation(np.linspace(0.5, 1.5, max(1, n)))[:n].reshape(shape)
    compare(name, numpy, theirs, [x], dtype, seed, axis=axis)


@given(st.sampled_from([s for s in SHAPES if len(s) > 1]), st.data(), dtypes, seeds)
def test_layout(compare, shape, data, dtype, seed):
    """Entries move and none changes."""
    axes = tuple(data.draw(st.permutations(range(len(shape)))))
    k = data.draw(st.integers(-3, 3))
    name, numpy, theirs, statics = data.draw(
        st.sampled_from(
            [
                ("transpose", np.transpose, jnp.transpose, {"axes": axes}),
                ("reshape", np.reshape, jnp.reshape, {"shape": (math.prod(shape),)}),
                ("tril", np.tril, jnp.tril, {"k": k}),
                ("triu", np.triu, jnp.triu, {"k": k}),
                ("roll", np.roll, jnp.roll, {"shift": k, "axis": axes[0]}),
                ("diagonal", np.diagonal, jnp.diagonal, {"offset": k, "axis1": axes[0], "axis2": axes[1]}),
                ("moveaxis", np.moveaxis, jnp.moveaxis, {"source": axes[0], "destination": axes[1]}),
                ("swapaxes", np.swapaxes, jnp.swapaxes, {"axis1": axes[0], "axis2": axes[1]}),
                ("repeat", np.repeat, jnp.repeat, {"repeats": abs(k), "axis": axes[0]}),
                ("tile", np.tile, jnp.tile, {"reps": (abs(k), 2)}),
            ]
        )
    )
    compare(name, numpy, theirs, [np.random.default_rng(seed).normal(size=shape)], dtype, seed, **statics)


matmul = functools.partial(jnp.matmul, precision="highest")  # one object: programs are found again by it


@given(st.sampled_from([(3, 4), (1, 1), (2, 1), (0, 3), (2, 0)]), st.sampled_from(["", "2", "4"]), st.booleans(), dtypes, seeds)
def test_products(compare, rows_and_columns, stack, vector, dtype, seed):
    rng, (m, k) = np.random.default_rng(seed), rows_and_columns
    batch = (int(stack),) if stack else ()
    x, y = rng.normal(size=(*batch, m, k)), rng.normal(size=(k,) if vector else (k, 2))
    compare("matmul", np.matmul, matmul, [x, y], dtype, seed)
