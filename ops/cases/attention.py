"""Cases of `ops/attention.py`."""

import numpy as np

from ..attention import attention
from .case import Case, Edge


def qkv(t: int, s: int | None = None, b: int = 2, h: int = 2, k: int = 3, j: int | None = None, mask: tuple[int, ...] | None = None):
    """q (b, t, h, k), k (b, s, h, k), v (b, s, h, j); with a shape for it, a mask that lets each query see its first key."""

    def make(rng: np.random.Generator) -> tuple:
        keys = s or t
        operands = rng.normal(size=(b, t, h, k)), rng.normal(size=(b, keys, h, k)), rng.normal(size=(b, keys, h, j or k))
        if mask is None:
            return operands
        seen = rng.random(mask) < 0.6
        seen[..., 0] = True
        return *operands, seen

    return make


CASES = [
    Case(attention, "full", qkv(4)),
    Case(attention, "causal", qkv(5), {"causal": True}),
    Case(attention, "causal, blocks that do not divide", qkv(7), {"causal": True, "block": 3}),
    Case(attention, "full, blocks that do not divide", qkv(5, 7), {"block": 2}),
    Case(attention, "after cached keys", qkv(3, 7), {"causal": True, "query_offset": 4, "block": 2}),
    Case(attention, "more keys than are due", qkv(3, 7), {"causal": True, "query_offset": 1, "block": 2}),
    Case(attention, "queries before any key", qkv(5, 3), {"causal": True, "query_offset": -2, "block": 2}),
    Case(attention, "mask for all heads", qkv(4, 5, mask=(2, 1, 4, 5))),
    Case(attention, "mask of keys", qkv(4, 5, mask=(2, 1, 1, 5)), {"block": 3}),
    Case(attention, "mask of two axes, causal", qkv(5, mask=(5, 5)), {"causal": True, "block": 2}),
    Case(attention, "wide values, own scale", qkv(4, 5, j=4), {"scale": 0.3}),
    Case(attention, "one query", qkv(1, 6, b=1), {"causal": True, "query_offset": 5}),
    Case(attention, "no examples", qkv(3, b=0), {"causal": True}),
    Case(attention, "no queries", qkv(0, 3), {"causal": True}),
    Case(attention, "no keys", lambda rng: (rng.normal(size=(1, 2, 1, 3)), np.zeros((1, 0, 1, 3)), np.zeros((1, 0, 1, 3)))),
]

ROOT = 0.7071067811865475
K3 = [[1.0, 2.0], [3.0, -1.0], [0.0, 1.0]]
V3 = [[1.0, 0.0], [0.0, 2.0], [5.0, 5.0]]


def single(rows) -> np.ndarray:
    """(time, width) of one example and one head."""
    return np.asarray(rows)[None, :, None, :]


EDGES = [
    Edge(attention, "a query that sees nothing", (single([[1.0, 0.0], [0.0, 1.0]]), single(K3), single(V3),
         [[False, False, False], [True, True, False]]), single([[1.0, 2.0], [3.0, 4.0]]),
         (single([[0.0, 0.0], [0.6758799147977956, -1.013819872196694]]),
          single([[0.0, -0.33793995739889804], [0.0, 0.33793995739889787], [0.0, 0.0]]),
          single([[2.678874595604489, 3.5718327941393184], [0.3211254043955113, 0.42816720586068174], [0.0, 0.0]]), None),
         single([[0.0, 0.0], [0.8929581985348296, 0.21408360293034087]]), {"scale": ROOT}),
    Edge(attention, "a query that sees one key", (single([[1.0, 0.0], [0.0, 1.0]]), single(K3), single(V3),
         [[True, False, False], [True, True, True]]), single([[1.0, 2.0], [3.0, 4.0]]),
         (single([[0.0, 0.0], [-5.263935775620263, -3.9097133395690875]]),
          single([[0.0, -4.451402313989558], [0.0, -0.27084448721023496], [0.0, 4.722246801199793]]),
          single([[2.8599553541350184, 4.479940472180024], [0.22295889334805835, 0.2972785244640778],
                  [0.9170857525169234, 1.222781003355898]]), None),
         single([[1.0, 0.0], [2.1484613722398787, 1.6771155164269114]]), {"scale": ROOT}),
    Edge(attention, "one new query sees all cached keys", (single([[1.0, 0.0]]), single(K3), single(V3)), single([[0.0, 0.0]]),
         (None, None, None), single([[0.6181138486051369, 1.9071059068713103]]), {"scale": ROOT, "causal": True, "query_offset": 2}),
    Edge(attention, "two new queries after one cached key", (single([[1.0, 0.0], [0.0, 1.0]]), single(K3), single(V3)),
         single([[0.0, 0.0], [0.0, 0.0]]), (None, None, None),
         single([[0.19557031749304313, 1.6088593650139138], [2.1484613722398787, 1.6771155164269114]]),
         {"scale": ROOT, "causal": True, "query_offset": 1}),
]  # fmt: skip
