"""Cases of `ops/powers.py`."""

from ..powers import pow, reciprocal, square
from .arithmetic import apart, gaussian, positive
from .case import Case, normal

CASES: list = []
EDGES: list = []

FACE_CASES = [
    Case(pow, "a number", lambda rng: (apart(rng, (2, 3)),), {"y": 3}),
    Case(pow, "a negative float", lambda rng: (positive(rng, 3),), {"y": -1.5}),
    Case(pow, "two arrays", lambda rng: (positive(rng, (2, 1)), gaussian(rng, 3))),
    Case(square, "matrix", normal((2, 3))),
    Case(square, "scalar", normal(())),
    Case(reciprocal, "matrix", lambda rng: (apart(rng, (2, 3)),)),
    Case(reciprocal, "scalar", lambda rng: (apart(rng, ()),)),
]
