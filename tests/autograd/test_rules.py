"""The choice of rules: each program has the result of its own table, and a wrong table says so."""

import threading
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.lib.errors import OperandError, RuleError, RuleOrderError, UnknownName
from pullback.ops.op import Op
from pullback.ops.rule import EPOCH, RULES

X = jnp.asarray([0.5, -1.25, 2.0])
C = jnp.asarray([1.5, 0.75, -2.5])  # what the sum is weighed by, so that the cotangent is not all ones
EXACT, STRAIGHT, DOUBLE = 3 * X**2 * C, C, 6 * X**2 * C


pytestmark = pytest.mark.usefixtures("registry")


@pytest.fixture
def cube() -> Op:
    """y = x³, fused, with variants: one that saves nothing, one with a second order, one without."""

    @pb.fused(saves=("x",))
    def cube(x):
        return x**3

    @cube.rule
    def cube_backward(res, y_bar):
        return (3 * res.x**2 * y_bar,)

    @cube.rule("straight_through", contract="surrogate", saves=())
    def cube_straight_through(res, y_bar):
        return (y_bar,)

    @cube.rule("double", contract="surrogate", order2=lambda operands, y_bar: (ops.mul(6.0, ops.mul(operands[0], operands[0])) * y_bar,))
    def cube_double(res, y_bar):
        return (6 * res.x**2 * y_bar,)

    @cube.composite
    def cube_composite(x):
        return ops.pow_constant(x, exponent=3)

    return cube


@pytest.fixture
def scaled() -> Op:
    """y = 2·x, a primitive, with a variant that is right by a factor of 5."""

    @pb.primitive()
    def scaled(x):
        return 2 * x

    @scaled.rule
    def scaled_backward(res, y_bar):
        return (ops.mul(2.0, y_bar),)

    @scaled.rule("five", contract="surrogate")
    def scaled_five(res, y_bar):
        return (ops.mul(10.0, y_bar),)

    return scaled


def gradient_of(op):
    return pb.grad(lambda x: ops.sum(op(x) * C))


