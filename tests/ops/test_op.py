"""The calling law of ops, their rules and masks, redefinition, and the tests' own tools."""

import functools
import re
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import ops
from pullback.lib.errors import OperandError, PullbackError, RuleError, UnknownName
from pullback.ops import op as machinery
from pullback.ops import rule
from pullback.ops.cases.case import Case, normal
from pullback.ops.op import constant, fused, primitive
from pullback.ops.rule import Aval

X = jnp.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ops.mul(X, y=X), "'y' is an operand; pass it by position"),
        (lambda: ops.sum(X, axes=0), "no static 'axes'; did you mean 'axis'?"),
        (lambda: ops.sum(X, 0), "called with 2 operands; statics such as axis go by keyword"),
        (lambda: ops.mul(X), "called with 1 operands"),
        (lambda: ops.exp([1.0, 2.0]), "operand 0 is a list; pass an array"),
        (lambda: ops.sum(X, axis=[0, 1]), "static axis is a list; pass a tuple"),
        (lambda: ops.pow_constant(X, exponent=X), "static exponent is a ArrayImpl; pass something hashable"),
        (lambda: ops.exp(X + 1j), "operand 0 is complex64; Pullback is for real numbers"),
        (lambda: ops.add(X, X.T), r"shapes \(2, 3\), \(3, 2\) do not broadcast"),
        (lambda: ops.matmul(X, X), r"matmul: \(2, 3\) by \(2, 3\): the columns of the left"),
        (lambda: ops.matmul(X, jnp.float32(2)), "a scalar multiplies by mul"),
        (lambda: ops.reshape(X, shape=(4, -1)), "holds 6 values"),
        (lambda: ops.transpose(X, axes=(0,)), "name each axis once"),
        (lambda: ops.transpose(X, axes=(1, 1)), "names an axis twice"),
        (lambda: ops.broadcast_to(X, shape=(3, 2)), "does not broadcast"),
        (lambda: ops.sum_to(X, shape=(2, 2)), "does not broadcast"),
        (lambda: ops.sum(X, axis=2), "axis 2 of an array with 2 axes; expected -2 to 1"),
        (lambda: ops.max(X[:0], axis=0), "nothing has no largest element"),
        (lambda: ops.min(X[:0], axis=0), "nothing has no smallest element"),
        (lambda: ops.where(X, X, X), "the condition is float32; expected booleans"),
        (lambda: ops.cast(X, dtype="int32"), "expected a float dtype; use astype"),
    ],
)
def test_a_call_against_the_law_says_what_to_do(call, text):
    with pytest.raises(OperandError, match=text):
        call()


def test_promotion_follows_jax_numpy():
    narrow = jnp.ones(3, jnp.bfloat16)
    assert ops.mul(narrow, 2.0).dtype == jnp.bfloat16
    assert ops.mul(narrow, jnp.ones(3)).dtype == jnp.float32
    assert ops.mul(jnp.arange(3), 2.0).dtype == jnp.float32


def test_each_operand_gets_its_own_dtype_back():
    y, res = ops.mul.evaluate(jnp.ones(3, jnp.bfloat16), jnp.ones(3))
    x_bar, y_bar = ops.mul.rules["exact"].program((True, True))(res, y)
    assert (x_bar.dtype, y_bar.dtype) == (jnp.bfloat16, jnp.float32)


def test_the_record_holds_what_is_saved_and_the_shape_of_the_rest():
    y, res = ops.add.evaluate(X, 2.0)
    assert (res.x, res.y, res.out) == (Aval((2, 3), X.dtype), Aval((), jnp.result_type(2.0)), None)
    y, res = ops.exp.evaluate(X)
    assert res.out is y and isinstance(res.x, Aval) and res.x.ndim == 2 and res.x.size == 6


def test_a_mask_compiles_the_rest_away():
    y, res = ops.matmul.evaluate(X, X.T)
    rule = ops.matmul.rules["exact"]
    assert rule.program((True, False)) is rule.program((True, False))
    x_bar, nothing = rule.program((True, False))(res, y)
    assert nothing is None
    products = lambda mask: rule.program(mask).program.lower(res, y).as_text().count("dot_general")
    compiled = lambda mask: rule.program(mask).program.lower(res, y).compile().cost_analysis()["flops"]
    assert products((True, True)) == 2
    assert compiled((True, False)) < compiled((True, True))
    np.testing.assert_allclose(x_bar, y @ X, rtol=1e-6)


