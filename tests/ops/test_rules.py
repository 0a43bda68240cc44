"""Every exact rule on every case of its op, against opinions that know nothing of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback.ops.cases import CASES
from pullback.ops.rule import is_float

FLOAT_CASES = [case for case in CASES if "dtype" not in case.statics]
OPS = sorted({case.op.name for case in FLOAT_CASES})


def each(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: f"{case.op.name}-{case.label}".replace(" ", "_"))


@each(CASES)
def test_rule_agrees_with_autodiff_and_with_differences(case, judge):
    with jax.enable_x64(True):
        ran = judge.run(case)
        for x, bar, wanted in zip(ran.xs, ran.x_bars, ran.mask):
            assert (bar is not None) == wanted, "a float operand is owed a cotangent, no other has one"
            assert not wanted or (bar.shape == x.shape and bar.dtype == x.dtype)
        assert judge.by_autodiff(ran) < 1e-10
        assert judge.by_differences(ran) < 100


@each([case for case in CASES if case.op.is_fused])
def test_composite_equals_forward(case, judge):
    with jax.enable_x64(True):
        xs = judge.arrays(case.make(np.random.default_rng(1)), "float64")
        statics = {**case.op.defaults, **case.statics}
        ours, theirs = case.op(*xs, **statics), jax.jit(lambda *xs: case.op.composite_fn(*xs, **statics))(*xs)
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", OPS)
def test_output_and_cotangents_keep_the_dtype(name, judge):
    """Shapes and dtypes alone: nothing is computed. Under x64, so that a slip to float64 shows. A loss may be wider."""

    def dtypes(case, dtype):
        xs = judge.arrays(case.make(np.random.default_rng(0)), dtype)

        def both(*floats):
            moved = iter(floats)
            y, res = case.op.evaluate(*[next(moved) if is_float(x) else x for x in xs], **case.statics)
            y_bar = jax.tree.map(lambda v: jnp.zeros(v.shape, v.dtype) if is_float(v) else None, y)
            return y, case.op.rules["exact"].pull(res, y_bar, judge.mask(case.op, xs), case.statics)

        floats = [x for x in xs if is_float(x)]
        y, x_bars = jax.eval_shape(both, *floats) if floats else ((), ())
        return [{str(v.dtype) for v in jax.tree.leaves(found) if is_float(v)} for found in (y, x_bars)]

    with jax.enable_x64(True):
        for case in [case for case in FLOAT_CASES if case.op.name == name][:4]:
            for dtype, wider in (("float32", "float32"), ("bfloat16", "float32" if case.op.is_fused else "bfloat16")):
                outputs, cotangents = dtypes(case, dtype)
                assert outputs <= {dtype} or outputs == {wider}, case.label
                assert cotangents <= {dtype}, case.label


@pytest.mark.parametrize("name", OPS)
def test_bfloat16_values_are_float32_values_rounded(name, judge):
    """The rule in bfloat16 against the rule in float32 on the same rounded operands: the largest case of the op."""
    case = max(
        (case for case in FLOAT_CASES if case.op.name == name), key=lambda case: sum(map(np.size, case.make(np.random.default_rng(0))))
    )
    narrow = judge.run(case, dtype="bfloat16")
    wide = [x.astype("float32") if is_float(x) else x for x in narrow.xs]
    y, res = case.op.evaluate(*wide, **case.statics)
    y_bar = jax.tree.map(lambda bar: bar.astype("float32"), narrow.y_bar)
    x_bars = case.op.rules["exact"].program(judge.mask(case.op, wide))(res, y_bar, **case.statics)
    for ours, theirs in zip(jax.tree.leaves((narrow.y, narrow.x_bars)), jax.tree.leaves((y, x_bars)), strict=True):
        if is_float(ours):
            assert np.linalg.norm(np.ravel(ours - theirs)) <= 1e-2 * np.linalg.norm(np.ravel(theirs))
