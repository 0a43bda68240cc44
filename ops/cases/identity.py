"""Cases of `ops/identity.py`."""

import numpy as np

from ..face import astype
from ..identity import barrier, cast, discrete, stop_gradient, tap
from .case import Case, Edge, normal, values

CASES = [
    Case(cast, "wider", lambda rng: (rng.normal(size=(2, 3)),), {"dtype": "float64"}),
    Case(cast, "integers", lambda rng: (rng.integers(0, 5, size=3),), {"dtype": "float64"}),
    Case(cast, "empty", normal((0,)), {"dtype": "float64"}),
    Case(barrier, "matrix", normal((2, 3))),
    Case(barrier, "scalar", normal(())),
    Case(tap, "matrix", normal((2, 3)), {"name": "here"}),
    Case(tap, "scalar", normal(()), {"name": "here"}),
]

FACE_CASES = [Case(astype, "a float dtype", normal((2, 3)), {"dtype": "float64"})]

EDGES = [
    Edge(cast, "the cotangent comes back in the operand's dtype", (np.array([1.0, 2.0], np.float32),),
         np.array([0.5, 3.0], np.float16), (np.array([0.5, 3.0], np.float32),), np.array([1.0, 2.0], np.float16), {"dtype": "float16"}),
    values(stop_gradient, "its operand", ([1.0, -2.0],), [1.0, -2.0]),
    values(discrete, "rounded towards zero", ([1.7, -1.7],), np.array([1, -1], np.int32), dtype="int32"),
]  # fmt: skip
