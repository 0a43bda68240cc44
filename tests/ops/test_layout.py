"""Layout in NumPy's spelling: every form of the arguments against NumPy, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.lib.errors import OperandError

X = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
RNG = np.random.default_rng(0)

CALLS = {  # the same call of NumPy's function and of ours
    "flip": [(), (0,), (-1,), ((0, 2),)],
    "roll": [(1,), (-7,), (2, 1), ((1, -2), (0, -1)), (1, (0, 1)), ((3,), 2), ((5,),)],
    "tril": [(), (1,), (-2,), (9,)],
    "triu": [(), (1,), (-2,), (-9,)],
    "moveaxis": [(0, 2), (-1, 0), ((0, 1), (1, 2)), ((2, 0), (0, 1)), (1, 1)],
    "diagonal": [(), (1,), (-1,), (5,), (-5,), (0, 1, 2), (1, 2, 0), (-1, -1, -2)],
    "trace": [(), (1,), (-1, 2, 0), (5,)],
    "repeat": [(2,), (3, 0), (0, 1), ((1, 2, 0), 1), ([2, 1], -3), ([2], 2), (np.array([0, 1, 2, 3]), -1)],
    "tile": [(2,), ((2,),), ((2, 3),), ((1, 2, 3, 1),), ([2, 0, 1],), (0,)],
    "ravel": [()],
    "pad": [
        (1,), ((1, 2),), (((0, 1), (2, 0), (1, 1)),), (0,), ((0, 2), "constant"),
        (1, "edge"), (((0, 1), (2, 0), (3, 5)), "reflect"), (((3, 1), (0, 0), (4, 9)), "symmetric"), (((2, 3), (0, 1), (0, 9)), "wrap"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_every_form_means_what_numpy_means(name):
    for arguments in CALLS[name]:
        ours, theirs = getattr(ops, name)(jnp.asarray(X), *arguments), getattr(np, name)(X, *arguments)
        np.testing.assert_array_equal(ours, theirs, err_msg=f"{name}{arguments}")
        assert ours.dtype == theirs.dtype


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["int8", "bool", "bfloat16"])
def test_the_dtype_stays(name, dtype):
    x = jnp.asarray(X).astype(dtype)
    y = getattr(ops, name)(x, *CALLS[name][0])
    assert y.dtype == dtype or name == "trace" and dtype != "bfloat16"  # a sum of narrow integers is wider, as NumPy's is


def test_a_pad_value_takes_the_dtype_of_x():
    np.testing.assert_array_equal(ops.pad(X, 1, constant_values=2.5), np.pad(X, 1, constant_values=2.5))
    y = ops.pad(jnp.arange(3), (1, 0), constant_values=7)
    assert y.dtype == jnp.int32 and y.tolist() == [7, 0, 1, 2]


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
def test_elements_that_a_mode_repeats_add_up_their_cotangents(mode):
    x, widths = jnp.asarray(RNG.normal(size=(3, 4)), jnp.float32), ((2, 1), (3, 5))
    y, pullback = pb.vjp(lambda x: ops.pad(x, widths, mode), x)
    y_bar = jnp.asarray(RNG.normal(size=y.shape), jnp.float32)
    theirs = jax.vjp(lambda x: jnp.pad(x, widths, mode), x)[1](y_bar)[0]
    np.testing.assert_allclose(pullback(y_bar)[0], theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("empty", [np.zeros((0, 3), np.float32), np.zeros((2, 0), np.float32)])
def test_nothing_can_be_laid_out_too(empty):
    for name in ("flip", "tril", "diagonal", "ravel"):
        np.testing.assert_array_equal(getattr(ops, name)(empty), getattr(np, name)(empty))
    for name, arguments in (("roll", (2,)), ("repeat", (2, 1)), ("tile", (2,)), ("pad", (1,)), ("moveaxis", (0, 1))):
        np.testing.assert_array_equal(getattr(ops, name)(empty, *arguments), getattr(np, name)(empty, *arguments))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.flip(x, 3), "flip: axis 3 of an array with 3 axes; expected -3 to 2"),
        (lambda x: ops.roll(x, 1, 3), "roll: axis 3"),
        (lambda x: ops.roll(x, (1, 2), 0), "roll: 2 shifts .* for 1 axes"),
        (lambda x: ops.roll(x, 1, (0, 0)), "names an axis twice"),
        (lambda x: ops.pad(x, 1, "mirror"), "no mode 'mirror'"),
        (lambda x: ops.pad(x, -1), "pad_width -1; expected whole numbers ≥ 0"),
        (lambda x: ops.pad(x, ((1, 2), 3)), "pad_width .* expected whole numbers ≥ 0"),
        (lambda x: ops.pad(x, ((1, 1), (1, 1))), "for 3 axes; expected"),
        (lambda x: ops.pad(x, 1, constant_values="1"), "constant_values is a str; expected one number"),  # type: ignore[arg-type]
        (lambda x: ops.pad(x[:, :0], 1, "edge"), "no element to continue with mode 'edge'"),
        (lambda x: ops.tril(x[0, 0]), r"tril: x of shape \(4,\); expected two or more axes"),
        (lambda x: ops.triu(x[0, 0, 0]), r"triu: x of shape \(\)"),
        (lambda x: ops.diagonal(x[0, 0]), r"diagonal: x of shape \(4,\)"),
        (lambda x: ops.diagonal(x, 0, 1, -2), "names an axis twice"),
        (lambda x: ops.moveaxis(x, (0, 1), 0), "2 axes .* for 1 places"),
        (lambda x: ops.repeat(x, (1, 2), 2), "expected one number, or 4 of them"),
        (lambda x: ops.repeat(x, -1, 0), "repeats -1; expected whole numbers ≥ 0"),
        (lambda x: ops.repeat(x, 1.5, 0), "repeats 1.5; expected whole"),
        (lambda x: ops.tile(x, -1), "reps -1; expected whole numbers ≥ 0"),
        (lambda x: ops.tile(x, (1, 0.5)), "expected whole numbers ≥ 0"),
    ],
)
def test_what_is_not_taken_says_so(call, text):
    with pytest.raises(OperandError, match=text):
        call(jnp.asarray(X))


def test_counts_that_are_only_known_later_are_refused():
    with pytest.raises(OperandError, match="repeats .* the shape of the result"):
        jax.jit(lambda x, n: ops.repeat(x, n))(X, 2)
    with pytest.raises(OperandError, match="reps .* the shape of the result"):
        jax.jit(lambda x, n: ops.tile(x, n))(X, 2)
