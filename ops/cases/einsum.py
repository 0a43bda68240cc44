"""Cases of `ops/contraction.py` and of its faces in `ops/einsum.py`."""

import numpy as np

from ..contraction import einsum
from ..einsum import dot, inner, outer, tensordot
from .case import Case, Edge, normal

SPECS = {  # label: (spec, shapes)
    "matrix product": ("ij,jk->ik", ((2, 3), (3, 4))),
    "result in another order": ("bij,bjk->kbi", ((2, 3, 2), (2, 2, 3))),
    "bilinear": ("i,ij,j->", ((2,), (2, 3), (3,))),
    "a chain": ("ij,jk,kl->il", ((2, 3), (3, 2), (2, 3))),
    "no sum": ("i,j->ij", ((3,), (2,))),
    "squares": ("ij,ij->i", ((2, 3), (2, 3))),
    "trace": ("ii->", ((3, 3),)),
    "diagonal of three": ("iii->i", ((3, 3, 3),)),
    "diagonal apart": ("iji,j->i", ((2, 3, 2), (3,))),
    "two diagonals": ("jiij->ij", ((2, 3, 3, 2),)),
    "summed alone": ("ij,k->k", ((2, 3), (2,))),
    "diagonal summed alone": ("iij,k->k", ((2, 2, 3), (2,))),
    "one meets three": ("ij,jk->ik", ((2, 1), (3, 2))),
    "one meets three and stays": ("i,i->i", ((3,), (1,))),
    "ones": ("ij,ji->ij", ((1, 1), (1, 1))),
    "diagonal of one": ("ii,ij->ij", ((1, 1), (3, 2))),
    "scalar, matrix": (",ij->ji", ((), (2, 3))),
    "nothing to sum": ("ij,jk->ik", ((2, 0), (0, 3))),
    "an empty diagonal": ("ii->i", ((0, 0),)),
}

CASES = [
    *[Case(einsum, label, normal(*shapes), {"spec": spec}) for label, (spec, shapes) in SPECS.items()],
    Case(einsum, "integers", lambda rng: (rng.normal(size=(2, 3)), rng.integers(-3, 4, size=(3, 2))), {"spec": "ij,jk->ik"}),
    Case(einsum, "a number", lambda rng: (2.5, rng.normal(size=3)), {"spec": ",i->i"}),
]

FACE_CASES = [
    Case(tensordot, "two axes", normal((2, 3, 2), (3, 2, 2))),
    Case(tensordot, "one axis", normal((2, 3), (3, 2)), {"axes": 1}),
    Case(tensordot, "no axis", normal((2,), (3,)), {"axes": 0}),
    Case(tensordot, "named axes", normal((2, 3, 4), (4, 2)), {"axes": ((0, 2), (1, 0))}),
    Case(dot, "vectors", normal((3,), (3,))),
    Case(dot, "matrix, vector", normal((3, 3), (3,))),
    Case(dot, "matrices", normal((2, 3), (3, 4))),
    Case(dot, "stacks", normal((2, 2, 3), (2, 3, 2))),
    Case(dot, "scalar, matrix", normal((), (2, 3))),
    Case(inner, "vectors", normal((3,), (3,))),
    Case(inner, "matrices", normal((2, 3), (4, 3))),
    Case(inner, "matrix, scalar", normal((2, 3), ())),
    Case(outer, "vectors", normal((3,), (2,))),
    Case(outer, "matrix, scalar", normal((2, 2), ())),
    Case(outer, "empty", normal((0,), (2,))),
]

HALF = np.float16

EDGES = [
    Edge(einsum, "float16 adds up in float32", (np.ones(4096, HALF), np.ones(4096, HALF)), HALF(2),
         (np.full(4096, 2, HALF), np.full(4096, 2, HALF)), HALF(4096), {"spec": "i,i->"}),
    Edge(einsum, "the sum hides in the backward: float16 adds up in float32", (np.zeros(4096, HALF), np.ones((), HALF)),
         np.ones(4096, HALF), (np.ones(4096, HALF), HALF(0)), np.zeros(4096, HALF), {"spec": "i,->i"}),
    Edge(einsum, "one scalar for 4096", (np.zeros(1, HALF), np.ones((4096), HALF)), np.ones(4096, HALF), (np.full(1, 4096, HALF), None),
         None, {"spec": "i,i->i"}),
    Edge(einsum, "what a trace does not read gets 0, whatever stands there", ([[1.0, np.nan], [np.inf, 3.0]],), 2.0,
         ([[2.0, 0.0], [0.0, 2.0]],), 4.0, {"spec": "ii->"}),
    Edge(einsum, "an infinite cotangent stays on the diagonal", ([[1.0, 2.0], [3.0, 4.0]],), [np.inf, 1.0],
         ([[np.inf, 0.0], [0.0, 1.0]],), [1.0, 4.0], {"spec": "ii->i"}),
    Edge(einsum, "nothing to sum is 0", (np.zeros((2, 0)), np.zeros((0, 1))), [[1.0], [1.0]], (np.zeros((2, 0)), np.zeros((0, 1))),
         [[0.0], [0.0]], {"spec": "ij,jk->ik"}),
]  # fmt: skip
