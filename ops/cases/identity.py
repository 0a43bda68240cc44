"""Cases of `ops/identity.py`."""

import numpy as np

from ..identity import barrier, cast
from .case import Case, Edge, normal

CASES = [
    Case(cast, "wider", lambda rng: (rng.normal(size=(2, 3)),), {"dtype": "float64"}),
    Case(cast, "integers", lambda rng: (rng.integers(0, 5, size=3),), {"dtype": "float64"}),
    Case(cast, "empty", normal((0,)), {"dtype": "float64"}),
    Case(barrier, "matrix", normal((2, 3))),
    Case(barrier, "scalar", normal(())),
]

EDGES = [
    Edge(cast, "the cotangent comes back in the operand's dtype", (np.array([1.0, 2.0], np.float32),),
         np.array([0.5, 3.0], np.float16), (np.array([0.5, 3.0], np.float32),), np.array([1.0, 2.0], np.float16), {"dtype": "float16"}),
]  # fmt: skip
