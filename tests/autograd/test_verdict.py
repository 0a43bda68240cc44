"""The verdict on rules that are right, and on planted mistakes: each is caught by the line that should catch it."""

import re
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.core import Tracer

import pullback as pb
from pullback import nn, ops
from pullback.autograd import behaviour, checks
from pullback.autograd.point import OpPoint
from pullback.ops import reduction
from pullback.ops.indexing import take as take_op
from pullback.ops.rule import Contract, Rule

X = np.linspace(-2.5, 2.5, 12).reshape(3, 4)


def planted(op, fn, contract: Contract = "exact", saves=None):
    """A rule that claims to be the exact one of an op."""
    kept = saves if saves is not None else op.saves
    return Rule(op, "exact", fn, contract, kept)


def failed(verdict) -> set[str]:
    return {line.check for line in verdict.failures}


# The five mistakes of the field.


def test_erf_slope_under_the_tanh_form():
    wrong = planted(ops.gelu, ops.gelu.find("erf_slope").fn)
    for dtype in ("float32", "bfloat16"):
        verdict = pb.check_rule(ops.gelu, jnp.asarray(X, dtype), rule=wrong, quick=True)
        assert {"directions", "composite"} <= failed(verdict)
        assert (verdict.line("directions").gap or 0.0) > 1e6


def test_overwrite_instead_of_accumulate():
    wrong = planted(take_op, lambda res, y_bar, *, axis, fill: (jnp.zeros(res.x.shape).at[res.ids].set(y_bar), None))
    verdict = pb.check_rule(take_op, X[:, 0], jnp.array([0, 0, 2]), rule=wrong, quick=True, axis=0, fill=None)
    assert "directions" in failed(verdict)
    assert (
        pb.check_rule(take_op, X[:, 0], jnp.array([0, 1, 2]), rule=wrong, quick=True, axis=0, fill=None).line("directions").outcome
        == "held"
    )


def test_missing_one_over_n():
    wrong = planted(ops.mean, ops.sum.find("exact").fn)
    assert "directions" in failed(pb.check_rule(ops.mean, X, rule=wrong, quick=True, axis=1))


def test_a_mask_multiplied_where_it_must_select():
    """Right at every point where nothing is infinite: the documented edge points tell."""

    def times_mask(res, z_bar):
        kept = res.condition.astype(z_bar.dtype)
        return None, z_bar * kept, z_bar * (1 - kept)

    verdict = pb.check_rule(ops.where, X > 0, X, -X, rule=planted(ops.where, times_mask))
    assert failed(verdict) == {"edges"}
    assert "selects" in verdict.line("edges").text


def test_every_tie_takes_all():
    def all_take_all(res, y_bar, *, axis, keepdims):
        return (jnp.where(res.x == jnp.max(res.x, axis, keepdims=True), jnp.expand_dims(y_bar, axis), 0.0),)

    spread = np.random.default_rng(0).permutation(12.0 * np.arange(12)).reshape(3, 4)
    with jax.enable_x64(True):
        point = OpPoint(ops.max, (spread,), {"axis": 1})
        rule = planted(reduction.max, all_take_all, saves=("x",))
        assert checks.directions(point, point.pull(rule, point.xs, point.y_bars)).outcome == "held"
        ties = [edge for edge in checks_edges("max") if edge.statics.get("axis") == 1]
        assert ties and checks.edges(reduction.max, rule, ties).outcome == "failed"


def checks_edges(name):
    from pullback.ops.cases import EDGES

    return [edge for edge in EDGES if edge.op.name == name]


# What a rule owes by its form.


def raising(res, y_bar):
    raise ZeroDivisionError("of its own")


FORMS = {
    "raises": (raising, "ZeroDivisionError: of its own"),
    "wrong arity": (lambda res, z_bar: (z_bar,), "a tuple of 1; expected a tuple of 2"),
    "no tuple": (lambda res, z_bar: z_bar, "expected a tuple of 2"),
    "wrong shape": (lambda res, z_bar: (z_bar, z_bar), "did the rule forget sum_to?"),
    "None": (lambda res, z_bar: (z_bar, None), "gave None for operand 1"),
    "a number": (lambda res, z_bar: (z_bar, 0.0), "gave a float for operand 1"),
    "integers": (lambda res, z_bar: (z_bar, (z_bar > 0).sum(0)), "for operand 1; expected floats"),
}


@pytest.mark.parametrize("name", FORMS)
def test_form(name):
    fn, text = FORMS[name]
    verdict = pb.check_rule(ops.add, X, X[0], rule=planted(ops.add, fn))
    assert failed(verdict) == {"structure"} and len(verdict.lines) == 1
    assert text in verdict.line("structure").text


