"""Adam and AdamW against optax, torch, known faults and their own promises."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pullback import nn


def ramp(count):
    return 0.1 / (count + 1)


SOME = {"scale": True, "bias": False, "weight": False, "stack": True}
EVERY_RANK = tuple(SOME)

AGAINST_OPTAX = {
    "adam default": (nn.adam(1e-2), optax.adam(1e-2)),
    "adam numbers": (nn.adam(0.3, 0.5, 0.99, 1e-3, 1e-2), optax.adam(0.3, 0.5, 0.99, 1e-3, 1e-2)),
    "adam nesterov": (nn.adam(ramp, 0.8, 0.9, nesterov=True), optax.adam(ramp, 0.8, 0.9, nesterov=True)),
    "adamw default": (nn.adamw(1e-2), optax.adamw(1e-2, mask=nn.matrices), EVERY_RANK),
    "adamw everything decays": (nn.adamw(1e-2, weight_decay=0.3, mask=None), optax.adamw(1e-2, weight_decay=0.3)),
    "adamw mask of bools": (nn.adamw(1e-2, weight_decay=0.3, mask=SOME), optax.adamw(1e-2, weight_decay=0.3, mask=SOME), EVERY_RANK),
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
    "adamw arrays": (nn.adamw(np.array(1e-2), b2=np.array(0.9)), optax.adamw(1e-2, b2=0.9, mask=nn.matrices)),
    "adamw root, nesterov": (
        nn.adamw(1e-2, eps_root=0.1, nesterov=True, mask=None),
        optax.adamw(1e-2, eps_root=0.1, nesterov=True),
    ),
}


@pytest.mark.parametrize("name", AGAINST_OPTAX)
def test_twenty_steps_equal_optax(name, equals_optax):
    equals_optax(*AGAINST_OPTAX[name])


AGAINST_TORCH = {
    "Adam": (nn.adam(0.03, 0.8, 0.98, 1e-6), lambda torch, p: torch.optim.Adam(p, lr=0.03, betas=(0.8, 0.98), eps=1e-6)),
    "AdamW": (
        nn.adamw(0.03, 0.8, 0.98, 1e-6, 0.2, mask=None),
        lambda torch, p: torch.optim.AdamW(p, lr=0.03, betas=(0.8, 0.98), eps=1e-6, weight_decay=0.2),
    ),
}


@pytest.mark.parametrize("name", AGAINST_TORCH)
def test_twenty_steps_equal_torch(name, equals_torch):
    equals_torch(*AGAINST_TORCH[name])


def test_only_matrices_decay(twenty):
    params, _ = twenty.params_and_grads(np.float32)
    zero = jax.tree.map(jnp.zeros_like, params)
    optimiser = nn.adamw(0.5, weight_decay=0.1)
    updates, _ = optimiser.update(zero, optimiser.init(params), params)
    for name, p in params.items():
        np.testing.assert_allclose(updates[name], -0.05 * p if p.ndim >= 2 else np.zeros_like(p), rtol=1e-6)
    assert nn.matrices(params) == {"scale": False, "bias": False, "weight": True, "stack": True}


def test_gradients_of_any_size(twenty):
    with jax.enable_x64(True):
        sizes = np.array([1e-30, 1e-12, 1e-8, 1.0, 1e8, 1e30])
        params, grads = {"w": twenty.normals(1, (6, 3))}, {"w": twenty.normals(2, (twenty.steps, 6, 3)) * sizes[:, None]}
        with np.errstate(all="ignore"):
            assert twenty.gap(*(twenty.trajectory(o, params, grads) for o in (nn.adamw(0.1), optax.adamw(0.1)))) < 1e-10
    optimiser = nn.adamw(0.1, weight_decay=0.0)
    grads = np.array([1e-25, 1e-10, 1e18, 1e25], np.float32)  # the squares of the first and the last leave float32
    updates, _ = optimiser.update(grads, optimiser.init(grads), grads)
    np.testing.assert_allclose(updates, [-1e-18, -0.1 / 101, -0.1, 0], rtol=1e-5)


def test_bfloat16_parameters_keep_float32_moments(twenty):
    params, grads = jax.tree.map(lambda x: jnp.asarray(x, jnp.bfloat16), twenty.params_and_grads(names=("bias", "weight")))
    wide = jax.tree.map(lambda x: x.astype(jnp.float32), grads)

    def rounded(params, updates):
        return jax.tree.map(lambda p, u: (p + u).astype(jnp.bfloat16).astype(jnp.float32), params, updates)

    after, _ = twenty.trajectory(nn.adamw(0.1), params, grads, nn.apply_updates)
    assert {x.dtype for x in jax.tree.leaves(after)} == {jnp.dtype(jnp.bfloat16)}
    theirs = optax.adamw(0.1, mask=nn.matrices)
    want, _ = twenty.trajectory(theirs, jax.tree.map(lambda p: p.astype(jnp.float32), params), wide, rounded)
    assert twenty.gap(after, want) < 1e-4  # float32 moments, parameters rounded once per step
    narrow, _ = twenty.trajectory(theirs, params, grads)
    assert twenty.gap(narrow, want) > 1e-3  # what bfloat16 moments would give


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
        rates = a["lr"], a["beta1"], a["beta2"], a["eps"]
        optimiser = nn.adam(*rates) if op == "adam" else nn.adamw(*rates, a["weight_decay"], mask=None)
        values = run_one(optimiser, case["inputs"]["p"], case["inputs"]["grads"])
        np.testing.assert_allclose(values, case["expect_out"], **case["tolerance"], err_msg=case["id"])
