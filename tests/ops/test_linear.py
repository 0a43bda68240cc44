"""`linear` against its parts, and the precision of its products."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import ops
from pullback.lib.errors import OperandError
from pullback.lib.precision import precision


def test_equals_matmul_and_add_in_float32():
    rng = np.random.default_rng(0)
    x, w, b = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((2, 4, 6), (5, 6), (5,)))
    np.testing.assert_allclose(ops.linear(x, w, b), ops.add(ops.matmul(x, ops.transpose(w)), b), rtol=1e-6, atol=1e-6)


def test_products_have_the_precision_of_the_policy():
    x, w = jnp.zeros((2, 3)), jnp.zeros((4, 3))

    def products(policy):
        with precision(policy):
            _, res = ops.linear.evaluate(x, w)
            both = jax.jit(lambda x, w, y_bar: (ops.linear(x, w), ops.linear.rules["exact"].fn(res._replace(x=x, weight=w), y_bar)))
            return both.lower(x, w, jnp.zeros((2, 4))).as_text()

    assert products("float32").count("precision = [HIGHEST, HIGHEST]") == 3
    assert "HIGHEST" not in products("tf32")


def test_each_cotangent_has_its_operands_dtype():
    x, w, b = jnp.ones((2, 3), jnp.bfloat16), jnp.ones((4, 3)), jnp.ones(4, jnp.bfloat16)
    y, res = ops.linear.evaluate(x, w, b)
    bars = ops.linear.rules["exact"].program((True, True, True))(res, jnp.ones_like(y))
    assert y.dtype == jnp.float32 and [bar.dtype for bar in bars] == [jnp.bfloat16, jnp.float32, jnp.bfloat16]


@pytest.mark.parametrize(
    "x, weight, bias, text",
    [
        ((2, 4), (4, 3), None, r"x of shape \(2, 4\) and weight of shape \(4, 3\).*weight \(out, in\)"),
        ((), (4, 3), None, "expected x"),
        ((2, 3), (4, 3), (3,), r"bias of shape \(3,\).*expected \(4,\)"),
    ],
)
def test_shapes_that_do_not_fit(x, weight, bias, text):
    with pytest.raises(OperandError, match=text):
        ops.linear(jnp.zeros(x), jnp.zeros(weight), None if bias is None else jnp.zeros(bias))
