"""Cases of `ops/layout.py`, and of the faces of `ops/face.py` that lay values out."""

import numpy as np

from .. import face
from ..layout import flip, pad, roll, tril, triu
from .case import Case, Edge, normal

INF = np.inf


def case(op, label, shape, /, **statics):
    return Case(op, label, normal(shape), statics)


CASES = [
    case(flip, "all axes", (2, 3)),
    case(flip, "one axis", (2, 3), axis=0),
    case(flip, "negative axis", (2, 3), axis=-1),
    case(flip, "two of three", (2, 3, 2), axis=(0, 2)),
    case(flip, "scalar", ()),
    case(flip, "empty", (0, 3)),
    case(roll, "vector", (5,), shift=(2,), axis=(0,)),
    case(roll, "two axes, further than they are long", (3, 4), shift=(-1, 6), axis=(0, -1)),
    case(roll, "empty", (0, 3), shift=(1,), axis=(0,)),
    case(pad, "vector", (3,), pad_width=((2, 1),)),
    case(pad, "matrix, with a value", (2, 3), pad_width=((0, 2), (1, 0)), constant_values=7.5),
    case(pad, "cut at one end, grown at the other", (4, 2), pad_width=((-1, 2), (1, -1))),
    case(pad, "cut at both ends", (5,), pad_width=((-1, -2),)),
    case(pad, "scalar", (), pad_width=()),
    case(pad, "around nothing", (0, 2), pad_width=((1, 1), (0, 1))),
    *[case(op, "square", (3, 3)) for op in (tril, triu)],
    *[case(op, "wide, above", (3, 4), k=1) for op in (tril, triu)],
    *[case(op, "stacked, below", (2, 4, 3), k=-1) for op in (tril, triu)],
    *[case(op, "empty", (0, 3)) for op in (tril, triu)],
]

FACE_CASES = [
    case(face.expand_dims, "two axes", (2, 3), axis=(0, -1)),
    case(face.squeeze, "all", (1, 3, 1)),
    case(face.squeeze, "one axis", (1, 3, 1), axis=-1),
    case(face.ravel, "matrix", (2, 3)),
    case(face.ravel, "scalar", ()),
    case(face.swapaxes, "negative axis", (2, 3, 4), axis1=0, axis2=-1),
    case(face.moveaxis, "one axis", (2, 3, 4), source=0, destination=-1),
    case(face.moveaxis, "two axes", (2, 3, 2, 2), source=(0, 1), destination=(-1, 0)),
    case(face.diagonal, "above, wide", (3, 4), offset=1),
    case(face.diagonal, "below, of the last axes", (2, 4, 3), offset=-1, axis1=1, axis2=2),
    case(face.diagonal, "axes the other way round", (3, 2, 4), axis1=2, axis2=0),
    case(face.trace, "square", (3, 3)),
    case(face.trace, "stacked", (2, 3, 4), offset=1, axis1=-2, axis2=-1),
    case(face.repeat, "columns", (2, 3), repeats=2, axis=1),
    case(face.repeat, "each its own count", (3, 2), repeats=(2, 0, 3), axis=0),
    case(face.repeat, "flattened", (2, 2), repeats=3),
    case(face.tile, "a row of copies", (2, 3), reps=2),
    case(face.tile, "new axes", (2, 3), reps=(2, 1, 3)),
    case(face.tile, "fewer numbers than axes", (2, 1, 2), reps=(3, 1)),
]

EDGES = [
    Edge(tril, "what is left out may be infinite", ([[1.0, INF], [2.0, 3.0]],), [[5.0, INF], [6.0, 7.0]],
         ([[5.0, 0.0], [6.0, 7.0]],), [[1.0, 0.0], [2.0, 3.0]]),
    Edge(triu, "what is left out may be infinite", ([[1.0, 2.0], [INF, 3.0]],), [[5.0, 6.0], [INF, 7.0]],
         ([[5.0, 6.0], [0.0, 7.0]],), [[1.0, 2.0], [0.0, 3.0]]),
    Edge(pad, "an infinite cotangent of what was added goes nowhere", ([1.0, 2.0],), [INF, 3.0, 4.0], ([3.0, 4.0],),
         [-INF, 1.0, 2.0], {"pad_width": ((1, 0),), "constant_values": -INF}),
    Edge(pad, "what is cut has no cotangent", ([1.0, 2.0, 3.0],), [5.0], ([0.0, 5.0, 0.0],), [2.0], {"pad_width": ((-1, -1),)}),
]  # fmt: skip
