"""AdamW and SGD against optax, torch, known faults and their own promises."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pullback import nn
from pullback.lib.errors import OperandError

STEPS = 20
SHAPES = {"scale": (), "bias": (5,), "weight": (4, 5), "stack": (2, 3, 4)}


def normals(seed: int, shape: tuple[int, ...], dtype: type = np.float64) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def params_and_grads(steps: int = STEPS, dtype: type = np.float64) -> tuple[dict, dict]:
    """Leaves of ranks 0 to 3, and for each a gradient per step, of sizes from 1e-3 to 1e3."""
    params = {name: normals(i, shape, dtype) for i, (name, shape) in enumerate(SHAPES.items())}
    sizes = 10.0 ** np.random.default_rng(9).uniform(-3, 3, steps)
    grads = {
        name: np.stack([size * normals(100 * i + t, shape) for t, size in enumerate(sizes)]).astype(dtype)
        for i, (name, shape) in enumerate(SHAPES.items())
    }
    return params, grads


def two_leaves(*args, **kwargs) -> tuple[dict, dict]:
    """A bias and a weight: cheaper to compile, where the ranks are not the point."""
    return tuple({name: tree[name] for name in ("bias", "weight")} for tree in params_and_grads(*args, **kwargs))  # type: ignore


def nest(tree: dict):
    """The same leaves in tuples, lists and dicts, with a None among them."""
    return ({"a": [tree["scale"], tree["bias"]]}, None, (tree["weight"], (tree["stack"],)))


def trajectory(optimiser, params, grads, apply=optax.apply_updates):
    """Parameters and updates of every step, one compiled scan."""

    def step(carry, g):
        params, state = carry
        updates, state = optimiser.update(g, state, params)
        params = apply(params, updates)
        return (params, state), (params, updates)

    return jax.jit(lambda p, gs: jax.lax.scan(step, (p, optimiser.init(p)), gs)[1])(params, grads)


def gap(got, want) -> float:
    """Largest ||difference|| / ||want|| over the leaves."""
    assert jax.tree.structure(got) == jax.tree.structure(want)
    pairs = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want))]
    assert all(a.shape == b.shape for a, b in pairs)
    return max(float(np.linalg.norm(a - b) / max(np.linalg.norm(b), np.finfo(np.float64).tiny)) for a, b in pairs)


def ramp(count):
    return 0.1 / (count + 1)


SOME = {"scale": True, "bias": False, "weight": False, "stack": True}

AGAINST_OPTAX = {
    "adamw default": (nn.adamw(1e-2), optax.adamw(1e-2, mask=nn.matrices)),
    "adamw everything decays": (nn.adamw(1e-2, weight_decay=0.3, mask=None), optax.adamw(1e-2, weight_decay=0.3)),
    "adamw mask of bools": (nn.adamw(1e-2, weight_decay=0.3, mask=SOME), optax.adamw(1e-2, weight_decay=0.3, mask=SOME)),
    "adamw numbers": (
        nn.adamw(0.3, 0.5, 0.99, 1e-3, 0.1, mask=lambda tree: jax.tree.map(lambda x: x.ndim == 1, tree)),
        optax.adamw(0.3, 0.5, 0.99, 1e-3, weight_decay=0.1, mask=lambda tree: jax.tree.map(lambda x: x.ndim == 1, tree)),
    ),
    "adamw b1=0, no decay": (nn.adamw(1e-2, b1=0.0, weight_decay=0.0), optax.adamw(1e-2, b1=0.0, weight_decay=0.0)),
    "adamw schedules": (
        nn.adamw(ramp, weight_decay=lambda count: 0.01 * count),
        optax.adamw(ramp, weight_decay=lambda count: 0.01 * count, mask=nn.matrices),
    ),
    "adamw, cosine with warm-up": (
        nn.adamw(nn.warmup_cosine_decay_schedule(0.01, 0.1, 5, 15, 0.02)),
        optax.adamw(optax.warmup_cosine_decay_schedule(0.01, 0.1, 5, 15, 0.02), mask=nn.matrices),
    ),
    "sgd, linear": (nn.sgd(nn.linear_schedule(0.3, 0.1, 15)), optax.sgd(optax.linear_schedule(0.3, 0.1, 15))),
    "adamw arrays": (nn.adamw(np.array(1e-2), b2=np.array(0.9)), optax.adamw(1e-2, b2=0.9, mask=nn.matrices)),
    "sgd": (nn.sgd(0.3), optax.sgd(0.3)),
    "sgd momentum": (nn.sgd(0.3, momentum=0.9), optax.sgd(0.3, momentum=0.9)),
    "sgd nesterov, schedule": (nn.sgd(ramp, 0.8, nesterov=True), optax.sgd(ramp, 0.8, nesterov=True)),
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
def test_twenty_steps_equal_optax(name):
    ours, theirs = AGAINST_OPTAX[name]
    with jax.enable_x64(True):
        params, grads = params_and_grads()
        want = trajectory(theirs, params, grads)
        assert gap(trajectory(ours, params, grads, nn.apply_updates), want) < 1e-10
        assert gap(want[0], jax.tree.map(lambda p: np.stack([p] * STEPS), params)) > 1e-3  # it moved: the check can fail


def test_twenty_steps_in_tuples_and_lists_under_optax_apply_updates():
    with jax.enable_x64(True):
        params, grads = map(nest, params_and_grads())
        part = ({"a": True}, None, False)  # a prefix
        pair = nn.adamw(0.1, weight_decay=0.3, mask=part), optax.adamw(0.1, weight_decay=0.3, mask=part)
        assert gap(*(trajectory(optimiser, params, grads) for optimiser in pair)) < 1e-10


def test_the_check_sees_a_wrong_optimiser():
    """Planted: everything decays where only matrices should; eps inside the correction; no nesterov."""
    with jax.enable_x64(True):
        params, grads = two_leaves()
        right = trajectory(optax.adamw(1e-2, mask=nn.matrices), params, grads)
        assert gap(trajectory(nn.adamw(1e-2, mask=None), params, grads), right) > 1e-6
        assert gap(trajectory(nn.adamw(1e-2, eps=2e-8), params, grads), right) > 1e-10
        right = trajectory(optax.sgd(1e-2, 0.9, nesterov=True), params, grads)
        assert gap(trajectory(nn.sgd(1e-2, 0.9), params, grads), right) > 1e-3


def test_only_matrices_decay():
    params, _ = params_and_grads(dtype=np.float32)
    zero = jax.tree.map(jnp.zeros_like, params)
    optimiser = nn.adamw(0.5, weight_decay=0.1)
    updates, _ = optimiser.update(zero, optimiser.init(params), params)
    for name, p in params.items():
        np.testing.assert_allclose(updates[name], -0.05 * p if p.ndim >= 2 else np.zeros_like(p), rtol=1e-6)
    assert nn.matrices(params) == {"scale": False, "bias": False, "weight": True, "stack": True}


def test_zero_gradients_move_nothing():
    params, _ = two_leaves(dtype=np.float32)
    zero = jax.tree.map(lambda p: np.zeros((STEPS, *p.shape), np.float32), params)
    for optimiser in (nn.adamw(0.5, weight_decay=0.0), nn.sgd(0.5, 0.9, nesterov=True)):
        after, updates = trajectory(optimiser, params, zero)
        assert all(np.all(np.asarray(u) == 0) for u in jax.tree.leaves(updates))
        assert gap(jax.tree.map(lambda p: p[-1], after), params) == 0


def test_gradients_of_any_size():
    with jax.enable_x64(True):
        sizes = np.array([1e-30, 1e-12, 1e-8, 1.0, 1e8, 1e30])
        params, grads = {"w": normals(1, (6, 3))}, {"w": normals(2, (STEPS, 6, 3)) * sizes[:, None]}
        with np.errstate(all="ignore"):
            assert gap(*(trajectory(o, params, grads) for o in (nn.adamw(0.1), optax.adamw(0.1)))) < 1e-10
    optimiser = nn.adamw(0.1, weight_decay=0.0)
    grads = np.array([1e-25, 1e-10, 1e18, 1e25], np.float32)  # the squares of the first and the last leave float32
    updates, _ = optimiser.update(grads, optimiser.init(grads), grads)
    np.testing.assert_allclose(updates, [-1e-18, -0.1 / 101, -0.1, 0], rtol=1e-5)


def test_bfloat16_parameters_keep_float32_moments():
    params, grads = jax.tree.map(lambda x: jnp.asarray(x, jnp.bfloat16), two_leaves())
    wide = jax.tree.map(lambda x: x.astype(jnp.float32), grads)

    def rounded(params, updates):
        return jax.tree.map(lambda p, u: (p + u).astype(jnp.bfloat16).astype(jnp.float32), params, updates)

    after, _ = trajectory(nn.adamw(0.1), params, grads, nn.apply_updates)
    assert {x.dtype for x in jax.tree.leaves(after)} == {jnp.dtype(jnp.bfloat16)}
    theirs = optax.adamw(0.1, mask=nn.matrices)
    want, _ = trajectory(theirs, jax.tree.map(lambda p: p.astype(jnp.float32), params), wide, rounded)
    assert gap(after, want) < 1e-4  # float32 moments, parameters rounded once per step
    narrow, _ = trajectory(theirs, params, grads)
    assert gap(narrow, want) > 1e-3  # what bfloat16 moments would give


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64])
def test_state_is_an_accumulator_of_its_parameter(dtype):
    with jax.enable_x64(True):
        params = {"w": jnp.ones((2, 3), dtype)}
        for optimiser in (nn.adamw(0.1), nn.sgd(0.1, 0.9), nn.sgd(0.1), nn.clip_by_global_norm(1.0)):
            before = optimiser.init(params)
            updates, after = optimiser.update(params, before, params)
            kinds = [[(x.shape, x.dtype, x.weak_type) for x in jax.tree.leaves(s)] for s in (before, after)]
            assert kinds[0] == kinds[1] and jax.tree.structure(before) == jax.tree.structure(after)
            wide = jnp.float64 if dtype == jnp.float64 else jnp.float32
            assert updates["w"].dtype == (dtype if isinstance(before, nn.ClipState) else wide)
            assert nn.apply_updates(params, updates)["w"].dtype == dtype


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


def test_the_first_update_of_a_warmup_from_0_is_a_no_op():
    params, grads = two_leaves(dtype=np.float32)
    warmup = nn.warmup_constant_schedule(0.0, 0.1, 4)
    for optimiser in (nn.adamw(warmup), nn.sgd(warmup, 0.9)):
        after, _ = trajectory(optimiser, params, grads)
        for name, p in params.items():
            assert np.array_equal(after[name][0], p) and not np.array_equal(after[name][1], p)
        state = optimiser.init(params)
        _, state = optimiser.update(jax.tree.map(lambda g: g[0], grads), state, params)
        assert state.count == 1 and any(np.any(x) for x in jax.tree.leaves(state[1]))  # but it is counted, and moments began


def test_the_count_stays_at_the_largest_int32():
    params = {"w": jnp.ones((2, 3))}
    optimiser = nn.adamw(0.1)
    last = jnp.int32(2**31 - 1)
    updates, state = optimiser.update(params, optimiser.init(params)._replace(count=last), params)
    assert state.count == last and np.all(np.isfinite(updates["w"]))


def test_optax_wrappers_drive_ours():
    params, grads = two_leaves(dtype=np.float32)
    wrappers = {
        "accumulation": lambda make, **kw: optax.MultiSteps(make(0.1, **kw), every_k_schedule=4),
        "skip": lambda make, **kw: optax.apply_if_finite(make(0.1, **kw), max_consecutive_errors=3),
        "masked": lambda make, **kw: optax.masked(make(0.1, **kw), {"bias": True, "weight": False}),
        "injected": lambda make, **kw: optax.inject_hyperparams(make, static_args=("mask",))(learning_rate=0.1, b1=0.8, **kw),
    }
    for name, wrap in wrappers.items():
        ours, theirs = wrap(nn.adamw, mask=None), wrap(optax.adamw, mask=None)
        assert gap(trajectory(ours, params, grads), trajectory(theirs, params, grads)) < 1e-4, name


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


# Known faults and torch.


def run_one(optimiser, p: float, grads: list[float], dtype=jnp.float32) -> list[float]:
    """The one parameter after each step, eagerly."""
    params, values = jnp.asarray(p, dtype), []
    state = optimiser.init(params)
    for g in grads:
        updates, state = optimiser.update(jnp.asarray(g, dtype), state, params)
        params = nn.apply_updates(params, updates)
        values.append(float(params))
    return values


@pytest.mark.parametrize("op", ["adam", "adamw"])
def test_known_faults(known_faults, op):
    for case in known_faults(op):
        a = case["attrs"]
        optimiser = nn.adamw(a["lr"], a["beta1"], a["beta2"], a["eps"], a.get("weight_decay", 0.0), mask=None)
        values = run_one(optimiser, case["inputs"]["p"], case["inputs"]["grads"])
        np.testing.assert_allclose(values, case["expect_out"], **case["tolerance"], err_msg=case["id"])


TORCH = {
    "AdamW": (
        lambda torch, p: torch.optim.AdamW(p, lr=0.03, betas=(0.8, 0.98), eps=1e-6, weight_decay=0.2),
        nn.adamw(0.03, 0.8, 0.98, 1e-6, 0.2, mask=None),
    ),
    "AdamW, no decay": (lambda torch, p: torch.optim.AdamW(p, lr=0.03, weight_decay=0.0), nn.adamw(0.03, weight_decay=0.0)),
    "SGD": (lambda torch, p: torch.optim.SGD(p, lr=0.03), nn.sgd(0.03)),
    "SGD, momentum": (lambda torch, p: torch.optim.SGD(p, lr=0.03, momentum=0.9), nn.sgd(0.03, 0.9)),
    "SGD, nesterov": (lambda torch, p: torch.optim.SGD(p, lr=0.03, momentum=0.9, nesterov=True), nn.sgd(0.03, 0.9, nesterov=True)),
}


@pytest.mark.parametrize("name", TORCH)
def test_twenty_steps_equal_torch(name):
    torch = pytest.importorskip("torch", reason="torch is not installed: our optimisers are not compared with its own")
    make, ours = TORCH[name]
    params, grads = params_and_grads()
    leaves = {name: torch.tensor(p, requires_grad=True) for name, p in params.items()}
    theirs, want = make(torch, list(leaves.values())), []
    for t in range(STEPS):
        for name, leaf in leaves.items():
            leaf.grad = torch.tensor(grads[name][t])
        theirs.step()
        want.append({name: leaf.detach().numpy().copy() for name, leaf in leaves.items()})
    with jax.enable_x64(True):
        got, _ = trajectory(ours, params, grads)
        assert gap(got, jax.tree.map(lambda *p: np.stack(p), *want)) < 1e-10


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
    for sgd in (nn.sgd(0.1), nn.sgd(0.1, 0.9)):
        with pytest.raises(wrong, match=r"gradients: leaf \['b'\]"):
            sgd.update({"w": params["w"]}, sgd.init(params), params)
    with pytest.raises(wrong, match="chain of 2 was given 1 states"):
        nn.chain(optimiser, optimiser).update(params, (state,), params)


def test_empty_trees():
    for optimiser in (nn.adamw(0.1), nn.sgd(0.1, 0.9), nn.clip_by_global_norm(1.0), nn.chain()):
        assert optimiser.update({}, optimiser.init({}), {})[0] == {}
    params = {"w": jnp.ones((0, 3))}
    optimiser = nn.adamw(0.1)
    assert optimiser.update(params, optimiser.init(params), params)[0]["w"].shape == (0, 3)
