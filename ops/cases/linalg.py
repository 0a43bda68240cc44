"""Cases of `ops/linalg.py`."""

import numpy as np

from ..linalg import cholesky, triangular_solve
from .case import Case, Edge

NAN = np.nan


def spread(rng, shape, least=1.0):
    """Square matrices whose diagonal is well away from 0 and outweighs the rest."""
    return rng.normal(size=shape) * 0.5 + np.eye(shape[-1]) * (least + shape[-1])


def positive(rng, shape):
    """A symmetric part with positive eigenvalues, and an antisymmetric part beside it."""
    m = rng.normal(size=shape)
    return m @ np.swapaxes(m, -1, -2) + 2 * np.eye(shape[-1]) + 0.3 * (m - np.swapaxes(m, -1, -2))


def system(op, label, a, b, **statics):
    return Case(op, label, lambda rng: (spread(rng, a), rng.normal(size=b)), statics)


CASES = [
    *[
        Case(cholesky, label, lambda rng, shape=shape: (positive(rng, shape),))
        for label, shape in {
            "two": (2, 2), "stack": (2, 3, 3), "empty stack": (0, 2, 2), "nothing": (0, 0)
        }.items()
    ],
    system(triangular_solve, "lower", (3, 3), (3, 2), lower=True),
    system(triangular_solve, "upper", (2, 2), (2, 2), lower=False),
    system(triangular_solve, "lower, transposed", (2, 3, 3), (2, 3, 1), lower=True, transpose=True),
    system(triangular_solve, "ones on the diagonal", (3, 3), (3, 2), lower=True, unit_diagonal=True),
    system(triangular_solve, "stack, matrix", (2, 2, 2), (2, 2), lower=True),
    system(triangular_solve, "matrix, stack", (2, 2), (3, 2, 2), lower=True),
    system(triangular_solve, "upper, ones on the diagonal, transposed; stack, vector", (2, 2, 2), (2,),
           lower=False, transpose=True, unit_diagonal=True),
    system(triangular_solve, "empty stack", (0, 2, 2), (0, 2, 1), lower=True),
    system(triangular_solve, "no columns", (2, 2), (2, 0), lower=True),
    Case(triangular_solve, "integers", lambda rng: (spread(rng, (2, 2)), rng.integers(-3, 4, size=(2, 2))), {"lower": True}),
]  # fmt: skip

EDGES = [
    Edge(cholesky, "of a number: √a", ([[4.0]],), [[3.0]], ([[0.75]],), [[2.0]]),
    Edge(cholesky, "the cotangent above the diagonal is not read", ([[4.0, 0.0], [0.0, 1.0]],), [[4.0, NAN], [8.0, 2.0]],
         ([[1.0, 2.0], [2.0, 1.0]],), [[2.0, 0.0], [0.0, 1.0]]),
    Edge(cholesky, "not positive definite: NaN, and the others of the stack are what they are", ([[[-1.0]], [[4.0]]],), [[[1.0]], [[4.0]]],
         ([[[NAN]], [[1.0]]],), [[[NAN]], [[2.0]]]),
    Edge(triangular_solve, "of numbers: b/a", ([[2.0]], [3.0]), [4.0], ([[-3.0]], [2.0]), [1.5], {"lower": True}),
    Edge(triangular_solve, "the other triangle is not read", ([[2.0, NAN], [2.0, 4.0]], [4.0, 8.0]), [0.0, 4.0],
         ([[2.0, 0.0], [-2.0, -1.0]], [-1.0, 1.0]), [2.0, 1.0], {"lower": True}),
    Edge(triangular_solve, "nor is a diagonal of ones", ([[NAN, 3.0], [0.0, 0.0]], [5.0, 1.0]), [1.0, 2.0],
         ([[0.0, -1.0], [0.0, 0.0]], [1.0, -1.0]), [2.0, 1.0], {"lower": False, "unit_diagonal": True}),
    Edge(triangular_solve, "a zero on the diagonal", ([[0.0]], [1.0]), [1.0], ([[-np.inf]], [np.inf]), [np.inf], {"lower": True}),
]  # fmt: skip
