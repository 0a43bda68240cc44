"""debug_nans: which op, which direction, which scope, which line."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.autograd import debug
from pullback.ops import op as op_module

BAD_FORWARD = jnp.asarray([1.0, -1.0, 2.0])  # log of a negative number
BAD_BACKWARD = jnp.asarray([1.0, 0.0, 2.0])  # the slope of sqrt at 0 is infinite; times 0 it is a NaN
FINE = jnp.asarray([1.0, 2.0, 3.0])


def logarithm(x):
    with pb.scope("blocks.3"):
        return ops.sum(ops.log(x))  # log is called here


def root(x):
    with pb.scope("head"):
        y = ops.mul(x, x)  # mul is called here
        return ops.sum(ops.sqrt(y))


def line_of(f, comment: str) -> str:
    """`file:line` of the line of f that ends in a comment."""
    lines, first = inspect.getsourcelines(f)
    (at,) = [i for i, line in enumerate(lines) if line.rstrip().endswith(comment)]
    return f"{__file__}:{first + at}"


def text_of(f, *args) -> str:
    with pb.debug_nans(), pytest.raises(pb.NanError) as caught:
        f(*args)
    return str(caught.value)


def by_scan(f):
    def loop(x):
        return pb.scan(lambda carry, row: (carry + f(row * x), None), jnp.float32(0), jnp.stack([FINE / FINE, FINE / FINE]))[0]

    return loop


FORWARD = f"forward of 'blocks.3/log' made a NaN; called at {line_of(logarithm, '# log is called here')}"
MADE = "backward of 'head/mul' made a NaN in the cotangent of operand 0 and operand 1; its forward was called at"
BACKWARD = f"{MADE} {line_of(root, '# mul is called here')}"

ways = pytest.mark.parametrize(
    "way",
    [
        lambda f: f,
        by_scan,
        pb.checkpoint,
    ],
    ids=["plain", "scan", "checkpoint"],
)


@ways
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_nan_of_the_forward_is_named(way, compiled):
    step = pb.value_and_grad(way(logarithm))
    assert text_of(pb.compile(step) if compiled else step, BAD_FORWARD) == FORWARD


@ways
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_nan_of_the_backward_is_named(way, compiled):
    step = pb.value_and_grad(way(root))
    assert text_of(pb.compile(step) if compiled else step, BAD_BACKWARD) == BACKWARD


def test_the_exploring_face_is_watched():
    assert text_of(lambda: logarithm(pb.tensor(BAD_FORWARD))) == FORWARD
    with pb.debug_nans():
        y = root(pb.tensor(BAD_BACKWARD))
        with pytest.raises(pb.NanError) as caught:
            y.backward()
    assert str(caught.value) == BACKWARD


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_what_nobody_differentiates_is_watched_too(compiled):
    assert text_of(pb.compile(logarithm) if compiled else logarithm, BAD_FORWARD) == FORWARD


def test_a_nan_of_the_second_order_is_named():
    with pb.debug_nans():
        pb.grad(root)(FINE)
    text = text_of(pb.hvp, lambda x: ops.sum(ops.pow_constant(x, exponent=1.5)), (BAD_BACKWARD,), (0.0 * FINE,))
    assert "pow_constant" in text or "mul" in text


def test_donated_state_survives():
    @pb.compile(donate=0)
    def step(state, x):
        value, gradient = pb.value_and_grad(lambda w: logarithm(w * x))(state)
        return state - 0.1 * gradient, value

    state = FINE + 0
    assert text_of(step, state, BAD_FORWARD) == FORWARD
    np.testing.assert_array_equal(state, FINE)
    with pb.debug_nans():
        after, _ = step(state, FINE)  # a step without a NaN gives its result, and keeps its arguments too
    np.testing.assert_array_equal(state, FINE)
    np.testing.assert_allclose(after, FINE - 0.1 / FINE, rtol=1e-6)
    step(state, FINE)
    assert state.is_deleted()


def test_a_random_step_draws_the_same_numbers_when_it_is_looked_at():
    """A NaN that only one mask in many makes: log of what dropout has zeroed, minus infinity, times zero."""

    @pb.compile
    def step(x, i):
        with pb.keys(0, i):
            return pb.value_and_grad(lambda x: ops.sum(ops.log(ops.dropout(x, pb.key("dropout"), rate=0.3)) * (0.0 * x)))(x)

    found = []
    with pb.debug_nans():
        for i in range(8):
            try:
                step(FINE, i)
            except pb.NanError as error:
                found.append((i, str(error)))
    assert 0 < len(found) < 8
    assert all("'mul' made a NaN" in text for _, text in found)
    bad = [i for i in range(8) if np.isnan(step(FINE, i)[0])]
    assert bad == [i for i, _ in found]


def test_what_is_computed_outside_ops_has_its_own_text():
    @pb.compile
    def step(x):
        return jnp.log(pb.grad(lambda x: ops.sum(ops.exp(x) * BAD_FORWARD))(x))

    text = text_of(step, FINE)
    assert text.startswith("step returned a NaN; no op made one when it was run again eagerly")
    assert "optimiser" in text


def test_an_argument_that_holds_a_nan_is_no_fault_of_an_op():
    nan = FINE.at[1].set(jnp.nan)
    assert text_of(logarithm, nan).startswith("forward of 'blocks.3/log' was given a NaN as operand 0; called at")
    assert "'mul' was given a NaN as operand 1" in text_of(pb.grad(lambda x: ops.sum(ops.exp(x) * nan)), FINE)
    assert "'mul' was given a NaN as operand 1" in text_of(pb.grad(lambda x: ops.sum(ops.exp(x) * np.asarray(nan))), FINE)
    assert "its arguments hold one already" in text_of(pb.compile(lambda x: x + 1), nan)
    _, pullback = pb.vjp(ops.exp, FINE)
    assert "backward of 'exp' was given a NaN cotangent" in text_of(pullback, nan)


def test_a_nan_that_is_selected_away_is_none_of_a_program():
    """The result is what counts for a program; eagerly each op is looked at."""
    safe = lambda x: ops.where(x > 0, ops.log(x), 0.0)
    with pb.debug_nans():
        np.testing.assert_allclose(pb.compile(safe)(BAD_FORWARD), [0, 0, np.log(2)], rtol=1e-6)
    assert "'log' made a NaN" in text_of(safe, BAD_FORWARD)


def test_infinities_and_integers_are_left_alone():
    with pb.debug_nans():
        assert np.isinf(ops.log(jnp.zeros(2))).all()
        pb.compile(lambda x, ids, key: (ops.take(x, ids), key))(FINE, jnp.asarray([0, 2]), jax.random.key(0))


def test_off_means_that_nothing_is_looked_at(monkeypatch):
    monkeypatch.setattr(debug, "bad", lambda tree: pytest.fail("a value was looked at"))
    step = pb.compile(pb.value_and_grad(logarithm), donate=0)
    assert np.isnan(step(BAD_FORWARD + 0)[0]) and np.isnan(pb.value_and_grad(logarithm)(BAD_FORWARD)[0])
    assert op_module.inspect_call is None
    with pb.debug_nans(False):
        ops.log(BAD_FORWARD)


def test_blocks_nest_and_end():
    with pb.debug_nans():
        with pb.debug_nans(False):
            ops.log(BAD_FORWARD)
        assert "'log' made a NaN" in text_of(ops.log, BAD_FORWARD)
        with pytest.raises(ZeroDivisionError), pb.debug_nans():
            raise ZeroDivisionError
        assert debug.watching()
    ops.log(BAD_FORWARD)
    assert not debug.watching() and op_module.inspect_call is None


def test_a_graph_that_was_recorded_before_has_no_line_but_has_a_name():
    _, pullback = pb.vjp(root, BAD_BACKWARD)
    assert re.match("backward of 'head/mul' made a NaN .* called at a line that was not watched", text_of(pullback, jnp.float32(1)))


def test_the_error_is_one_of_ours():
    assert issubclass(pb.NanError, pb.PullbackError)
