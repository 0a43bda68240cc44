"""How far apart two arrays are."""

import jax.numpy as jnp
import numpy as np
import pytest

from pullback.lib.gap import gap


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_next_number_is_one_ulp_away(dtype, x64):
    x = np.asarray(jnp.asarray([1.5, -1.5, 0.0, 2.0**-14], dtype))
    bits = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}")
    next_ones = (bits + 1).astype(bits.dtype).view(x.dtype)
    found = gap(x, next_ones)
    assert found.ulps == 1 and found.differing == found.size == 4 and found.relative < 0.01
    assert gap(x, x)[:4] == (0, 4, 0, 0.0)


def test_ulps_across_zero_and_the_whole_range():
    tiny = np.float32(1e-45)  # the smallest number there is
    assert gap(np.array([-tiny]), np.array([tiny])).ulps == 3  # by way of −0 and 0
    assert gap(np.array([-0.0]), np.array([0.0]))[:4] == (1, 1, 1, 0.0)
    assert gap(np.array([-np.inf]), np.array([np.inf])).ulps == 2 * 0x7FF0_0000_0000_0000 + 1


def test_the_worst_element_and_the_relative_gap():
    a, b = np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 5.0]])
    found = gap(a, b)
    assert (found.differing, found.at, found.a, found.b) == (1, (1, 1), 0.0, 5.0)
    assert found.relative == pytest.approx(5 / np.sqrt(50)) and "1 of 4 elements differ, up to" in str(found)


def test_what_is_not_finite():
    nan = np.array([np.nan, 1.0])
    assert gap(nan, nan).differing == 0 and gap(nan, nan).relative == 0
    assert gap(np.array([1.0, 1.0]), nan).relative == np.inf
    assert gap(np.array([np.inf]), np.array([np.inf])).differing == 0


def test_two_dtypes_integers_and_nothing():
    assert gap(np.array([0.5, 0.1], np.float32), np.array([0.5, 0.1]))[:3] == (1, 2, None)
    assert gap(np.array([1, 2]), np.array([1, 5]))[:3] == (1, 2, None) and gap(np.array([True]), np.array([False])).differing == 1
    assert gap(np.zeros((0, 3)), np.zeros((0, 3)))[:4] == (0, 0, 0, 0.0) and gap(np.float32(1), np.float32(2)).at == ()
    with pytest.raises(ValueError, match="shapes"):
        gap(np.zeros(2), np.zeros(3))
