"""Linear algebra against NumPy's: stacks that broadcast, dtypes, singular matrices, errors; and how often a matrix is factorised."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import ops
from pullback.lib.errors import OperandError

pytestmark = pytest.mark.usefixtures("x64")


def matrices(*shape):
    rng = np.random.default_rng(0)
    return rng.normal(size=shape) + 2 * np.eye(shape[-1])[::-1]


SYSTEMS = [
    ((3, 3), (3,)),
    ((3, 3), (3, 3)),
    ((2, 3, 3), (3,)),
    ((2, 3, 3), (3, 3)),
    ((3, 3), (2, 3, 1)),
    ((2, 1, 2, 2), (3, 2, 2)),
    ((2, 0, 0), (0, 3)),
]


@pytest.mark.parametrize("a, b", SYSTEMS)
def test_solve_as_numpy(a, b):
    a, b = matrices(*a), np.random.default_rng(1).normal(size=b)
    for transpose in (False, True):
        right = np.linalg.solve(np.swapaxes(a, -1, -2) if transpose else a, b)
        x = ops.solve(jnp.asarray(a), jnp.asarray(b), transpose=transpose)
        assert x.shape == right.shape
        np.testing.assert_allclose(x, right, rtol=1e-10)


@pytest.mark.parametrize("a, b", SYSTEMS)
@pytest.mark.parametrize("lower", [False, True])
def test_triangular_solve_reads_one_triangle(a, b, lower):
    a, b = matrices(*a) + 3 * np.eye(a[-1]), np.random.default_rng(1).normal(size=b)
    read = np.tril(a) if lower else np.triu(a)
    x = ops.triangular_solve(jnp.asarray(a), jnp.asarray(b), lower=lower)
    np.testing.assert_allclose(x, np.linalg.solve(read, b), rtol=1e-10)
    x = ops.triangular_solve(jnp.asarray(a), jnp.asarray(b), lower=lower, transpose=True, unit_diagonal=True)
    ones = np.where(np.eye(a.shape[-1]), 1.0, np.swapaxes(read, -1, -2))
    np.testing.assert_allclose(x, np.linalg.solve(ones, b), rtol=1e-10)


def test_the_others_as_numpy():
    a = matrices(2, 3, 3)
    np.testing.assert_allclose(ops.inverse(jnp.asarray(a)), np.linalg.inv(a), rtol=1e-10)
    np.testing.assert_allclose(ops.inv(jnp.asarray(a)), np.linalg.inv(a), rtol=1e-10)
    np.testing.assert_allclose(ops.det(jnp.asarray(a)), np.linalg.det(a), rtol=1e-10)
    for ours, right in zip(ops.slogdet(jnp.asarray(a)), np.linalg.slogdet(a), strict=True):
        np.testing.assert_allclose(ours, right, rtol=1e-10)
    positive = a @ np.swapaxes(a, -1, -2)
    np.testing.assert_allclose(ops.cholesky(jnp.asarray(positive)), np.linalg.cholesky(positive), rtol=1e-10)


def test_cholesky_takes_the_symmetric_part():
    a = np.array([[4.0, 3.0], [1.0, 5.0]])
    root = np.asarray(ops.cholesky(jnp.asarray(a)))
    np.testing.assert_allclose(root @ root.T, (a + a.T) / 2, rtol=1e-12)


def test_dtypes():
    for dtype in (jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64):
        a, b = jnp.asarray([[2.0, 1.0], [1.0, 3.0]], dtype), jnp.ones(2, dtype)
        outputs = [ops.cholesky(a), ops.inverse(a), *ops.slogdet(a), ops.det(a), ops.solve(a, b), ops.triangular_solve(a, b, lower=True)]
        assert {y.dtype for y in outputs} == {jnp.dtype(dtype)}
    whole = jnp.asarray([[2, 1], [1, 3]])
    np.testing.assert_allclose(ops.solve(whole, jnp.asarray([3, 4])), [1.0, 1.0], rtol=1e-12)
    np.testing.assert_allclose(ops.inverse(whole), np.linalg.inv(np.asarray(whole)), rtol=1e-12)
    assert ops.solve(jnp.eye(2, dtype=jnp.bfloat16), jnp.ones(2, jnp.float32)).dtype == jnp.float32


def test_float16_is_solved_in_float32():
    """1 + 2⁻¹⁰ less 1 is 2⁻¹⁰: with half precision inside, the last pivot would be lost."""
    a = jnp.asarray([[1.0, 1.0], [1.0, 1 + 2.0**-10]], jnp.float16)
    np.testing.assert_array_equal(ops.inverse(a), [[1025.0, -1024.0], [-1024.0, 1024.0]])


def test_singular_matrices_are_not_hidden():
    a = jnp.asarray([[1.0, 2.0], [2.0, 4.0]])
    assert not np.isfinite(ops.inverse(a)).any() and not np.isfinite(ops.solve(a, jnp.ones(2))).any()
    sign, log = ops.slogdet(a)
    assert sign == 0 and log == -np.inf and ops.det(a) == 0
    assert np.isnan(ops.cholesky(-a)).any()


def test_a_compiled_step_factorises_once():
    def program(op, *xs):
        def both(*xs):
            y, res = op.evaluate(*xs)
            y_bar = jax.tree.map(jnp.ones_like, y)
            return y, op.find("exact").pull(res, y_bar, (True,) * len(xs), op.defaults)

        return jax.jit(both).lower(*xs).compile().as_text() or ""

    a = jnp.asarray(matrices(3, 3))
    for op, xs in ((ops.solve, (a, jnp.ones(3))), (ops.slogdet, (a,)), (ops.inverse, (a,))):
        assert program(op, *xs).count("getrf") == 1 or jax.default_backend() != "cpu", op.name


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda x: ops.cholesky(x), r"cholesky: A of shape \(2, 3\); expected square"),
        (lambda x: ops.inverse(x), "inverse: A of shape"),
        (lambda x: ops.slogdet(x[0]), r"slogdet: A of shape \(3,\)"),
        (lambda x: ops.det(x), "slogdet: A of shape"),
        (lambda x: ops.solve(x, x), r"solve: A of shape \(2, 3\)"),
        (
            lambda x: ops.solve(x[:, :2], x.T),
            r"solve: A of shape \(2, 2\) and b of shape \(3, 2\); expected b \(2,\) or \(\.\.\., 2, columns\)",
        ),
        (lambda x: ops.solve(x[:, :2], x[0, 0]), r"b of shape \(\)"),
        (lambda x: ops.triangular_solve(x[:, :2], x[0], lower=True), r"triangular_solve: A of shape \(2, 2\) and b of shape \(3,\)"),
        (lambda x: ops.solve(jnp.ones((2, 1, 1)), jnp.ones((3, 1, 1))), "solve: .*do not broadcast"),
        (lambda x: ops.triangular_solve(jnp.ones((2, 1, 1)), jnp.ones((3, 1, 1)), lower=True), "triangular_solve: .*do not broadcast"),
    ],
)
def test_shapes_that_do_not_fit(call, text):
    with pytest.raises(OperandError, match=text):
        call(jnp.ones((2, 3)))