def test_rules_that_break_their_contract_are_refused(registry):
    @primitive(saves=("x", "y"))
    def product(x, y):
        return x * y

    def broken(name, fn):
        product.rule(name, contract="surrogate")(fn)
        y, res = product.evaluate(X, X[0], rule=name)
        product.rules[name].program((True, True))(res, y)

    with pytest.raises(
        RuleError, match=r"backward of 'product' gave shape \(2, 3\) for operand 1 of shape \(3,\); did the rule forget sum_to"
    ):
        broken("unsummed", lambda res, z_bar: (ops.mul(z_bar, res.y), ops.mul(z_bar, res.x)))
    with pytest.raises(RuleError, match="gave None for operand 1, which can be perturbed; give zeros"):
        broken("lazy", lambda res, z_bar: (ops.mul(z_bar, res.y), None))
    with pytest.raises(RuleError, match="a tuple of 1; expected a tuple of 2, one cotangent per operand"):
        broken("short", lambda res, z_bar: (ops.mul(z_bar, res.y),))
    with pytest.raises(RuleError, match="expected a tuple of 2"):
        broken("bare", lambda res, z_bar: ops.mul(z_bar, res.y))


def test_names_are_checked_when_an_op_is_defined(registry):
    @primitive()
    def twice(x):
        return 2 * x

    with pytest.raises(RuleError, match="contract 'approximate' is none of exact, surrogate, stochastic"):
        twice.rule("rough", contract="approximate")(lambda res, y_bar: (y_bar,))  # pyright: ignore[reportArgumentType]
    with pytest.raises(RuleError, match="saves 'xx', which is no operand of it; did you mean 'x'"):
        twice.rule("odd", contract="surrogate", saves=("xx",))(lambda res, y_bar: (y_bar,))
    with pytest.raises(UnknownName, match="'twice' has no rule 'exact'"):
        twice.evaluate(X)
    with pytest.raises(UnknownName, match="did you mean 'straight_through'"):
        ops.gelu.evaluate(X, rule="straight")


def with_out(x, out):
    return x


def with_underscore(_x):
    return _x


def with_anything(x, **statics):
    return x


def one_and_more(x, *xs):
    return x


def one(x):
    return x, Sizes(x)


class Sizes(NamedTuple):
    x: jax.Array


@pytest.mark.parametrize(
    "fn, residuals, text",
    [
        (lambda x: x, None, "<lambda> is no name: write `def my_op(...)`"),
        (functools.partial(with_out, 1), None, "is no name"),
        (with_out, None, "an argument named 'out'"),
        (with_underscore, None, "no name begins with _"),
        (with_anything, None, "**statics; expected each static by name"),
        (one_and_more, None, "operands beside *xs"),
        (one, Sizes, "a residual named 'x'"),
    ],
)
def test_a_signature_that_is_none_of_an_op_is_one_line(fn, residuals, text, registry):
    with pytest.raises(PullbackError, match=re.escape(text)):
        fused(residuals=residuals)(fn)


def test_an_op_defined_again_replaces_the_old_one(registry):
    def define(factor):
        @primitive()
        def scaled(x):
            return factor * x

        @scaled.rule
        def scaled_backward(res, y_bar):
            return (ops.mul(y_bar, factor),)

        return scaled

    first, epoch = define(2.0), rule.EPOCH.value
    assert registry["scaled"] is first
    user = jax.jit(lambda x: registry["scaled"](x))
    assert user(1.0) == 2.0
    second = define(3.0)
    assert registry["scaled"] is second and rule.EPOCH.value > epoch
    assert user(1.0) == 3.0, "a user's compiled function must not keep the old op"
    y, res = second.evaluate(X)
    np.testing.assert_array_equal(second.rules["exact"].program((True,))(res, y)[0], 9 * X)


def test_a_rule_defined_again_replaces_the_old_one(registry):
    @primitive()
    def same(x):
        return x

    same.rule(lambda res, y_bar: (y_bar,))
    y, res = same.evaluate(X)
    np.testing.assert_array_equal(same.rules["exact"].program((True,))(res, y)[0], X)
    epoch = rule.EPOCH.value
    same.rule(lambda res, y_bar: (ops.neg(y_bar),))
    assert rule.EPOCH.value > epoch
    np.testing.assert_array_equal(same.rules["exact"].program((True,))(res, y)[0], -X)


