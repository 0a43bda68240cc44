"""Rotary embedding: what it is for, its two conventions, errors."""

import jax.numpy as jnp
import numpy as np
import pytest

from pullback import ops
from pullback.lib.errors import OperandError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("pairs", ["halves", "interleaved"])
def test_scores_depend_on_the_difference_of_positions(pairs):
    q, k = (jnp.asarray(RNG.normal(size=(1, 5, 1, 8)), jnp.float32) for _ in range(2))
    scores = [jnp.einsum("bthk,bshk->ts", *(ops.rotary(x, offset=offset, pairs=pairs) for x in (q, k))) for offset in (0, 37)]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-4, atol=1e-5)
    assert not np.allclose(scores[0], jnp.einsum("bthk,bshk->ts", q, k), atol=0.1)


def test_the_conventions_differ_by_the_order_of_the_width():
    x = jnp.asarray(RNG.normal(size=(2, 3, 2, 6)), jnp.float32)
    order = np.array([0, 2, 4, 1, 3, 5])
    np.testing.assert_allclose(ops.rotary(x, pairs="interleaved")[..., order], ops.rotary(x[..., order]), rtol=1e-6)


def test_positions_say_what_an_offset_says():
    x = jnp.asarray(RNG.normal(size=(2, 3, 1, 4)), jnp.bfloat16)
    y = ops.rotary(x, jnp.array([[7, 8, 9], [0, 1, 2]]))
    assert y.dtype == jnp.bfloat16
    np.testing.assert_array_equal(y[0], ops.rotary(x, offset=7)[0])
    np.testing.assert_array_equal(y[1], ops.rotary(x)[1])


def test_nothing_of_x_is_kept():
    _, res = ops.rotary.evaluate(jnp.zeros((2, 3, 1, 4)), jnp.arange(3))
    assert not hasattr(res.x, "devices") and res.positions.shape == (3,)


@pytest.mark.parametrize(
    "shape, positions, statics, text",
    [
        ((2, 3, 1, 5), None, {}, "even width"),
        ((3, 4), None, {}, "time, heads, width"),
        ((2, 3, 1, 4), np.zeros(3), {}, "positions are float32; expected integers"),
        ((2, 3, 1, 4), np.zeros(4, int), {}, r"positions of shape \(4,\) do not broadcast to \(..., T\) = \(2, 3\)"),
        ((2, 3, 1, 4), None, {"pairs": "interleave"}, "did you mean 'interleaved'"),
    ],
)
def test_operands_that_do_not_fit(shape, positions, statics, text):
    with pytest.raises(OperandError, match=text):
        ops.rotary(jnp.zeros(shape), positions if positions is None else jnp.asarray(positions), **statics)
