"""The committed trajectories, and the judge of optimisers that reads them."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from pullback import nn
from pullback.experiments.mutation import trajectories
from pullback.experiments.mutation.optimisers import OPTIMISERS, OptimiserJudge
from pullback.experiments.mutation.sources import source_of


def test_the_file_is_what_the_script_gives():
    with np.errstate(over="ignore", invalid="ignore"):
        due = trajectories.table()
    came = json.loads(trajectories.FILE.read_text())
    assert came.keys() == due.keys() and came["params"] == due["params"] and came["gradients"] == due["gradients"]
    assert len(came["trajectories"]) == len(due["trajectories"])
    for a, b in zip(came["trajectories"], due["trajectories"]):
        about = lambda case: {name: value for name, value in case.items() if name not in ("params", "state")}
        assert about(a) == about(b)
        for rows, wanted in ((a["params"], b["params"]), *((a["state"][name], b["state"][name]) for name in b["state"])):
            np.testing.assert_allclose(np.array(rows, float), np.array(wanted, float), rtol=1e-13)  # roots and powers may differ by a bit


def test_the_file_is_shipped():
    root = Path(__file__).resolve().parents[2]
    listed = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert listed["pullback.experiments.mutation"] == [trajectories.FILE.name]


@pytest.mark.parametrize("name", OPTIMISERS)
def test_our_optimisers_walk_the_trajectories(name):
    judge = OptimiserJudge(name)
    assert judge.cases and judge.killed_by(OPTIMISERS[name]) is None
    assert judge.killed_by(judge.build(0, source_of(judge.members[0]))) is None  # as it is built again from its source


def planted(name: str, right: str, wrong: str) -> str | None:
    """What the judge says of an optimiser with a mistake in the source of one of its members."""
    judge = OptimiserJudge(name)
    for which, member in enumerate(judge.members):
        source = source_of(member)
        if right in source:
            return judge.killed_by(judge.build(which, source.replace(right, wrong, 1)))
    raise AssertionError(f"{right!r} is nowhere in {name}")


@pytest.mark.parametrize(
    "name, right, wrong",
    [
        ("adam", "jnp.sqrt(rho * v + eps_root) + eps", "jnp.sqrt(rho * v + eps_root + eps)"),
        ("adamw", "step + jnp.asarray(rate", "step - jnp.asarray(rate"),
        ("lion", "b2 * m + (1 - b2) * g", "b1 * m + (1 - b1) * g"),
        ("sgd", "step + jnp.asarray(momentum", "step * jnp.asarray(momentum"),
        ("rmsprop", "jnp.maximum(spread - (m / gathered) ** 2, 0)", "spread - (m / gathered) ** 2"),
        ("adagrad", "s + g * g", "s + g"),
        ("ema", "e / gathered", "e"),
        ("clip_by_global_norm", "jnp.where(jnp.isfinite(size), jnp.minimum(1.0, limit / size), jnp.nan)", "jnp.minimum(1.0, limit / size)"),
        ("sgd", "jnp.iinfo(jnp.int32).max - 1", "jnp.iinfo(jnp.int32).max"),
    ],
)
def test_a_planted_mistake_is_killed(name, right, wrong):
    assert planted(name, right, wrong) is not None


def test_only_the_update_and_what_it_calls_is_mutated():
    judge = OptimiserJudge("adamw")
    assert [m.__name__ for m in judge.members][:1] == ["adamw"]
    assert {"moved", "correction", "increment", "decayed", "chosen"} <= {m.__name__ for m in judge.members}
    found = judge.mutants()
    assert len({(which, mutant.source) for which, mutant in found}) == len(found) > 100
    head = source_of(nn.adamw).split("def update")[0]
    assert all(mutant.source.startswith(head) for which, mutant in found if which == 0)