def test_nan_is_no_cotangent():
    verdict = pb.check_rule(ops.tanh, X, rule=planted(ops.tanh, lambda res, y_bar: (y_bar * jnp.nan,)), quick=True)
    assert {"zero", "directions"} <= failed(verdict)


def test_an_operand_among_the_residuals(registry):
    class Kept(NamedTuple):
        x: jax.Array

    @pb.fused(residuals=Kept)
    def doubled_keeping(v):
        """y = 2v;   v̄ = 2ȳ."""
        return 2.0 * v, Kept(v)

    doubled_keeping.rule(lambda res, y_bar: (2.0 * y_bar,))
    doubled_keeping.composite(lambda v: ops.mul(2.0, v))
    verdict = pb.check_rule(doubled_keeping, X)
    assert failed(verdict) == {"structure"} and "'v'" in verdict.line("structure").text


def test_not_linear():
    verdict = pb.check_rule(ops.neg, X, rule=planted(ops.neg, lambda res, y_bar: (ops.neg(y_bar) + 0.1 * y_bar * y_bar,)), quick=True)
    assert {"linear", "directions"} <= failed(verdict)


def test_not_zero():
    verdict = pb.check_rule(ops.neg, X, rule=planted(ops.neg, lambda res, y_bar: (ops.neg(y_bar) + 1e-9,)), quick=True)
    assert "zero" in failed(verdict)


def test_one_element_of_many_is_named():
    wrong = planted(ops.neg, lambda res, y_bar: (ops.neg(y_bar).at[1, 2].multiply(1 + 1e-6),))
    verdict = pb.check_rule(ops.neg, X, rule=wrong)
    assert verdict.line("elements").where == "x[1, 2]"


class Uncompiled(Rule):
    """A rule whose Python runs at every call."""

    def program(self, mask):
        return lambda res, y_bar, **statics: self.pull(res, y_bar, mask, statics)


def test_other_bits_each_time():
    calls = []

    def drifting(res, y_bar):
        calls.append(1)
        return (y_bar * (-1.0 - 1e-15 * (len(calls) % 7)),)

    with jax.enable_x64(True):
        point, rule = OpPoint(ops.neg, (X,), {}), Uncompiled(ops.neg, "exact", drifting, "exact", ())
        lines = {line.check: line for line in behaviour.ways(point, rule, checks.look(point, rule))}
    assert lines["repeated"].outcome == "failed"


def test_eager_and_compiled_differ():
    def by_tracing(res, y_bar):
        return (y_bar * (-1.0 if isinstance(y_bar, Tracer) else -1.01),)

    verdict = pb.check_rule(ops.neg, X, rule=planted(ops.neg, by_tracing))
    assert failed(verdict) == {"ways"} and "eager" in verdict.line("ways").text


def test_second_order_goes_wrong(registry):
    @pb.primitive(saves=("x",))
    def cubed(x):
        """y = x³;   x̄ = 3x²·ȳ."""
        return x * x * x

    @cubed.rule
    def cubed_backward(res, y_bar):
        return (ops.mul(y_bar, ops.mul(3.0, ops.mul(ops.stop_gradient(res.x), res.x))),)

    verdict = pb.check_rule(cubed, X)
    assert failed(verdict) == {"order 2"}


def test_a_narrow_sum_is_no_wrong_rule_but_is_found():
    def narrow(res, y_bar, *, axis, keepdims):
        return (jnp.broadcast_to((y_bar.astype(jnp.bfloat16) if y_bar.dtype != jnp.float64 else y_bar).astype(y_bar.dtype), res.x.shape),)

    verdict = pb.check_rule(ops.sum, X, rule=planted(ops.sum, narrow))
    assert "float32" in failed(verdict) <= {"float32", "float16"}


def test_a_function_that_rounds_inside_is_said_to_do_so(registry):
    def narrow_tanh(x):
        return jnp.tanh(x.astype(jnp.bfloat16)).astype(x.dtype)

    op = pb.fused(saves=("x",))(narrow_tanh)
    op.rule(lambda res, y_bar: (y_bar * (1 - jnp.tanh(res.x) ** 2),))
    assert "rounded to a narrow dtype inside?" in pb.check_rule(op, X, quick=True).line("directions").text


def test_aliased_operands():
    """One array twice: each operand has its own half of the slope, or the sum would be off."""
    verdict = pb.check_rule(ops.mul, X, X + 1)
    assert verdict.line("aliased").outcome == "held"
    swapped = planted(ops.div, lambda res, z_bar: (z_bar / res.y, -z_bar / res.y * res.out * (1 + (res.out == 1.0))), saves=("y", "out"))
    assert "aliased" in failed(pb.check_rule(ops.div, X, X + 7, rule=swapped))


# What is right holds, and prints.


