"""What tests of the floor `nn` share: cases of known faults, and twenty steps of an optimiser held against another's."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pullback import nn


@pytest.fixture(scope="session")
def known_faults():
    """`known_faults("adamw")`: cases of one op from public reports of other frameworks' faults, in the folder `PULLBACK_CASES`."""
    folder = os.environ.get("PULLBACK_CASES")
    if not folder:
        pytest.skip("needs the cases of known faults: set PULLBACK_CASES to the folder that holds known_faults.json")
    cases = json.loads((Path(folder) / "known_faults.json").read_text())

    def of(op: str) -> list[dict]:
        found = [case for case in cases if case["op"] == op]
        assert found, f"no case of {op!r} in {folder}"
        return found

    return of


STEPS = 20
SHAPES = {"scale": (), "bias": (5,), "weight": (4, 5), "stack": (2, 3, 4)}


def normals(seed: int, shape: tuple[int, ...], dtype: type = np.float64) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def params_and_grads(dtype: type = np.float64, names=tuple(SHAPES)) -> tuple[dict, dict]:
    """Leaves of ranks 0 to 3, and for each a gradient per step, of sizes from 1e-3 to 1e3."""
    sizes = 10.0 ** np.random.default_rng(9).uniform(-3, 3, STEPS)
    params, grads = {}, {}
    for i, (name, shape) in enumerate(SHAPES.items()):
        if name in names:
            params[name] = normals(i, shape, dtype)
            grads[name] = np.stack([size * normals(100 * i + t, shape) for t, size in enumerate(sizes)]).astype(dtype)
    return params, grads


def trajectory(optimiser, params, grads, apply: Callable = optax.apply_updates):
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


@pytest.fixture(scope="session")
def twenty():
    """The functions above: params_and_grads, trajectory, gap."""
    return SimpleNamespace(normals=normals, params_and_grads=params_and_grads, trajectory=trajectory, gap=gap, steps=STEPS)


@pytest.fixture(scope="session")
def equals_optax():
    """`equals_optax(ours, theirs)`: twenty steps in float64, parameters and updates."""

    def equals(ours, theirs, names=("bias", "weight")) -> None:
        with jax.enable_x64(True):
            params, grads = params_and_grads(names=names)
            want = trajectory(theirs, params, grads)
            assert gap(trajectory(ours, params, grads, nn.apply_updates), want) < 1e-10
            assert gap(want[0], jax.tree.map(lambda p: np.stack([p] * STEPS), params)) > 1e-3  # it moved: the check can fail

    return equals


@pytest.fixture(scope="session")
def equals_torch():
    """`equals_torch(ours, lambda torch, leaves: torch.optim.SGD(leaves, ...))`: twenty steps in float64."""

    def equals(ours, make, after_step: Callable = lambda optimiser: None) -> None:
        torch = pytest.importorskip("torch", reason="torch is not installed: our optimisers are not compared with its own")
        params, grads = params_and_grads()
        leaves = {name: torch.tensor(p, requires_grad=True) for name, p in params.items()}
        theirs, want = make(torch, list(leaves.values())), []
        for t in range(STEPS):
            for name, leaf in leaves.items():
                leaf.grad = torch.tensor(grads[name][t])
            theirs.step()
            after_step(theirs)
            want.append({name: leaf.detach().numpy().copy() for name, leaf in leaves.items()})
        with jax.enable_x64(True):
            got, _ = trajectory(ours, params, grads)
            assert gap(got, jax.tree.map(lambda *p: np.stack(p), *want)) < 1e-10

    return equals


COUNTS = np.arange(45)


@pytest.fixture(scope="session")
def schedule_equals_optax():
    """`schedule_equals_optax(name, args, kwargs)`: the same call on both sides, at 45 steps, as it may be counted."""

    def equals(name: str, args: tuple, kwargs: dict) -> None:
        ours, theirs = getattr(nn, name)(*args, **kwargs), getattr(optax, name)(*args, **kwargs)
        with jax.enable_x64(True):
            traced = jax.jit(lambda counts: (jax.vmap(ours)(counts), jax.vmap(theirs)(counts)))
            for kind in (np.int64, np.int32):  # a line over an int32 step is a float32, there and here
                np.testing.assert_allclose(*traced(COUNTS.astype(kind)), rtol=1e-12, atol=1e-14)
            for count in (0, 1, 7, 19, 44):  # a Python int
                np.testing.assert_allclose(ours(count), theirs(count), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(ours(jnp.int32(8)), theirs(8), rtol=1e-6)  # float32

    return equals
