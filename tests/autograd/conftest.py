"""What the tests of the engine share: float64, a registry to define ops in, and the comparison of two trees."""

import functools

import jax
import numpy as np
import pytest

from pullback.autograd import graph
from pullback.autograd.differences import FAST


def gap(ours, theirs) -> float:
    """The worst ‖a − b‖/‖b‖ over the arrays of two trees of one structure."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    worst = 0.0
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs)):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype, f"{a.dtype}{a.shape} against {b.dtype}{b.shape}"
        assert np.isfinite(b).all()
        worst = max(worst, float(np.linalg.norm(np.ravel(a - b)) / (np.linalg.norm(np.ravel(b)) or 1.0)))
    return worst


@pytest.fixture(name="gap", scope="session")
def gap_fixture():
    return gap


@pytest.fixture(scope="session")
def jit():
    """jax.jit without XLA's late optimisations, which cost more in a test than they save."""
    return functools.partial(jax.jit, compiler_options=FAST)


@pytest.fixture
def unexplored(monkeypatch):
    """As in a process that has made no `pb.tensor`."""
    monkeypatch.setattr(graph, "explored", False)
