"""Cases of `ops/cumulative.py`."""

import numpy as np

from ..cumulative import cumprod, cumsum, linear_recurrence
from .case import Case, Edge, normal

INF = np.inf

WAYS = {  # label: (shape, statics)
    "vector": ((5,), {"axis": 0}),
    "rows": ((3, 4), {"axis": -1}),
    "first axis": ((4, 3), {"axis": 0}),
    "middle axis": ((2, 3, 2), {"axis": 1}),
    "middle axis, reverse": ((2, 3, 2), {"axis": 1, "reverse": True}),
    "reverse": ((5,), {"axis": 0, "reverse": True}),
    "size one": ((2, 1), {"axis": 1}),
    "empty": ((2, 0), {"axis": 1}),
    "no rows": ((0, 3), {"axis": 1}),
}

FLAT = {  # as one axis
    "flattened": ((2, 3), {}),
    "flattened, reverse": ((2, 3), {"reverse": True}),
    "scalar": ((), {}),
}


def with_zeros(rng, shape):
    """Values of either sign, every third of them 0."""
    x = rng.normal(size=shape)
    x.flat[1::3] = 0.0
    return x


CASES = [
    *[Case(op, label, normal(shape), statics) for op in (cumsum, cumprod) for label, (shape, statics) in {**WAYS, **FLAT}.items()],
    *[Case(linear_recurrence, label, normal(shape, shape), statics) for label, (shape, statics) in WAYS.items()],
    Case(linear_recurrence, "last axis", normal((2, 3), (2, 3))),
    Case(cumprod, "zeros", lambda rng: (with_zeros(rng, (2, 6)),), {"axis": 1}),
    Case(cumprod, "zeros, reverse", lambda rng: (with_zeros(rng, (6,)),), {"axis": 0, "reverse": True}),
    Case(linear_recurrence, "zeros", lambda rng: (with_zeros(rng, (6,)), rng.normal(size=6))),
]

HALF = np.float16

EDGES = [
    Edge(cumsum, "float16 sums in float32", (np.ones(4096, HALF),), np.eye(1, 4096, 4095, dtype=HALF)[0], (np.ones(4096, HALF),),
         np.minimum(np.arange(1, 4097), 4096).astype(HALF), {"axis": 0}),
    Edge(cumprod, "one zero", ([2.0, 0.0, 3.0, 5.0],), [1.0, 10.0, 100.0, 1000.0], ([1.0, 30620.0, 0.0, 0.0],),
         [2.0, 0.0, 0.0, 0.0], {"axis": 0}),
    Edge(cumprod, "two zeros", ([0.0, 2.0, 0.0, 3.0],), [1.0, 10.0, 100.0, 1000.0], ([21.0, 0.0, 0.0, 0.0],),
         [0.0, 0.0, 0.0, 0.0], {"axis": 0}),
    Edge(cumprod, "a large x behind a zero", ([0.0, 1e150, 1e150],), [1.0, 0.0, 0.0], ([1.0, 0.0, 0.0],), [0.0, 0.0, 0.0], {"axis": 0}),
    Edge(linear_recurrence, "the first a is not read", ([INF, 2.0], [3.0, 1.0]), [1.0, 10.0],
         ([0.0, 30.0], [21.0, 10.0]), [3.0, 7.0]),
    Edge(linear_recurrence, "nor the last one, in reverse", ([2.0, INF], [1.0, 3.0]), [10.0, 1.0],
         ([30.0, 0.0], [10.0, 21.0]), [7.0, 3.0], {"reverse": True}),
    Edge(linear_recurrence, "large factors of zeros", ([1e150, 1e150, 1e150], [0.0, 0.0, 1.0]), [0.0, 0.0, 2.0],
         ([0.0, 0.0, 0.0], [2e300, 2e150, 2.0]), [0.0, 0.0, 1.0]),
]  # fmt: skip
