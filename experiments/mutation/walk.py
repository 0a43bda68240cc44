"""Judging a mutant of the walk."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...autograd import graph
from ...autograd.walk import walk
from .graphs import GRAPHS
from .operators import Mutant, mutants
from .sources import family, rebuilt, source_of


@contextlib.contextmanager
def unexplored() -> Iterator[None]:
    """As in a process that has made no `pb.tensor`, after which every fused op keeps its operands."""
    before, graph.explored = graph.explored, False
    try:
        yield
    finally:
        graph.explored = before


class WalkJudge:
    """The walk and what it calls in its file, against the table of graphs."""

    def __init__(self):
        self.members = family(walk)

    def mutants(self) -> list[tuple[int, Mutant]]:
        return [(i, mutant) for i, member in enumerate(self.members) for mutant in mutants(source_of(member))]

    def build(self, which: int, source: str) -> Any:
        return rebuilt(walk, self.members, self.members[which], source)

    def killed_by(self, mutated: Any, share: slice = slice(None)) -> str | None:
        """The first graph whose gradients, or whose errors, are not what they should be. share: of the table."""
        with jax.enable_x64(True), unexplored():
            for case in GRAPHS[share]:
                try:
                    came, due = case(mutated, jnp.asarray(0.7))
                    right = same(came, due)
                except Exception:  # a mutant may raise anything
                    right = False
                if not right:
                    return case.__name__
        return None

    def outputs(self, mutated: Any, count: int) -> list:
        """What the graphs of plain derivatives give at many random points."""
        found, xs = [], jnp.asarray(np.random.default_rng(0).normal(size=count))
        for case in GRAPHS[:6]:
            found += jax.tree.leaves(jax.vmap(lambda x, case=case: [b for b in case(mutated, x)[0] if not isinstance(b, str)])(xs))
        return list(map(np.asarray, found))


def same(came: Any, due: Any) -> bool:
    """Equal structures with numbers within 1e-12 of each other."""
    if isinstance(due, (list, tuple)):
        return isinstance(came, (list, tuple)) and len(came) == len(due) and all(map(same, came, due))
    if isinstance(due, dict):
        return isinstance(came, dict) and came.keys() == due.keys() and all(same(came[key], due[key]) for key in due)
    if due is None or isinstance(due, str):
        return came is due or isinstance(came, str) and came == due
    if came is None or isinstance(came, str):
        return False
    came, due = np.asarray(came), np.asarray(due)
    return came.shape == due.shape and bool(np.allclose(came, due, rtol=1e-12, atol=0))
