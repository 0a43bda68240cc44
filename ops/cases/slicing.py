"""Cases of `ops/slicing.py`."""

from ..slicing import slice as cut
from ..slicing import slice_transpose
from .case import Case, normal

ALL = (None, None, None)

KEYS = {  # label: (shape of the whole, key, shape of the part)
    "middle": ((5, 3), ((1, 4, None),), (3, 3)),
    "steps": ((7, 2), ((1, None, 2), ALL), (3, 2)),
    "backwards": ((5, 2), ((None, None, -1),), (5, 2)),
    "backwards in steps": ((2, 7), (ALL, (5, 0, -2)), (2, 3)),
    "negative bounds": ((6,), ((-4, -1, None),), (3,)),
    "past the end": ((4,), ((2, 99, None),), (2,)),
    "new axes": ((3, 2), (None, (0, 2, None), None, ALL), (1, 2, 1, 2)),
    "nothing": ((4, 2), ((3, 1, None),), (0, 2)),
    "of nothing": ((0, 2), ((None, None, -1),), (0, 2)),
    "scalar": ((), (None,), (1,)),
}

CASES = [
    *[Case(cut, label, normal(whole), {"key": key}) for label, (whole, key, _) in KEYS.items()],
    *[Case(slice_transpose, label, normal(part), {"key": key, "shape": whole}) for label, (whole, key, part) in KEYS.items()],
]

EDGES = []
