"""pb.compile: one program, nothing of the caller baked in, and a plan that says what it costs."""

import functools
import gc
import resource

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.autograd.compile import OPTIONS, usual_options
from pullback.autograd.scope import SCOPE
from pullback.lib.errors import GraphError
from pullback.lib.precision import policy

RNG = np.random.default_rng(0)
W = jnp.asarray(RNG.normal(size=(16, 16)), "float32")
X = jnp.asarray(RNG.normal(size=(4, 16)), "float32")


def loss(w, x):
    with pb.scope("layer"):
        h = ops.tanh(x @ w)
    return ops.mean(h * h)


def step(w, x, lr):
    value, gradient = pb.value_and_grad(loss)(w, x)
    return w - lr * gradient, value


def test_a_step_is_traced_once_and_equals_the_eager_one():
    compiled = pb.compile(step)
    ours, value = compiled(W, X, 0.1)
    theirs, same = step(W, X, 0.1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(value, same, rtol=1e-5)
    for lr in (0.2, 0.3, 1e-4):  # a hyperparameter is an argument: another value is no other program
        out = compiled(W, X, lr)[0]
        np.testing.assert_allclose(W - out, lr / 0.1 * (W - ours), rtol=1e-3, atol=1e-6)
    assert compiled.traces == 1
    compiled(W, X[:2], 0.1)
    assert compiled.traces == 2


def test_donation_hands_the_memory_over():
    compiled = pb.compile(step, donate=0)
    plan = compiled.plan(W, X, 0.1)
    assert plan.aliased == W.nbytes
    assert plan.arguments == W.nbytes + X.nbytes + 4
    assert plan.outputs >= W.nbytes + 4
    assert plan.peak == plan.arguments + plan.outputs - plan.aliased + plan.temp
    w = W + 0
    address = w.unsafe_buffer_pointer()
    after, _ = compiled(w, X, 0.1)
    assert w.is_deleted() and after.unsafe_buffer_pointer() == address
    assert pb.compile(step).plan(W, X, 0.1).aliased == 0


def test_donation_of_a_tree_by_several_positions():
    @pb.compile(donate=(0, 2))
    def move(params, x, state):
        """Moves."""
        return jax.tree.map(lambda p: p + x.sum(), params), [s * 2 for s in state]

    params, state = {"a": W + 0, "b": W[0] + 0}, [W + 1]
    assert move.plan(params, X, state).aliased == 2 * W.nbytes + W[0].nbytes
    move(params, X, state)
    assert params["a"].is_deleted() and params["b"].is_deleted() and state[0].is_deleted() and not X.is_deleted()
    assert move.__name__ == "move" and move.__doc__ == "Moves."


def test_ten_thousand_steps_are_one_trace_in_flat_memory():
    @functools.partial(pb.compile, donate=0)
    def train(w, x, lr, seed, step):
        with pb.keys(seed, step):

            def noisy(w):
                return loss(ops.dropout(w, pb.key("dropout"), rate=0.1), x)

            with pb.collecting(lambda bar: jnp.vdot(bar, bar), where="*/tanh") as health:
                gradient = pb.grad(noisy)(w)
        return w - lr * gradient, health

    def run(w, first, last):
        for i in range(first, last):
            w, health = train(w, x, 1e-3 * (1 + i % 7), 0, i)
        gc.collect()
        return w, health, len(gc.get_objects()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    x = X
    w, _, objects, kilobytes = run(W + 0, 0, 2_000)
    growth = []
    for first in range(2_000, 10_000, 2_000):
        w, health, objects_after, kilobytes_after = run(w, first, first + 2_000)
        growth.append(kilobytes_after - kilobytes)
        kilobytes = kilobytes_after
    assert train.traces == 1
    assert abs(objects_after - objects) < 100
    assert min(growth) < 500  # 256 bytes a step would show each time; what malloc does once in a process with a past shows once
    assert np.isfinite(w).all() and set(health) == {"layer/tanh"}


def test_a_trace_leaves_no_tracers_behind():
    compiled = pb.compile(step)
    with jax.checking_leaks():
        compiled.plan(W, X, 0.1)
        compiled(W, X, 0.1)


def test_the_plan_knows_which_program_it_describes():
    compiled = pb.compile(step)
    small, large = compiled.plan(W, X, 0.1), compiled.plan(W, jnp.concatenate([X, X]), 0.1)
    again = compiled.plan(W, X, 0.1)
    assert large.ledger == {label: 2 * n for label, n in small.ledger.items()}
    assert again.ledger == small.ledger and again.compile_seconds == small.compile_seconds
    assert (small.traces, large.traces, again.traces) == (1, 2, 2)


def test_a_plan_is_compiled_once_and_the_call_finds_it():
    compiled = pb.compile(step)
    plan = compiled.plan(*jax.eval_shape(lambda: (W, X)), 0.1)  # shapes are enough
    assert plan.compile_seconds > 0 and plan.expanded == ()
    compiled(W, X, 0.1)
    assert compiled.traces == 1


def test_the_plan_as_a_table():
    text = str(pb.compile(step, donate=0).plan(W, X, 0.1))
    rows = {line.split()[0] for line in text.splitlines()}
    assert {"arguments", "outputs", "aliased", "temp", "peak", "compile", "traces", "expanded", "residuals", "layer/tanh"} <= rows


def ledger_of(f, *args):
    return pb.compile(pb.grad(f)).plan(*args).ledger


def test_the_ledger_counts_each_array_once_and_leaves_arguments_out():
    assert ledger_of(lambda w: ops.sum(ops.mul(ops.tanh(w), ops.tanh(w))), W) == {"tanh": 2 * W.nbytes}
    shared = lambda w: (lambda h: ops.sum(h * h + ops.exp(h) * h))(ops.tanh(w))
    assert ledger_of(shared, W) == {"tanh": W.nbytes, "exp": W.nbytes}
    assert ledger_of(lambda w: ops.sum(w * w), W) == {}
    with_batch_and_number = lambda w, x: pb.grad(lambda w: ops.sum(x @ w) + ops.sum(w * 3.0))(w)
    assert pb.compile(with_batch_and_number).plan(W, X).ledger == {}


def test_the_ledger_speaks_of_scopes():
    def deep(w):
        for i in range(2):
            with pb.scope(f"blocks.{i}"):
                w = ops.exp(w)
        return ops.sum(w)

    assert ledger_of(deep, W) == {"blocks.0/exp": W.nbytes, "blocks.1/exp": W.nbytes}


def test_the_ledger_shows_what_checkpoint_saves():
    body = lambda w: ops.tanh(ops.tanh(ops.tanh(w)))
    assert sum(ledger_of(lambda w: ops.sum(body(w)), W).values()) == 3 * W.nbytes
    assert sum(ledger_of(lambda w: ops.sum(pb.checkpoint(body)(w)), W).values()) == 0
    assert sum(ledger_of(lambda w: ops.sum(pb.checkpoint(body)(body(w))), W).values()) == 3 * W.nbytes


def test_expanded_composites_are_named_and_first_order_has_none():
    def f(x):
        with pb.scope("mlp"):
            return ops.mean(ops.gelu(x) * x)

    assert pb.compile(pb.grad(f)).plan(X).expanded == ()
    assert set(pb.compile(lambda x: pb.hvp(f, (x,), (x,))).plan(X).expanded) == {"mlp/gelu"}


def test_a_call_on_tracked_values_runs_the_python():
    calls = []

    @pb.compile
    def square(x):
        calls.append(type(x).__name__)
        return x * x

    np.testing.assert_allclose(pb.grad(lambda x: ops.sum(square(x) * X))(X), 2 * X * X, rtol=1e-6)
    assert calls == ["Tensor"] and square.traces == 0
    np.testing.assert_allclose(pb.grad(lambda x: ops.sum(square(x=x) * X))(X), 2 * X * X, rtol=1e-6)
    y = square(pb.tensor(X))
    assert isinstance(y, pb.Tensor)


def test_a_compiled_function_of_untracked_values_may_be_called_inside_a_recording():
    weights = pb.compile(lambda x: ops.exp(x))
    np.testing.assert_allclose(pb.grad(lambda x: ops.sum(x * weights(X)))(X), jnp.exp(X), rtol=1e-6)


def test_a_step_may_be_part_of_any_program():
    part = pb.compile(ops.exp)
    wanted = jnp.exp(X)
    ways = {
        "compile": lambda: pb.compile(lambda x: part(x))(X),
        "jit": lambda: jax.jit(lambda x: part(x))(X),
        "jit of nothing": lambda: jax.jit(lambda: part(X))(),
        "loop": lambda: jax.lax.fori_loop(0, 2, lambda i, x: part(X), X),
        "branch": lambda: jax.lax.cond(True, part, pb.compile(lambda x: x), X),
        "vmap": lambda: jax.vmap(part)(X),
    }
    for name, way in ways.items():
        np.testing.assert_allclose(way(), wanted, rtol=1e-6, err_msg=name)
    with pb.debug_nans():
        np.testing.assert_allclose(ways["jit"](), wanted, rtol=1e-6)


def test_barriers_hold_in_small_loops_and_branches():
    """Where XLA would make a loop or a branch a function of its own, a barrier in it has to be compiled all the same."""
    calm = lambda x: pb.checkpoint(lambda x: ops.tanh(ops.gelu(x) * x))(x)

    def loop(x):
        return pb.scan(lambda carry, row: (calm(carry), carry * row), x[0], x)[1]

    programs = [
        lambda x: ops.barrier(x) * 2,
        lambda x: jax.lax.fori_loop(0, 3, lambda i, c: ops.barrier(c) * 2, x),
        lambda x: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: ops.barrier(jnp.abs(c)) * 2 + 1, x),
        lambda x: jax.lax.cond(x.sum() > 0, lambda x: ops.barrier(x) * 2, lambda x: ops.barrier(-x) * 2, x),
        pb.grad(lambda x: ops.sum(loop(x))),
        pb.grad(lambda x: ops.sum(pb.scan(lambda c, row: (loop(c), None), x, x)[0])),
        lambda x: jax.vmap(pb.grad(lambda x: ops.sum(calm(x))))(x),
    ]
    for f in programs:
        np.testing.assert_allclose(pb.compile(f)(X[:3, :5]), jax.jit(f)(X[:3, :5]), rtol=1e-5, atol=1e-6)


def test_returning_a_closed_over_tracked_value_is_an_error():
    leak = lambda x: pb.compile(lambda c: x * c)(2.0)
    with pytest.raises(GraphError, match="closed over a tracked value and returned it; pass it as an argument"):
        pb.grad(lambda x: ops.sum(leak(x)))(X)
    with pytest.raises(GraphError, match="named closed over a tracked value"):
        x = pb.tensor(X)

        def named(c):
            return {"y": (x, c)}

        pb.compile(named)(1.0)


def test_backward_inside_a_compiled_step_is_an_error():
    @pb.compile
    def wrong(x):
        x = pb.tensor(x)
        ops.sum(x * x).backward()
        return x.grad

    with pytest.raises(GraphError, match=r"backward\(\) inside a compiled or mapped function.*pb.grad"):
        wrong(X)


def test_a_collector_around_a_compiled_call_is_an_error():
    compiled = pb.compile(step)
    compiled(W, X, 0.1)
    with pb.collecting(), pytest.raises(GraphError, match="pb.collecting is open around the compiled step.*open it inside and return it"):
        compiled(W, X, 0.1)
    with pb.collecting() as out:  # run inline it sees everything
        pb.grad(lambda w: compiled(w, X, 0.1)[1])(W)
    assert "layer/tanh" in out


def test_nothing_of_the_caller_is_baked_in():
    seen = []

    @pb.compile
    def look(x):
        with pb.scope("inner"):
            seen.append(SCOPE.get())
        return x

    with pb.scope("outer"), pb.keys(0):
        look(X)
        assert SCOPE.get() == "outer"
    assert seen == ["inner"]


def test_an_error_in_the_trace_leaves_everything_as_it_was():
    @pb.compile
    def broken(x):
        with pb.scope("inner"), pb.keys(0):
            raise ZeroDivisionError

    with pb.scope("outer"):
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                broken(X)
        assert SCOPE.get() == "outer"


def test_static_names_are_compiled_in():
    ran = []

    @pb.compile(static=("mode", "power"))
    def f(x, power=2, *, mode="plain"):
        ran.append((mode, power))
        return x**power if mode == "plain" else -(x**power)

    np.testing.assert_allclose(f(X), X**2, rtol=1e-6)
    np.testing.assert_allclose(f(X, power=3, mode="negative"), -(X**3), rtol=1e-5)
    np.testing.assert_allclose(f(X, 3, mode="negative"), -(X**3), rtol=1e-5)  # by position too, as the signature has it
    f(X, power=3, mode="negative")
    assert ran[:2] == [("plain", 2), ("negative", 3)] and f.traces <= 3
    assert f.plan(X, mode="negative").traces == f.traces


def test_a_static_name_may_be_given_alone():
    f = pb.compile(lambda x, *, mode: x if mode == "a" else -x, static="mode")
    np.testing.assert_array_equal(f(X, mode="b"), -X)


def test_a_static_or_donated_argument_that_is_not_there_is_refused_when_compiled():
    with pytest.raises(ValueError, match="mood"):
        pb.compile(lambda x, *, mode: x, static=("mood",))
    with pytest.raises(ValueError, match="donate_argnums"):
        pb.compile(lambda x: x, donate=3)


def test_as_a_method():
    class Trainer:
        @pb.compile
        def double(self, x):
            return 2 * x

    jax.tree_util.register_static(Trainer)
    trainer = Trainer()
    np.testing.assert_array_equal(trainer.double(X), 2 * X)
    assert trainer.double.plan(trainer, X).traces == Trainer.double.traces == 1


def test_a_callable_without_a_name():
    f = pb.compile(functools.partial(step, x=X, lr=0.1))
    np.testing.assert_allclose(f(W)[0], step(W, X, 0.1)[0], rtol=1e-5, atol=1e-7)


def test_programs_bear_the_name_of_their_function():
    assert "jit(step)/" in str(pb.compile(step).donating.lower(W, X, 0.1).compile().as_text())


def test_a_change_of_precision_is_another_program():
    compiled = pb.compile(lambda x: x * len(policy().name))
    for _ in range(2):
        np.testing.assert_array_equal(compiled(X), 7 * X)
        with pb.precision("tf32"):
            np.testing.assert_array_equal(compiled(X), 4 * X)
    assert compiled.traces == 2


def test_a_step_of_many_seeds_under_vmap():
    compiled = pb.compile(step)
    rates = jnp.asarray([0.1, 0.2, 0.5], "float32")
    many, values = jax.vmap(compiled, in_axes=(None, None, 0))(W, X, rates)
    for i, lr in enumerate((0.1, 0.2, 0.5)):
        np.testing.assert_allclose(many[i], step(W, X, lr)[0], rtol=1e-5, atol=1e-6)
    assert values.shape == (3,)


def test_the_options_are_those_of_the_device_that_was_chosen(monkeypatch):
    """`--device cpu` on a machine whose first device is another."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert usual_options() == {}
    with jax.default_device(jax.devices("cpu")[0]):
        assert usual_options() == OPTIONS["cpu"]
