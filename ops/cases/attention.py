"""Cases of `ops/attention.py`."""

import numpy as np

from ..attention import attention
from .case import Case, Edge


def qkv(
    t: int, s: int | None = None, b: int = 2, h: int = 2, k: int = 3, j: int | None = None, g: int | None = None, mask: tuple | None = None
):
    """q (b, t, h, k), k (b, s, g or h, k), v (b, s, g or h, j); with a shape for it, a mask that lets each query see its first key."""

    def make(rng: np.random.Generator) -> tuple:
        keys, heads = s or t, g or h
        operands = rng.normal(size=(b, t, h, k)), rng.normal(size=(b, keys, heads, k)), rng.normal(size=(b, keys, heads, j or k))
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
    Case(attention, "grouped queries", qkv(3, 4, b=1, h=4, g=2)),
    Case(attention, "one head of keys for all, causal, blocks", qkv(5, h=3, g=1, k=1), {"causal": True, "block": 2}),
    Case(attention, "grouped queries, a mask for each head", qkv(3, 4, b=1, h=4, g=2, k=2, mask=(1, 4, 3, 4))),
    Case(attention, "grouped queries, a mask for all heads", qkv(3, 4, h=4, g=2, k=2, mask=(2, 1, 3, 4)), {"block": 2}),
    Case(attention, "window", qkv(6, b=1), {"causal": True, "window": 2}),
    Case(attention, "window, blocks", qkv(7, b=1), {"causal": True, "window": 3, "block": 2}),
    Case(attention, "window of one key", qkv(4, b=1), {"causal": True, "window": 1, "block": 3}),
    Case(attention, "window after cached keys", qkv(3, 7, b=1), {"causal": True, "query_offset": 4, "window": 3, "block": 2}),
    Case(attention, "window before any key", qkv(5, 3, b=1), {"causal": True, "query_offset": -2, "window": 2, "block": 2}),
    Case(attention, "window beyond the keys", qkv(6, 3, b=1), {"causal": True, "window": 2, "block": 2}),
    Case(attention, "window, grouped queries, mask", qkv(5, b=1, h=4, g=2, k=2, mask=(5, 5)), {"causal": True, "window": 3, "block": 2}),
    Case(attention, "no examples", qkv(3, b=0), {"causal": True}),
    Case(attention, "no queries", qkv(0, 3), {"causal": True}),
    Case(attention, "no keys", lambda rng: (rng.normal(size=(1, 2, 1, 3)), np.zeros((1, 0, 1, 3)), np.zeros((1, 0, 1, 3)))),
]

ROOT = 0.7071067811865475
K3 = [[1.0, 2.0], [3.0, -1.0], [0.0, 1.0]]
V3 = np.array([[1.0, 0.0], [0.0, 2.0], [5.0, 5.0]])
Q4, K2 = np.ones((1, 1, 4, 1)), np.ones((1, 1, 2, 1))  # four heads of queries, two of keys


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
    Edge(attention, "a window of one key is that key", (single(K3), single(K3), single(V3)), single(V3 + 1),
         (single(0 * V3), single(0 * V3), single(V3 + 1)), single(V3), {"causal": True, "window": 1, "block": 2}),
    Edge(attention, "heads 0 and 1 read the first of two, 2 and 3 the second", (Q4, K2, [[[[5.0], [7.0]]]]),
         [[[[1.0], [2.0], [4.0], [8.0]]]], (0 * Q4, 0 * K2, [[[[3.0], [12.0]]]]), [[[[5.0], [5.0], [7.0], [7.0]]]]),
    Edge(attention, "an infinite cotangent of a query that sees nothing", (single([[1.0, 0.0], [0.0, 1.0]]), single(K3),
         single(V3), [[False, False, False], [True, False, False]]), single([[np.inf, 2.0], [3.0, 4.0]]),
         (single([[0.0, 0.0], [0.0, 0.0]]), single(0 * V3), None, None), single([[0.0, 0.0], [1.0, 0.0]])),
    Edge(attention, "float16 products that overflow", (*(np.full((1, 1, 1, 1), n, np.float16) for n in (1, 1, 300)),), [[[[300.0]]]],
         ([[[[0.0]]]], [[[[0.0]]]], [[[[300.0]]]]), [[[[300.0]]]]),
]  # fmt: skip
