"""Points where convention decides: kinks, ties, infinities, empty axes, indices out of range, narrow sums."""

import jax
import numpy as np
import pytest

from pullback.ops.cases import EDGES


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{edge.op.name}-{edge.label}".replace(" ", "_"))
def test_edge(edge, judge):
    with jax.enable_x64(True):
        xs = judge.arrays(edge.operands)
        if edge.op.kind == "constant":  # no rule: nothing flows back
            np.testing.assert_array_equal(edge.op(*xs, **edge.statics), edge.y)
            return
        y, res = edge.op.evaluate(*xs, **edge.statics)
        y_bar = jax.tree.map(lambda v, bar: np.asarray(bar, v.dtype).reshape(v.shape), y, edge.y_bar)
        x_bars = edge.op.rules["exact"].program(judge.mask(edge.op, xs))(res, y_bar, **edge.statics)
        if edge.y is not None:
            for v, expected in zip(y, edge.y, strict=True) if isinstance(y, tuple) else [(y, edge.y)]:
                near(v, expected)
        assert len(edge.x_bars) == len(xs)
        for x, x_bar, expected in zip(xs, x_bars, edge.x_bars):
            if expected is not None:
                near(x_bar, expected)
                assert x_bar.shape == x.shape and x_bar.dtype == x.dtype


def near(value, expected):
    """Within the rounding of the value's dtype; infinities and NaN exactly."""
    eps = float(jax.numpy.finfo(value.dtype).eps)
    np.testing.assert_allclose(np.asarray(value, np.float64), np.asarray(expected, np.float64), rtol=8 * eps, atol=8 * eps)
