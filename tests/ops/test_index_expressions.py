"""Random index expressions on random shapes: values against NumPy, cotangents against jax.vjp and NumPy.

All numbers are small integers in float32, so whatever the order of a sum, it is exact.
"""

import functools

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as of

import pullback as pb
from pullback import ops
from pullback.autograd.differences import FAST
from pullback.lib.errors import PullbackError

SHAPES = [(4,), (0,), (3, 4), (2, 3, 4), (2, 0, 3)]  # few of each, so that programs are shared
SLICES = [slice(None), slice(1, None), slice(-1, None, -2), slice(2, 1), slice(None, 2)]
IDS_SHAPES = [(), (2,), (1,), (3, 2), (3, 1)]  # any of these broadcast

jit = functools.partial(jax.jit, compiler_options=FAST)


def entries(sizes: tuple[int, ...]):
    """(axes that it stands for, entry): slices, integers, integer arrays, masks of one or two axes."""
    n = sizes[0]
    kinds = [st.sampled_from(SLICES).map(lambda cut: (1, cut)), of.arrays(bool, (n,)).map(lambda mask: (1, mask))]
    if n:
        ids = st.sampled_from(IDS_SHAPES).flatmap(lambda shape: of.arrays(np.int32, shape, elements=st.integers(-n, n - 1)))
        kinds += [st.integers(-n, n).map(lambda i: (1, i)), *[ids.map(lambda ids: (1, ids))] * 3]
    if len(sizes) > 1:
        kinds.append(of.arrays(bool, sizes[:2]).map(lambda mask: (2, mask)))
    return st.one_of(kinds)


@st.composite
def expressions(draw):
    """A shape and a key for it: one entry after the other, some of them left out or covered by `...`, and new axes between."""
    shape, key, axis = draw(st.sampled_from(SHAPES)), [], 0
    while axis < len(shape):
        count, entry = draw(entries(shape[axis:]))
        key.append(entry)
        axis += count
    start = draw(st.integers(0, len(key)))
    if draw(st.booleans()):
        key[start : draw(st.just(start) | st.integers(start, len(key)))] = [...]  # of no axes, in half of them
    elif draw(st.booleans()):
        del key[start:]
    for _ in range(draw(st.integers(0, 2))):
        key.insert(draw(st.integers(0, len(key))), None)
    return shape, key[0] if len(key) == 1 and draw(st.booleans()) else tuple(key)


@functools.cache
def program(key: tuple, skipped: int):
    """Ours and theirs for all keys that look like this one; the integer arrays are its arguments."""

    def run(ids, x, z_bar, y_bar):
        arrays = iter(ids)
        here = tuple(next(arrays) if k == "ids" else slice(*k[1:]) if isinstance(k, tuple) else k for k in key)
        return both(here, skipped, x, z_bar, y_bar)

    return jit(run)


def both(key, skipped: int, x, z_bar, y_bar):
    """Values and cotangents of index, index_set and index_add; jax.vjp's for the first and the last."""
    y = y_bar[(0,) * skipped] if y_bar.size else y_bar.sum(tuple(range(skipped)))
    pull = lambda f, bar, *xs: (lambda z, pullback: (z, *pullback(bar)))(*pb.vjp(f, *xs))
    theirs = jax.vjp(lambda x: x[key], x)[1](y_bar) + jax.vjp(lambda y: x.at[key].add(y), y)[1](z_bar)
    ours = [
        pull(lambda x: ops.index(x, key), y_bar, x),
        pull(lambda x, y: ops.index_set(x, key, y), z_bar, x, y),
        pull(lambda x, y: ops.index_add(x, key, y), z_bar, x, y),
    ]
    return y, theirs, ours


def shared(key) -> tuple[tuple, list]:
    """A key with its integers and integer arrays taken out."""
    entries = key if isinstance(key, tuple) else (key,)
    is_ids = lambda k: isinstance(k, int) or isinstance(k, np.ndarray) and k.dtype != bool
    looks = tuple("ids" if is_ids(k) else ("slice", k.start, k.stop, k.step) if isinstance(k, slice) else k for k in entries)
    return looks, [np.asarray(k, np.int32) for k in entries if is_ids(k)]


def has_mask(key) -> bool:
    return any(isinstance(k, np.ndarray) and k.dtype == bool for k in (key if isinstance(key, tuple) else (key,)))


@given(expressions(), st.integers(0, 3), st.booleans())
def test_index_expressions_mean_what_numpy_means(forget, expression, skipped, traced):
    forget()
    shape, key = expression
    rng = np.random.default_rng(0)
    x, z_bar = (rng.integers(-99, 100, size=shape).astype(np.float32) for _ in range(2))
    try:
        part = x[key]
    except IndexError:
        for call in (lambda: ops.index(x, key), lambda: ops.index_set(x, key, 0.0), lambda: ops.index_add(x, key, 0.0)):
            try:
                call()
            except PullbackError:
                continue
            raise AssertionError(f"NumPy refuses {key} of {shape}; {call} did not") from None
        return
    y_bar, skipped = rng.integers(-99, 100, size=part.shape).astype(np.float32), min(skipped, part.ndim)
    if traced and not has_mask(key):
        looks, ids = shared(key)
        y, theirs, ours = program(looks, skipped)(ids, x, z_bar, y_bar)
    else:
        y, theirs, ours = jit(functools.partial(both, key, skipped))(x, z_bar, y_bar)

    summed = lambda bar: bar.sum(tuple(range(skipped)))
    last, added, written = np.full(shape, -1), x.copy(), x.copy()
    last[key] = np.arange(part.size).reshape(part.shape)
    owed = np.zeros(part.size, np.float32)
    owed[last[last >= 0]] = z_bar[last >= 0]
    np.add.at(added, key, np.array(np.broadcast_to(y, part.shape)))  # NumPy 2.4 reads beyond a y that it has to broadcast
    written[key] = y
    right = [
        (part, theirs[0]),
        (written, np.where(last < 0, z_bar, 0), summed(owed.reshape(part.shape))),
        (added, z_bar, theirs[1]),
    ]
    np.testing.assert_array_equal(theirs[1], summed(z_bar[key]))
    for came, wanted in zip(ours, right, strict=True):
        for a, b in zip(came, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(a), b)
            assert a.shape == b.shape and a.dtype == np.float32