def test_a_name_is_not_taken_from_another_module(registry):
    with pytest.raises(RuleError, match="an op named 'tanh' is there already, from pullback.ops.arithmetic"):

        @primitive()
        def tanh(x):
            return x


def test_operands_left_out_are_none(registry):
    @primitive(saves=("x", "scale"))
    def scaled(x, scale=None):
        return x if scale is None else x * scale

    @scaled.rule
    def scaled_backward(res, y_bar):
        return (y_bar, None) if res.scale is None else (ops.mul(y_bar, res.scale), ops.sum_to(ops.mul(y_bar, res.x), shape=res.scale.shape))

    y, res = scaled.evaluate(X)
    assert res.scale is None
    assert scaled.rules["exact"].program((True, False))(res, y)[1] is None
    y, res = scaled.evaluate(X, X[0])
    assert scaled.rules["exact"].program((True, True))(res, y)[1].shape == (3,)


def test_the_caller_of_a_fused_op_gets_the_value_alone(registry):
    class Residuals(NamedTuple):
        slope: jax.Array

    @fused(residuals=Residuals)
    def cube(x):
        return x**3, Residuals(3 * x**2)

    cube.rule(lambda res, y_bar: (y_bar * res.slope,))
    np.testing.assert_array_equal(cube(X), X**3)
    y, res = cube.evaluate(X)
    np.testing.assert_array_equal(res.slope, 3 * X**2)
    assert cube.rules["exact"].program((True,))(res, y)[0].shape == X.shape


def test_an_operand_may_take_a_call_over(registry, monkeypatch):
    class Seen:
        pass

    monkeypatch.setitem(machinery.OVERRIDES, Seen, lambda op, operands, statics: (op.name, len(operands), statics))
    assert ops.sum(Seen(), axis=0) == ("sum", 1, {"axis": 0})
    assert ops.mul(2.0, Seen()) == ("mul", 2, {})


def test_programs_of_an_op_survive_a_table_of_rules(registry):
    traces = []

    @constant
    def noted(x):
        traces.append(1)
        return x

    noted(X)
    with rule.RULES((("gelu", ("straight_through",)),)):
        noted(X)
    assert len(traces) == 1


def test_ops_run_under_jit_and_vmap():
    f = lambda x: ops.logsumexp(ops.mul(x, 2.0), axis=0)
    np.testing.assert_allclose(jax.jit(jax.vmap(f))(X), jax.scipy.special.logsumexp(2 * X, 1), rtol=1e-6)


# The tools of conftest.py must be able to object.


@pytest.mark.parametrize("fault", ["factor", "tiny", "one element", "sign"])
def test_a_wrong_rule_is_caught_twice(fault, judge, registry):
    @primitive(saves=("out",))
    def tanh_again(x):
        return jnp.tanh(x)

    @tanh_again.rule
    def wrong(res, y_bar):
        right = y_bar * (1 - res.out**2)
        at_one = jnp.zeros(right.shape).at[(0,) * right.ndim].set(1e-5)
        return ({"factor": right * 2.001, "tiny": right * (1 + 1e-7), "one element": right * (1 + at_one), "sign": -right}[fault],)

    with jax.enable_x64(True):
        ran = judge.run(Case(tanh_again, fault, normal((4, 5))))
        assert judge.by_autodiff(ran) > 1e-8
        assert judge.by_differences(ran) > 100


def test_a_surrogate_is_caught_twice(judge):
    """The slope of the erf form under the tanh form of GELU: at most 8e-4 off, and published as right."""
    with jax.enable_x64(True):
        ran = judge.run(Case(ops.gelu, "erf slope", normal((4, 5))), rule="erf_slope")
        assert judge.by_autodiff(ran) > 1e-6
        assert judge.by_differences(ran) > 100


@pytest.mark.parametrize(
    ("f", "slope"),
    [
        (lambda t: np.exp(3 * t), 3.0),
        (lambda t: 1e3 * np.sin(t) + 1e6, 1e3),
        (lambda t: np.log(0.3 + t) if t > -0.3 else np.nan, 1 / 0.3),
        (lambda t: np.abs(t - 0.2), -1.0),
        (lambda t: 7.0, 0.0),
    ],
)
def test_differences_know_their_own_error(f, slope, judge):
    measured, bar = judge.extrapolated(f)
    assert abs(measured - slope) <= 100 * bar
    assert bar < 1e-5 * max(1.0, abs(slope))