def close(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize("how", ["eager", "compile", "jit", "vmap"])
def test_each_program_has_the_result_of_its_own_table(how, cube):
    plain = gradient_of(cube)
    program = {"eager": plain, "compile": pb.compile(plain), "jit": jax.jit(plain), "vmap": lambda x: jax.vmap(plain)(x[None])[0]}[how]
    close(program(X), EXACT)
    with pb.rules({"cube": "straight_through"}):
        close(program(X), STRAIGHT)
        with pb.rules({"cube": "double"}):
            close(program(X), DOUBLE)
        close(program(X), STRAIGHT)
    close(program(X), EXACT)

    @cube.rule
    def cube_backward(res, y_bar):
        return (-3 * res.x**2 * y_bar,)

    close(program(X), -EXACT)
    with pb.rules({"cube": "straight_through"}):
        close(program(X), STRAIGHT)

        @cube.rule("straight_through", saves=())
        def cube_straight_through(res, y_bar):
            return (7 * y_bar,)

        close(program(X), 7 * STRAIGHT)
    close(program(X), -EXACT)


def test_going_back_to_a_table_finds_its_program(cube):
    step = pb.compile(gradient_of(cube))
    for _ in range(3):
        step(X)
        for rule in ("straight_through", "double"):
            with pb.rules({"cube": rule}):
                step(X)
    assert step.traces == 3


def test_redefining_an_op_reaches_the_programs_of_its_callers():
    def define(factor):
        @pb.primitive()
        def inner(x):
            return factor * x

        @inner.rule
        def inner_backward(res, y_bar):
            return (ops.mul(factor, y_bar),)

        return inner

    inner = define(3.0)

    @pb.fused()
    def outer(x):
        return inner(x)  # by name, as a module or notebook does

    @outer.rule
    def outer_backward(res, y_bar):
        return (inner(y_bar),)

    compiled, jitted = pb.compile(gradient_of(outer)), jax.jit(outer)
    close(outer(X), 3 * X)
    close(jitted(X), 3 * X)
    close(gradient_of(outer)(X), 3 * C)
    close(compiled(X), 3 * C)
    inner = define(4.0)
    close(outer(X), 4 * X)
    close(jitted(X), 4 * X)
    close(gradient_of(outer)(X), 4 * C)
    close(compiled(X), 4 * C)


def test_redefining_a_composite_reaches_the_second_order(cube):
    second = jax.jit(pb.grad(lambda x: ops.sum(gradient_of(cube)(x))))
    close(second(X), 6 * X * C)

    @cube.composite
    def cube_composite(x):
        return ops.pow_constant(x, exponent=2)

    close(second(X), 2 * C)


def test_redefining_what_has_an_output_again_reaches_programs():
    def define(by):
        @pb.primitive()
        def factor(x):
            return by * x

        return factor

    factor = define(2)

    @pb.fused(saves=("x",))
    def doubled(x):
        return factor(x)

    @doubled.rule
    def doubled_backward(res, y_bar):
        return (2 * y_bar,)

    @doubled.recomputed
    def doubled_again(res):
        return factor(res.x)

    gradient = pb.grad(lambda x: ops.sum(ops.pow_constant(doubled(x), exponent=2) * C))
    jitted = jax.jit(gradient)
    for program in (gradient, jitted):
        close(program(X), 8 * X * C)

    factor = define(3)
    for program in (gradient, jitted):
        close(program(X), 12 * X * C)

    @doubled.recomputed
    def doubled_yet_again(res):
        return 5 * res.x

    for program in (gradient, jitted):
        close(program(X), 20 * X * C)


def two_blocks(op):
    """Gradients of op at `blocks.0` and `blocks.1.mlp`, which tell the rules of the two places apart."""

    def loss(x, y):
        with pb.scope("blocks.0"):
            first = op(x)
        with pb.scope("blocks.1"), pb.scope("mlp"):
            second = op(y)
        return ops.sum(first * C) + ops.sum(second * C)

    return lambda: pb.grad(loss, argnums=(0, 1))(X, X)


@pytest.mark.parametrize(
    "table, first, second",
    [
        ({"cube": "straight_through"}, STRAIGHT, STRAIGHT),
        ({"*/cube": "straight_through"}, STRAIGHT, STRAIGHT),
        ({"cu?e": "straight_through"}, STRAIGHT, STRAIGHT),
        ({"blocks.0/cube": "straight_through"}, STRAIGHT, EXACT),
        ({"blocks.1.*/cube": "straight_through"}, EXACT, STRAIGHT),
        ({"blocks.[1-9].*/cube": "straight_through"}, EXACT, STRAIGHT),
        ({"*.mlp/cub*": "straight_through"}, EXACT, STRAIGHT),
        ({"cube": "straight_through", "blocks.0/cube": "double"}, DOUBLE, STRAIGHT),
        ({"blocks.0/cube": "double", "*.mlp/cube": "straight_through", "*.mlp/*be": "double"}, DOUBLE, DOUBLE),
        ({"cube": "double", "*.mlp/cube": "exact"}, DOUBLE, EXACT),
    ],
)
@pytest.mark.filterwarnings("ignore::pullback.UnmatchedRule")
def test_patterns(table, first, second, cube):
    with pb.rules(table):
        got = two_blocks(cube)()
    close(got[0], first)
    close(got[1], second)


def test_the_inner_table_is_read_after_the_outer_one(cube):
    with pb.rules({"cube": "straight_through"}), pb.rules({"blocks.0/cube": "exact"}):
        got = two_blocks(cube)()
    close(got[0], EXACT)
    close(got[1], STRAIGHT)


def test_the_rule_is_that_of_the_recording_not_of_the_walk(cube):
    loss = lambda x: ops.sum(cube(x) * C)
    with pb.rules({"cube": "straight_through"}):
        _, straight = pb.vjp(loss, X)
        _, again = pb.vjp(pb.checkpoint(loss), X)
    _, exact = pb.vjp(loss, X)
    with pb.rules({"cube": "double"}):
        close(exact(jnp.float32(1))[0], EXACT)
    close(straight(jnp.float32(1))[0], STRAIGHT)
    close(again(jnp.float32(1))[0], STRAIGHT)


def test_rules_reach_into_a_compiled_loop(cube):
    def loss(x):
        return ops.sum(pb.scan(lambda carry, row: (carry, cube(carry) * row), x, jnp.stack([C, 2 * C]))[1])

    step = pb.compile(pb.grad(loss))
    close(step(X), 3 * EXACT)
    with pb.rules({"cube": "straight_through"}):
        close(step(X), 3 * STRAIGHT)
        close(pb.grad(loss)(X), 3 * STRAIGHT)
    close(step(X), 3 * EXACT)


@pytest.mark.parametrize(
    "table, text",
    [
        ({"cub": "exact"}, "no op 'cub'.*did you mean 'cube'"),
        ({"blocks.*/cueb": "exact"}, "no op 'cueb'.*'blocks.\\*/cueb'.*'cube'"),
        ({"cube": "straight"}, "'cube' has no rule 'straight'; did you mean 'straight_through'"),
        ({"cube": "exact", "*/c?be": "doubel"}, "'cube' has no rule 'doubel'; did you mean 'double'"),
        ({"stop_gradient": "exact"}, "no op 'stop_gradient' with rules"),
    ],
)
def test_unknown_names_fail_at_once(table, text, cube):
    with pytest.raises(UnknownName, match=text), pb.rules(table):
        pytest.fail("the block was entered")
    assert RULES.value == ()


def test_a_table_of_something_else_is_refused(cube):
    with pytest.raises(OperandError, match="expected a pattern and the name of a rule"), pb.rules({"cube": ("exact",)}):  # type: ignore[dict-item]
        pytest.fail("the block was entered")


def test_every_op_that_has_rules_has_an_exact_one(cube):
    with pb.rules({"*": "exact"}):
        close(gradient_of(cube)(X), EXACT)


def caught(block) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        block()
    assert all(w.category is pb.UnmatchedRule for w in seen)
    return [str(w.message) for w in seen]


def test_eager_reports_an_unmatched_pattern_when_the_block_ends(cube):
    def block(table, record=True):
        with pb.rules(table):
            if record:
                gradient_of(cube)(X)
            assert not done

    done = []
    assert caught(lambda: block({"cube": "straight_through"})) == []
    assert caught(lambda: block({"blocks.*/cube": "exact"}, record=False)) == []
    (text,) = caught(lambda: block({"blocks.*/cube": "straight_through", "cube": "exact"}))
    assert "'blocks.*/cube' -> 'straight_through' matched nothing" in text
    assert caught(lambda: block({"cube": "double", "*/cube": "exact"})) == []  # both match, the last one wins


def test_the_warning_points_at_the_block(cube):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pb.rules({"blocks.*/cube": "exact"}):
            gradient_of(cube)(X)
    assert seen[0].filename == __file__


def test_an_error_inside_the_block_is_not_buried_under_a_warning(cube):
    def block():
        with pytest.raises(ZeroDivisionError), pb.rules({"blocks.*/cube": "exact"}):
            gradient_of(cube)(X)
            raise ZeroDivisionError

    assert caught(block) == [] and RULES.value == ()


def test_compile_reports_an_unmatched_pattern_once_per_trace(cube):
    step = pb.compile(gradient_of(cube))
    table = {"blocks.*/cube": "straight_through", "cube": "double"}

    def block():
        with pb.rules(table):
            step(X)

    (text,) = caught(block)
    assert "'blocks.*/cube'" in text
    assert caught(block) == [] and step.traces == 1


def test_what_a_compiled_step_matched_is_not_reported_by_the_block_around_it(cube, scaled):
    step = pb.compile(gradient_of(cube))

    def block():
        with pb.rules({"cube": "double"}):
            step(X)
            gradient_of(scaled)(X)  # recorded eagerly, and no cube in it

    for _ in range(2):  # the second time the program is there already
        assert caught(block) == []


def test_a_step_inside_a_step_reports_with_the_outer_one(cube, scaled):
    inner = pb.compile(gradient_of(cube))
    outer = pb.compile(lambda x: inner(x) + gradient_of(scaled)(x))

    def block(table):
        with pb.rules(table):
            outer(X)

    assert caught(lambda: block({"cube": "double", "scaled": "five"})) == []
    (text,) = caught(lambda: block({"cube": "double", "blocks.*/scaled": "five"}))
    assert "blocks.*/scaled" in text


def test_a_program_without_recording_reports_nothing(cube):
    step = pb.compile(lambda x: cube(x))

    def block():
        with pb.rules({"blocks.*/cube": "double"}):
            step(X)
            cube(X)

    assert caught(block) == []


def test_another_thread_sees_the_default_table(cube):
    seen = {}

    def work():
        seen["before"] = gradient_of(cube)(X)
        with pb.rules({"cube": "double"}):
            seen["own"] = gradient_of(cube)(X)

    with pb.rules({"cube": "straight_through"}):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        close(gradient_of(cube)(X), STRAIGHT)
    close(seen["before"], EXACT)
    close(seen["own"], DOUBLE)


def test_a_variant_of_a_fused_op_has_no_second_order_unless_it_brings_one(cube):
    second = pb.grad(lambda x: ops.sum(gradient_of(cube)(x)))
    close(second(X), 6 * X * C)
    with pb.rules({"cube": "double"}):
        close(second(X), 12 * X * C)
        close(jax.jit(second)(X), 12 * X * C)
        dots = pb.jvp(gradient_of(cube), (X,), (jnp.asarray([0.25, -1.0, 3.0]),))
        close(dots[0], DOUBLE)
        close(dots[1], 12 * X * C * jnp.asarray([0.25, -1.0, 3.0]))
    with pb.rules({"cube": "straight_through"}), pb.scope("mlp"):
        with pytest.raises(RuleOrderError, match="mlp: rule 'straight_through' of 'cube' gives first derivatives only.*order2="):
            second(X)


def test_a_variant_of_a_primitive_has_every_order(scaled):
    cubed = lambda x: ops.sum(ops.pow_constant(scaled(x), exponent=3) * C)
    with pb.rules({"scaled": "five"}):  # the chain rule with 10 where 2 is right: d/dx = 10·d/dy
        close(pb.grad(cubed)(X), 10 * 3 * (2 * X) ** 2 * C)
        close(pb.grad(lambda x: ops.sum(pb.grad(cubed)(x)))(X), 100 * 6 * (2 * X) * C)


def test_a_pattern_sees_the_backward_of_its_scope_at_the_second_order(scaled):
    """The pullback of scaled is a mul in `head/backward`; here it is chosen apart from the mul of the forward."""

    @ops.mul.rule("negated", contract="surrogate")
    def mul_negated(res, z_bar):
        x_bar, y_bar = ops.mul.rules["exact"].fn(res, z_bar)
        return ops.neg(x_bar), ops.neg(y_bar)

    def loss(x):
        with pb.scope("head"):
            return ops.sum(ops.pow_constant(scaled(x), exponent=3))

    second = pb.grad(lambda x: ops.sum(pb.grad(loss)(x)))
    try:
        exact = second(X)
        with pb.rules({"head/backward/mul": "negated"}):
            close(pb.grad(loss)(X), 24 * X**2)
            negated = second(X)
        assert not np.allclose(exact, negated)
    finally:
        del ops.mul.rules["negated"]


def test_programs_of_ops_are_not_compiled_again_under_a_table(cube):
    gradient = gradient_of(cube)
    gradient(X)
    rule = cube.rules["exact"].program((True,))
    sizes = lambda: (cube.forward.program._cache_size(), rule.program._cache_size(), ops.mul.forward.program._cache_size())
    before = sizes()
    assert before[0] == before[1] == 1
    with pb.rules({"mul": "exact"}):
        gradient(X)
        with pb.rules({"cube": "double"}):
            gradient(X)
    EPOCH.set_global(EPOCH.get_global() + 1)
    gradient(X)
    assert sizes() == before


def test_contracts(cube):
    assert {name: rule.contract for name, rule in cube.rules.items()} == {
        "exact": "exact",
        "straight_through": "surrogate",
        "double": "surrogate",
    }
    with pytest.raises(RuleError, match="contract 'biased' is none of exact, surrogate, stochastic"):
        cube.rule("odd", contract="biased")(lambda res, y_bar: (y_bar,))  # type: ignore[arg-type]
    assert "odd" not in cube.rules


def test_a_variant_that_saves_less_keeps_less(cube):
    def loss(x):
        return ops.sum(cube(x + x) * C)

    step = pb.compile(pb.grad(loss))
    assert step.plan(X).ledger == {"cube": X.nbytes, "mul": 2 * C.nbytes}
    with pb.rules({"cube": "straight_through"}):
        assert step.plan(X).ledger == {"mul": 2 * C.nbytes}
    assert step.plan(X).ledger == {"cube": X.nbytes, "mul": 2 * C.nbytes}


def test_a_variant_with_the_wrong_shape_says_where(cube):
    @cube.rule("summed", contract="surrogate")
    def cube_summed(res, y_bar):
        return (y_bar.sum(),)

    with pb.rules({"cube": "summed"}), pb.scope("blocks.2"):
        with pytest.raises(RuleError, match=r"blocks.2: backward of 'cube' gave shape \(\) for operand 0 of shape \(3,\)"):
            gradient_of(cube)(X)
