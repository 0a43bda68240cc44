"""The head and its loss in one op: chunks change nothing, strips add up, and the logits are never all there."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import ops
from pullback.lib.errors import OperandError

head = ops.linear_softmax_cross_entropy
N, V, C, CHUNK = 70, 5000, 8, 16  # more classes than one strip of the weight, rows that do not divide
RNG = np.random.default_rng(0)
X, WEIGHT, LABELS = RNG.normal(size=(N, C)), RNG.normal(size=(V, C)), RNG.integers(0, V, size=N)
WEIGHTS = RNG.uniform(0, 2, size=N) * (RNG.random(N) < 0.7)


def dense(x, weight, weights):
    """The same in plain jax.numpy, for autodiff."""
    losses = -jnp.take_along_axis(jax.nn.log_softmax(x @ weight.T), LABELS[:, None], 1)[:, 0]
    return (weights * losses).sum() / weights.sum()


@functools.cache
def reference():
    return jax.jit(jax.value_and_grad(dense, argnums=(0, 1, 2)))(*map(jnp.asarray, (X, WEIGHT, WEIGHTS)))


@pytest.mark.parametrize("chunk", [None, CHUNK, 1000])
def test_equals_autodiff_of_the_dense_head(chunk):
    with jax.enable_x64(True):
        y, bars = reference()
        ours, res = head.evaluate(jnp.asarray(X), jnp.asarray(WEIGHT), LABELS, jnp.asarray(WEIGHTS), chunk=chunk)
        x_bar, weight_bar, _, weights_bar = head.rules["exact"].program((True, True, False, True))(res, jnp.float64(-1.7), chunk=chunk)
        np.testing.assert_allclose(ours, y, rtol=1e-13)
        for a, b in zip((x_bar, weight_bar, weights_bar), bars):
            assert np.linalg.norm(a + 1.7 * b) < 1e-12 * np.linalg.norm(1.7 * b)


@functools.cache
def compiled(gradient: bool, chunk=CHUNK, width=C, classes=V):
    """The op alone, in float32, with its residuals or without."""
    shapes = [jax.ShapeDtypeStruct(s, d) for s, d in (((N, width), "float32"), ((classes, width), "float32"), ((N,), "int32"))]
    return jax.jit(lambda *xs: head.fn(*xs, chunk=chunk) if gradient else head.fn(*xs, chunk=chunk)[0]).lower(*shapes).compile()


def temporaries(*args) -> int:
    memory = compiled(*args).memory_analysis()
    assert memory is not None
    return memory.temp_size_in_bytes


@pytest.mark.parametrize("gradient", [True, False])
def test_no_more_than_one_chunk_of_logits_is_held(gradient):
    """XLA's temporaries: one chunk of logits, which softmax and its cotangent are written over, and one strip."""
    logits = 4 * CHUNK * V
    assert 0.8 * logits < temporaries(gradient) < 1.7 * logits


def test_cotangent_of_the_weight_is_added_to_in_place():
    assert temporaries(True, 4, 64, 20000) < 0.5 * 4 * 64 * 20000


def test_a_loss_without_gradient_does_no_work_for_one():
    """One product of three, and no array in the shape of the weight."""
    bare, full = (compiled(gradient).as_text() or "" for gradient in (False, True))
    made = re.compile(rf"= f32\[{V},{C}\]\S* (?!parameter|get-tuple-element)")
    assert bare.count(" dot(") == 1 < full.count(" dot(")
    assert not made.search(bare) and made.search(full)


@pytest.mark.parametrize("dtype, limit", [("bfloat16", 1e-2), ("float16", 1e-3)])
def test_narrow_operands_have_a_wide_loss_and_gradient(dtype, limit):
    """Of classes that are no label too: p divided by the number of rows would be below the normal numbers of float16."""
    x, weight, labels = jnp.asarray(np.tile(X, (20, 1)), dtype), jnp.asarray(WEIGHT, dtype), np.tile(LABELS, 20)
    y, res = head.evaluate(x, weight, labels, chunk=len(labels))
    scale = 4096.0  # as a loss scale would be
    weight_bar = head.rules["exact"].program((False, True, False, False))(res, jnp.float32(scale), chunk=len(labels))[1]
    assert y.dtype == res.weight_bar.dtype == jnp.float32
    with jax.enable_x64(True):
        wide = jax.jit(jax.value_and_grad(dense, argnums=1))
        loss, wanted = wide(jnp.asarray(x[:N], "float64"), jnp.asarray(weight, "float64"), jnp.ones(N))
    np.testing.assert_allclose(y, loss, rtol=1e-5)
    gaps = np.asarray(weight_bar, "float64") / scale - np.asarray(wanted)
    for rows in (LABELS, np.setdiff1d(np.arange(V), LABELS)):
        assert np.linalg.norm(gaps[rows]) < limit * np.linalg.norm(wanted[rows])


@pytest.mark.parametrize(
    "weight, labels, chunk, text",
    [
        (WEIGHT.T, LABELS, None, r"expected x \(..., C\) and weight \(V, C\)"),
        (WEIGHT, LABELS[None], None, "labels of shape"),
        (WEIGHT, LABELS, 0, "chunk 0; expected a number of rows"),
    ],
)
def test_operands_that_do_not_fit(weight, labels, chunk, text):
    with pytest.raises(OperandError, match=text):
        head(jnp.asarray(X), jnp.asarray(weight), labels, chunk=chunk)
