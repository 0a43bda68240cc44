"""einsum, tensordot, dot, inner and outer in NumPy's spelling: their forms, dtypes and errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import ops
from pullback.lib.errors import OperandError
from pullback.lib.precision import precision
from pullback.ops.contraction import einsum as contraction

SHAPES = {
    "dot": [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((2, 3, 4), (2, 4, 3)), ((), (2, 3)), ((2,), ())],
    "inner": [((3,), (3,)), ((2, 3), (4, 3)), ((2, 2, 3), (3,)), ((), (2, 3))],
    "outer": [((3,), (2,)), ((2, 2), (3,)), ((), ()), ((0,), (2,))],
    "tensordot": [((2, 3, 4), (3, 4, 5)), ((2, 3), (2, 3))],
}


@pytest.mark.parametrize("name, x, y", [(name, x, y) for name, pairs in SHAPES.items() for x, y in pairs])
def test_as_numpy(name, x, y):
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=shape).astype(np.float32) for shape in (x, y))
    right = getattr(np, name)(x, y)
    ours = getattr(ops, name)(jnp.asarray(x), jnp.asarray(y))
    assert ours.shape == right.shape
    np.testing.assert_allclose(ours, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axes", [1, 0, ([0, 1], [1, 0]), (-1, 0), ((), ())])
def test_axes_of_tensordot(axes):
    x, y = np.random.default_rng(0).normal(size=(2, 3, 3)).astype(np.float32)
    np.testing.assert_allclose(ops.tensordot(jnp.asarray(x), jnp.asarray(y), axes), np.tensordot(x, y, axes), rtol=1e-5)


@pytest.mark.parametrize("spec, shapes", [("ij", [(2, 3)]), ("ba", [(2, 3)]), ("ij,jk", [(2, 3), (3, 2)]), ("bB", [(2, 3)]),
                                          ("...i,i", [(2, 2, 3), (3,)]), (" i j , j -> i ", [(2, 3), (3,)]), ("i...->...", [(2, 3)]),
                                          ("...ij,...jk->...ik", [(2, 1, 2, 3), (4, 3, 2)]), ("ij->", [(2, 3)]), ("", [()])])  # fmt: skip
def test_forms_of_a_specification(spec, shapes):
    xs = [np.random.default_rng(i).normal(size=shape).astype(np.float32) for i, shape in enumerate(shapes)]
    ours, right = ops.einsum(spec, *map(jnp.asarray, xs)), np.einsum(spec, *xs)
    assert ours.shape == right.shape
    np.testing.assert_allclose(ours, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "spec, shapes, text",
    [
        ("ij,jk->ik", [(2, 3)], "is for 2 operands; it came with 1"),
        ("ij->i", [(2,)], "operand 0 has 1 axes, and 'ij' names 2"),
        ("i->i", [(2, 3)], r"operand 0 has 2 axes, and 'i' names 1; `\.\.\.`"),
        ("ij,jk->ik", [(2, 3), (4, 2)], r"'j' is 4 in operand 1, \(4, 2\), and 3 in one before"),
        ("ii->i", [(2, 3)], r"axes 'i' of operand 0, \(2, 3\), differ"),
        ("ij->ik", [(2, 3)], "'k' is in no operand"),
        ("i->ii", [(2,)], "'i' is twice in the result"),
        ("...i->i", [(2, 3)], "leaves out"),
        ("i1->i", [(2, 3)], "'1' in 'i1'; expected letters"),
        ("i.j->i", [(2, 3)], r"'\.' in 'i\.j'"),
        ("i->i->i", [(2,)], "'-' in 'i->i'"),
        ("...i...->i", [(2,)], r"'\.' in"),
    ],
)
def test_a_bad_specification(spec, shapes, text):
    with pytest.raises(OperandError, match=text):
        ops.einsum(spec, *map(jnp.zeros, shapes))


def test_bad_calls():
    x = jnp.zeros((2, 3))
    with pytest.raises(OperandError, match="takes a specification"):
        ops.einsum(x, "ij->i")  # type: ignore[arg-type]
    with pytest.raises(OperandError, match="takes a specification"):
        ops.einsum("->")
    with pytest.raises(OperandError, match="a list is no operand"):
        ops.einsum("i->", [1.0, 2.0])
    with pytest.raises(OperandError, match=r"dot: axes \(1,\) of \(2, 3\) against axes \(0,\) of \(2, 3\)"):
        ops.dot(x, x)
    with pytest.raises(OperandError, match="tensordot: 3 axes"):
        ops.tensordot(x, x, 3)
    with pytest.raises(OperandError, match="tensordot: axis 2"):
        ops.tensordot(x, x, (2, 0))
    with pytest.raises(OperandError, match="expected a number, or"):
        ops.tensordot(x, x, (0, 1, 2))  # type: ignore[arg-type]
    with pytest.raises(OperandError, match=r"axes \(0,\) of .* against axes \(0, 1\)"):
        ops.tensordot(x, x, (0, (0, 1)))


def test_dtypes():
    half, x, n = jnp.ones(3, jnp.bfloat16), jnp.ones(3), jnp.arange(3)
    assert ops.einsum("i,i->", half, half).dtype == jnp.bfloat16
    assert ops.einsum("i,i,i->", half, half, half).dtype == jnp.bfloat16
    assert ops.einsum("i,i->", half, x).dtype == jnp.float32
    assert ops.einsum("i,i->", n, n).dtype == n.dtype and ops.einsum("i,i->", n, n) == 5
    assert ops.dot(n, x).dtype == jnp.float32 and ops.einsum(",i->i", 2.0, half).dtype == jnp.bfloat16


def test_a_chain_adds_up_in_float32():
    """4096 in the middle of a chain is more than float16 counts to by ones."""
    ones = jnp.ones((1, 4096), jnp.float16)
    assert ops.einsum("ij,kj,kl->il", ones, ones, jnp.ones((1, 1), jnp.float16)) == 4096


def test_products_have_the_precision_of_the_policy():
    x, y = jnp.zeros((2, 3)), jnp.zeros((3, 4))

    def products(policy):
        with precision(policy):
            statics = {"spec": "ij,jk->ik"}

            def both(x, y, z_bar):
                z, res = contraction.evaluate(x, y, **statics)
                return z, contraction.find("exact").pull(res, z_bar, (True, True), statics)

            return jax.jit(both).lower(x, y, jnp.zeros((2, 4))).as_text()

    assert products("float32").count("precision = [HIGHEST, HIGHEST]") == 3
    assert "HIGHEST" not in products("tf32")