@pytest.mark.parametrize(
    "op, operands, statics",
    [
        (ops.gelu, (X,), {}),
        (ops.layer_norm, (X, X[0] + 3, X[1]), {}),
        (ops.REGISTRY["softmax_cross_entropy"], (X, np.array([0, 3, 1])), {}),
        (ops.matmul, (X, X.T), {}),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_right_rules_hold(op, operands, statics):
    verdict = pb.check_rule(op, *operands, **statics)
    assert verdict and not verdict.failures, str(verdict)
    assert jnp.zeros(()).dtype == "float32", "the flag is what it was"
    assert {"structure", "zero", "linear", "directions", "elements", "ways", "repeated", "order 2", "float32", "bfloat16"} <= {
        line.check for line in verdict.lines
    }
    assert "held" in str(verdict) and op.name in repr(verdict)


def test_quick_is_a_part_of_it():
    checked = [line.check for line in pb.check_rule(ops.gelu, X, quick=True).lines]
    assert checked == ["structure", "zero", "linear", "composite", "directions", "order 2"]


def test_a_surrogate_gets_its_bias_and_is_held_against_what_it_stands_for():
    verdict = pb.check_rule(ops.gelu, X, rule="straight_through")
    assert verdict and verdict.contract == "surrogate"
    assert "cosine" in verdict.line("bias").text and verdict.line("directions").outcome == "held"
    other = Rule(ops.gelu, "straight_through", lambda res, y_bar: (1.01 * y_bar,), "surrogate", (), of=lambda x: x)
    assert "directions" in failed(pb.check_rule(ops.gelu, X, rule=other))


def rounded_by_chance(shift):
    def rule(res, y_bar):
        coin = jax.random.uniform(pb.key("coin"), y_bar.shape, y_bar.dtype)
        return (-(jnp.floor(y_bar * 4 + coin) / 4 + shift * y_bar),)

    return planted(ops.neg, rule, contract="stochastic")


def test_a_stochastic_rule_is_right_on_average_or_not():
    assert pb.check_rule(ops.neg, X, rule=rounded_by_chance(0.0)).line("mean").outcome == "held"
    verdict = pb.check_rule(ops.neg, X, rule=rounded_by_chance(0.2))
    assert failed(verdict) == {"mean"} and "p = " in verdict.line("mean").text


def test_what_cannot_be_checked_says_so():
    with pytest.raises(pb.PullbackError, match="none of the operands"):
        pb.check_rule(ops.add, jnp.arange(3), 1)
    with pytest.raises(pb.PullbackError, match="constant op"):
        pb.check_rule(ops.less, X, X)
    with pytest.raises(pb.PullbackError, match="pb.check"):
        pb.check_rule(lambda x: x, X)  # type: ignore[arg-type]
    with pytest.raises(pb.PullbackError, match="did you mean 'exact'"):
        pb.check_rule(ops.gelu, X, rule="exakt")


# Functions and Modules.


def test_a_module_is_judged_by_parameter_name():
    model = nn.MLP.init(jax.random.key(0), 4, 6) if hasattr(nn, "MLP") else nn.Linear.init(jax.random.key(0), 4, 3)
    verdict = pb.check(lambda m, x: m(x), model, X)
    assert verdict, str(verdict)
    assert len(model.__named_parameters__()) + 1 == int(verdict.line("structure").text.split()[0])


def test_a_wrong_rule_inside_a_function_is_found(registry):
    @pb.primitive(saves=("x",))
    def halved(x):
        """y = x/2;   x̄ = ȳ/2."""
        return x / 2

    halved.rule(lambda res, y_bar: (ops.mul(y_bar, ops.where(ops.greater(res.x, 2.4), 0.6, 0.5)),))
    verdict = pb.check(lambda tree: ops.sum(halved(tree["a"]) * tree["b"]), {"a": X, "b": X + 1})
    assert verdict.line("elements").where == "args[0]['a'][2, 3]"
    assert "directions" in failed(verdict)


def test_check_needs_something_to_move():
    with pytest.raises(pb.PullbackError, match="nothing can be perturbed"):
        pb.check(lambda x: x, jnp.arange(3))
    with pytest.raises(pb.PullbackError, match="no float array"):
        pb.check(lambda x: ops.argmax(x), X)


def test_assertions_for_pytest_files():
    assert pb.testing.assert_rule(ops.tanh, X)
    with pytest.raises(AssertionError, match="directions +FAILED"):
        pb.testing.assert_rule(ops.tanh, X, rule=planted(ops.tanh, lambda res, y_bar: (y_bar,)), quick=True)
    assert pb.testing.assert_gradient(lambda x: ops.sum(x * x), X)


# What a first visitor brought: points where something is not finite, leaves a dtype, or cannot be told


def square_below(factor: float):
    """x² on and below the diagonal, −∞ above, with a rule off by a factor."""
    below = lambda x: jnp.tril(jnp.ones(x.shape)) > 0

    def square_below(x):
        return jnp.where(below(x), x * x, -jnp.inf)

    op = pb.primitive(saves=("x",))(square_below)
    op.rule(lambda res, y_bar: (ops.where(below(res.x), ops.mul(ops.mul(y_bar, 2 * factor), res.x), 0.0),))
    return op


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_an_output_that_is_not_finite_does_not_hide_the_others(factor, registry):
    verdict = pb.check_rule(square_below(factor), X[:3, :3])
    assert failed(verdict) == (set() if factor == 1 else {"directions", "elements"})
    assert "9 slopes" in verdict.line("elements").text or factor != 1


def test_a_function_with_an_output_that_is_not_finite(registry):
    wrong = square_below(1.5)
    assert not pb.check(lambda x: wrong(x) + 0.0, X[:3, :3]) and pb.check(lambda x: ops.log(x), jnp.array([-1.0, 1.0, 2.0]))


@pytest.mark.parametrize("op, x", [(ops.exp, [1.0, 12.0]), (ops.log, [1e-6, 1.0]), (ops.sqrt, [1e-12, 1.0]), (ops.reciprocal, [1e-3])])
def test_what_leaves_half_precision_is_not_asked_there(op, x):
    verdict = pb.check_rule(op, jnp.array(x)) if op is not ops.reciprocal else pb.check_rule(ops.div, jnp.ones(1), jnp.array(x))
    assert verdict and verdict.line("float16").outcome == "not asked" and verdict.line("float32").outcome == "held"


def test_slopes_too_small_to_be_told_are_said_to_be_so():
    twice = planted(ops.tanh, lambda res, y_bar: (ops.mul(ops.mul(2.0, y_bar), ops.sub(1.0, ops.mul(res.out, res.out))),))
    line = pb.check_rule(ops.tanh, jnp.array([19.0, 25.0]), rule=twice, quick=True).line("directions")
    assert line.outcome == "noted" and "4 claimed slopes are too small beside their bars" in line.text
    assert not pb.check_rule(ops.tanh, jnp.array([0.5, -0.3, 1e5]), rule=twice), "one large element does not hide the others"


@pytest.mark.parametrize("slope, holds", [(0.0, True), (0.3, True), (1.0, True), (-0.1, False), (1.2, False)])
def test_at_a_kink_any_slope_between_its_sides_is_right(slope, holds, registry):
    slopes = lambda x: ops.where(ops.equal(x, 0.0), slope, ops.where(ops.greater(x, 0.0), 1.0, 0.0))
    ramp = planted(ops.relu, lambda res, y_bar: (ops.mul(y_bar, slopes(res.x)),), saves=("x",))
    line = pb.check_rule(ops.relu, jnp.array([0.0, 1.0, -2.0]), rule=ramp).line("elements")
    assert (line.outcome == "held") == holds and "x[0]" in line.text
    assert ("1 at a kink, where any slope between its sides is right" if holds else "to the right at a kink") in line.text


@pytest.mark.parametrize("factor, passes", [(1.0, True), (1 + 1e-6, False)])
def test_a_stochastic_rule_that_draws_nothing(factor, passes):
    still = planted(ops.tanh, lambda res, y_bar: (factor * y_bar / jnp.cosh(jnp.arctanh(res.out)) ** 2,), contract="stochastic")
    assert bool(pb.check_rule(ops.tanh, X, rule=still)) == passes


@pytest.mark.parametrize("composite", [lambda x: 1 / 0, lambda: 0, lambda x: (x, x)])
def test_a_composite_that_is_broken(composite, registry):
    def squared(x):
        return x * x

    op = pb.fused(saves=("x",))(squared)
    op.rule(lambda res, y_bar: (2 * y_bar * res.x,))
    op.composite(composite)
    verdict = pb.check_rule(op, X, quick=True)
    assert "composite" in failed(verdict) and "composite" in verdict.line("composite").text


def with_half(x, eps=0.5):
    return x * eps


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: pb.check_rule(ops.tanh, X, rule=cast(Any, 5)), "rule=5; expected the name of a rule of tanh: exact"),
        (lambda: pb.check_rule(ops.tanh, X, seed=-1), "seed -1; expected a whole number"),
        (lambda: pb.check(cast(Any, 5), X), "it came a int"),
        (lambda: ops.tanh.rule(cast(Any, 5)), "takes a function or a name"),
        (lambda: pb.check_rule(ops.tanh, [[1.0], [1.0, 2.0]]), "tanh: operand 0 makes no array"),
        (lambda: pb.check_rule(ops.tanh, "abc"), "operand 0 is a str; pass an array"),
        (lambda: pb.fused()(with_half), "operand eps = 0.5; expected None or no default"),
    ],
)
def test_what_is_no_rule_no_seed_no_function(call, text):
    with pytest.raises(pb.PullbackError, match=re.escape(text)):
        call()
