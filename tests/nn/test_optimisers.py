"""The protocol of optimisers and what all of them promise: dtypes, counts, schedules, wrappers, refusals."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pullback import nn
from pullback.lib.errors import OperandError

ALL = {
    "adam": nn.adam(0.1),
    "adamw": nn.adamw(0.1),
    "lion": nn.lion(0.1),
    "sgd": nn.sgd(0.1),
    "sgd with momentum": nn.sgd(0.1, 0.9),
    "rmsprop": nn.rmsprop(0.1),
    "rmsprop, all of it": nn.rmsprop(0.1, centered=True, momentum=0.9, nesterov=True, bias_correction=True),
    "adagrad": nn.adagrad(0.1),
    "ema": nn.ema(0.9),
    "clip": nn.clip(1.0),
    "clip_by_block_rms": nn.clip_by_block_rms(1.0),
    "clip_by_global_norm": nn.clip_by_global_norm(1.0),
}
KEEP_DTYPE = ("ema", "clip", "clip_by_block_rms", "clip_by_global_norm")

AGAINST_OPTAX = {
    "clip, adamw": (
        nn.chain(nn.clip_by_global_norm(2.0), nn.adamw(1e-2)),
        optax.chain(optax.clip_by_global_norm(2.0), optax.adamw(1e-2, mask=nn.matrices)),
    ),
    "optax's chain of ours": (
        optax.chain(nn.clip_by_global_norm(2.0), optax.scale(3.0), nn.sgd(0.1, 0.9)),  # type: ignore  # optax goes by the fields
        optax.chain(optax.clip_by_global_norm(2.0), optax.scale(3.0), optax.sgd(0.1, 0.9)),
    ),
    "our chain of optax's": (
        nn.chain(optax.clip_by_global_norm(2.0), optax.scale(3.0), nn.sgd(0.1)),
        optax.chain(optax.clip_by_global_norm(2.0), optax.scale(3.0), optax.sgd(0.1)),
    ),
}


@pytest.mark.parametrize("name", AGAINST_OPTAX)
def test_chains_equal_optax(name, equals_optax):
    equals_optax(*AGAINST_OPTAX[name])


def nest(tree: dict):
    """The same leaves in tuples, lists and dicts, with a None among them."""
    return ({"a": [tree["scale"], tree["bias"]]}, None, (tree["weight"], (tree["stack"],)))


def test_twenty_steps_in_tuples_and_lists_under_optax_apply_updates(twenty):
    with jax.enable_x64(True):
        params, grads = map(nest, twenty.params_and_grads())
        part = ({"a": True}, None, False)  # a prefix
        pair = nn.adamw(0.1, weight_decay=0.3, mask=part), optax.adamw(0.1, weight_decay=0.3, mask=part)
        assert twenty.gap(*(twenty.trajectory(optimiser, params, grads) for optimiser in pair)) < 1e-10


def test_the_check_sees_a_wrong_optimiser(twenty):
    """Planted: everything decays where only matrices should; another eps; no nesterov; eps on the wrong side of the root."""
    run, gap = twenty.trajectory, twenty.gap
    with jax.enable_x64(True):
        params, grads = twenty.params_and_grads(names=("bias", "weight"))
        right = run(optax.adamw(1e-2, mask=nn.matrices), params, grads)
        assert gap(run(nn.adamw(1e-2, mask=None), params, grads), right) > 1e-6
        assert gap(run(nn.adamw(1e-2, eps=2e-8), params, grads), right) > 1e-10
        right = run(optax.sgd(1e-2, 0.9, nesterov=True), params, grads)
        assert gap(run(nn.sgd(1e-2, 0.9), params, grads), right) > 1e-3
        right = run(optax.rmsprop(1e-2), params, grads)
        assert gap(run(nn.rmsprop(1e-2, eps_in_sqrt=False), params, grads), right) > 1e-10


def test_zero_gradients_move_nothing(twenty):
    params, _ = twenty.params_and_grads(np.float32, ("bias", "weight"))
    zero = jax.tree.map(np.zeros_like, params)
    still = {**ALL, "adamw": nn.adamw(0.1, weight_decay=0.0), "lion": nn.lion(0.1, weight_decay=0.0)}
    for name, optimiser in {**still, "adagrad from 0": nn.adagrad(0.1, 0.0, 0.0)}.items():
        state = optimiser.init(params)
        for _ in range(3):
            updates, state = optimiser.update(zero, state, params)
            assert all(np.all(np.asarray(u) == 0) for u in jax.tree.leaves(updates)), name


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64])
def test_state_is_an_accumulator_of_its_parameter(dtype):
    with jax.enable_x64(True):
        params = {"w": jnp.ones((2, 3), dtype)}
        for name, optimiser in ALL.items():
            before = optimiser.init(params)
            updates, after = optimiser.update(params, before, params)
            kinds = [[(x.shape, x.dtype, x.weak_type) for x in jax.tree.leaves(s)] for s in (before, after)]
            assert kinds[0] == kinds[1] and jax.tree.structure(before) == jax.tree.structure(after), name
            wide = jnp.float64 if dtype == jnp.float64 else jnp.float32
            assert updates["w"].dtype == (dtype if name in KEEP_DTYPE else wide), name
            assert nn.apply_updates(params, updates)["w"].dtype == dtype
            moments = [x for x in jax.tree.leaves(before) if x.shape]
            assert all(x.dtype == wide for x in moments), name


# Steps, counts, wrappers.


def test_a_schedule_is_evaluated_in_the_program_from_step_0():
    params, grads = {"w": jnp.float32(0)}, {"w": jnp.float32(1)}
    optimiser = nn.sgd(lambda count: 10.0**-count)
    state, traces = optimiser.init(params), []

    @jax.jit
    def step(params, state):
        traces.append(1)
        updates, state = optimiser.update(grads, state, params)
        return nn.apply_updates(params, updates), state

    for total in (-1, -1.1, -1.11):
        params, state = step(params, state)
        np.testing.assert_allclose(params["w"], total, rtol=1e-6)
    assert len(traces) == 1 and state.count == 3 and not state.hyper


def test_the_first_update_of_a_warmup_from_0_is_a_no_op(twenty):
    params, grads = twenty.params_and_grads(np.float32, ("bias", "weight"))
    warmup = nn.warmup_constant_schedule(0.0, 0.1, 4)
    for optimiser in (nn.adamw(warmup), nn.sgd(warmup, 0.9)):
        after, _ = twenty.trajectory(optimiser, params, grads)
        for name, p in params.items():
            assert np.array_equal(after[name][0], p) and not np.array_equal(after[name][1], p)
        state = optimiser.init(params)
        _, state = optimiser.update(jax.tree.map(lambda g: g[0], grads), state, params)
        assert state.count == 1 and any(np.any(x) for x in jax.tree.leaves(state[1]))  # but it is counted, and moments began


def test_the_count_stays_at_the_largest_int32():
    params = {"w": jnp.ones((2, 3))}
    last = jnp.int32(2**31 - 1)
    for name, optimiser in ALL.items():
        if not name.startswith("clip"):
            updates, state = optimiser.update(params, optimiser.init(params)._replace(count=last), params)
            assert state.count == last and np.all(np.isfinite(updates["w"])), name


def test_optax_wrappers_drive_ours(twenty):
    params, grads = twenty.params_and_grads(np.float32, ("bias", "weight"))
    wrappers = {
        "accumulation": lambda make, **kw: optax.MultiSteps(make(0.1, **kw), every_k_schedule=4),
        "skip": lambda make, **kw: optax.apply_if_finite(make(0.1, **kw), max_consecutive_errors=3),
        "masked": lambda make, **kw: optax.masked(make(0.1, **kw), {"bias": True, "weight": False}),
        "injected": lambda make, **kw: optax.inject_hyperparams(make, static_args=("mask",))(learning_rate=0.1, b1=0.8, **kw),
    }
    for name, wrap in wrappers.items():
        ours, theirs = wrap(nn.adamw, mask=None), wrap(optax.adamw, mask=None)
        assert twenty.gap(twenty.trajectory(ours, params, grads), twenty.trajectory(theirs, params, grads)) < 1e-4, name


def test_a_module_of_bools_is_a_mask_and_not_a_function():
    class Layer(NamedTuple):
        weight: Any
        bias: Any

        def __call__(self, x):
            raise AssertionError("a mask that is a pytree is not called")

    params = Layer(jnp.ones((2, 3)), jnp.ones(3))
    optimiser = nn.adamw(1.0, weight_decay=0.5, mask=Layer(False, True))
    zero = jax.tree.map(jnp.zeros_like, params)
    updates, _ = optimiser.update(zero, optimiser.init(params), params)
    assert np.all(updates.weight == 0) and np.all(updates.bias == -0.5)


# What is refused.


def test_trees_that_do_not_fit():
    params = {"w": jnp.ones((2, 3)), "b": jnp.ones(3)}
    optimiser, wrong = nn.adamw(0.1), OperandError
    state = optimiser.init(params)
    with pytest.raises(wrong, match=r"update\(grads, state, params\)"):
        optimiser.update(params, state)
    with pytest.raises(wrong, match=r"gradients: leaf \['b'\] of shape \(3,\) is missing"):
        optimiser.update({"w": params["w"]}, state, params)
    with pytest.raises(wrong, match=r"gradients: leaf \['c'\] of shape \(\) belongs to no parameter"):
        optimiser.update({**params, "c": jnp.ones(())}, state, params)
    with pytest.raises(wrong, match=r"gradients: leaf \['w'\] has shape \(3,\), expected \(2, 3\)"):  # it would broadcast
        optimiser.update({**params, "w": jnp.ones(3)}, state, params)
    with pytest.raises(wrong, match=r"parameters: leaf \['w'\] has shape \(1, 3\)"):
        optimiser.update(params, state, {**params, "w": jnp.ones((1, 3))})
    with pytest.raises(wrong, match=r"updates: leaf \['b'\] has shape \(\), expected \(3,\)"):
        nn.apply_updates(params, {**params, "b": jnp.ones(())})
    for name, optimiser in ALL.items():
        if not name.startswith("clip"):
            with pytest.raises(wrong, match=r"(gradients|values): leaf \['b'\]"):
                optimiser.update({"w": params["w"]}, optimiser.init(params), params)
    with pytest.raises(wrong, match="lion decays weights, so it needs them"):
        nn.lion(0.1).update(params, nn.lion(0.1).init(params))
    with pytest.raises(wrong, match="chain of 2 was given 1 states"):
        nn.chain(optimiser, optimiser).update(params, (state,), params)


def test_empty_trees():
    params = {"w": jnp.ones((0, 3))}
    for optimiser in (*ALL.values(), nn.chain()):
        assert optimiser.update({}, optimiser.init({}), {})[0] == {}
        assert optimiser.update(params, optimiser.init(params), params)[0]["w"].shape == (0, 3)
