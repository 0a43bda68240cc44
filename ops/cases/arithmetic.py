"""Cases of `ops/arithmetic.py`."""

import numpy as np

from ..arithmetic import abs as absolute
from ..arithmetic import add, div, exp, log, maximum, minimum, mul, neg, pow_constant, power, rsqrt, sqrt, sub, tanh
from .case import Case, Edge, normal

INF, NAN = np.inf, np.nan
TENTH = float(np.float16(0.1))

PAIRS = {  # how two operands can meet
    "scalars": ((), ()),
    "equal": ((2, 3), (2, 3)),
    "row": ((2, 3), (3,)),
    "outer": ((2, 1), (1, 3)),
    "lead": ((3,), (4, 1, 3)),
    "scalar": ((), (2, 2)),
    "empty": ((0, 3), (3,)),
}


def apart(rng, shape):
    """Values of either sign, at least 0.3 from 0."""
    return rng.choice((-1.0, 1.0), size=shape) * rng.uniform(0.3, 2.0, size=shape)


def positive(rng, shape):
    return rng.uniform(0.3, 2.0, size=shape)


def pairs(op, first, second):
    """One case for every way in which two operands can meet, and two with a Python number."""
    cases = [Case(op, name, lambda rng, a=a, b=b: (first(rng, a), second(rng, b))) for name, (a, b) in PAIRS.items()]
    return [
        *cases,
        Case(op, "number right", lambda rng: (first(rng, (2, 3)), 1.25)),
        Case(op, "number left", lambda rng: (1.25, second(rng, (2, 3)))),
        Case(op, "integers", lambda rng: (first(rng, (2, 3)), rng.integers(1, 4, size=3))),
    ]


def gaussian(rng, shape):
    return rng.normal(size=shape)


def unequal(rng, shape):
    """Second operand of maximum and minimum: far below or far above the first, from −2 to 2."""
    return rng.choice((-4.0, 4.0), size=shape) + rng.uniform(-0.5, 0.5, size=shape)


def single(op, draw, label=""):
    shapes = {"scalar": (), "matrix": (2, 3), "empty": (0, 2), "one": (1, 1, 1)}
    return [Case(op, f"{label}{name}", lambda rng, shape=shape: (draw(rng, shape),)) for name, shape in shapes.items()]


def exponents(draw, *powers):
    return [Case(pow_constant, f"{draw.__name__} ** {p}", lambda rng: (draw(rng, (2, 3)),), {"exponent": p}) for p in powers]


CASES = [
    *pairs(add, gaussian, gaussian),
    *pairs(sub, gaussian, gaussian),
    *pairs(mul, gaussian, gaussian),
    *pairs(div, gaussian, apart),
    *pairs(power, positive, gaussian),
    *pairs(maximum, apart, unequal),
    *pairs(minimum, apart, unequal),
    Case(mul, "one array twice", lambda rng: (rng.normal(size=3),) * 2),
    *single(neg, gaussian),
    *single(exp, gaussian),
    *single(log, positive),
    *single(sqrt, positive),
    *single(rsqrt, positive),
    *single(tanh, gaussian),
    *single(absolute, apart),
    *exponents(apart, 0, 1, 2, 3, -1, -2, 2.0),
    *exponents(positive, 0.5, -1.5),
    Case(pow_constant, "scalar", normal(()), {"exponent": 2}),
    Case(pow_constant, "empty", normal((0, 3)), {"exponent": 3}),
]

EDGES = [
    Edge(add, "a column of float16 added to one number sums in float32", (np.zeros((4096, 1), np.float16), np.zeros(1, np.float16)),
         np.ones((4096, 1), np.float16), (None, [4096.0])),
    Edge(div, "by zero", ([1.0, -2.0], [0.0, 4.0]), [1.0, 1.0], ([INF, 0.25], [-INF, 0.125]), [INF, -0.5]),
    Edge(pow_constant, "0 ** 0 is flat", ([0.0, INF],), [3.0, INF], ([0.0, 0.0],), [1.0, 1.0], {"exponent": 0}),
    Edge(pow_constant, "0 ** 1", ([0.0, -2.0],), [3.0, INF], ([3.0, INF],), [0.0, -2.0], {"exponent": 1}),
    Edge(pow_constant, "0 ** 2", ([0.0, -2.0],), [3.0, 3.0], ([0.0, -12.0],), [0.0, 4.0], {"exponent": 2}),
    Edge(pow_constant, "0 ** 2.0", ([0.0, -2.0],), [3.0, 3.0], ([0.0, -12.0],), [0.0, 4.0], {"exponent": 2.0}),
    Edge(pow_constant, "0 ** 1.5", ([0.0, 4.0],), [3.0, 3.0], ([0.0, 9.0],), [0.0, 8.0], {"exponent": 1.5}),
    Edge(pow_constant, "0 ** 0.5 is steep", ([0.0, 4.0],), [3.0, 3.0], ([INF, 0.75],), [0.0, 2.0], {"exponent": 0.5}),
    Edge(power, "at base 0", ([0.0, 2.0], [1.0, 1.0]), [1.0, 1.0], ([1.0, 1.0], [0.0, 2 * np.log(2)]), [0.0, 2.0]),
    Edge(power, "a negative base has a right slope", ([-2.0], [2.0]), [1.0], ([-4.0], [NAN]), [4.0]),
    Edge(power, "0 ** 0", ([0.0], [0.0]), [1.0], ([0.0], [0.0]), [1.0]),
    Edge(power, "0 ** −1", ([0.0], [-1.0]), [1.0], ([-INF], [-INF]), [INF]),
    Edge(power, "to 0 it is flat", ([2.0, -2.0], [0.0, 0.0]), [1.0, 1.0], ([0.0, 0.0], [np.log(2), NAN]), [1.0, 1.0]),
    Edge(power, "a narrow exponent is not rounded again", ([2.0], np.array([TENTH], np.float16)), [1.0],
         ([TENTH * 2 ** (TENTH - 1)], None), [2**TENTH]),
    Edge(exp, "at both ends", ([-INF, 0.0, INF],), [2.0, 2.0, 2.0], ([0.0, 2.0, INF],), [0.0, 1.0, INF]),
    Edge(log, "at 0 and ∞", ([0.0, INF],), [2.0, 2.0], ([INF, 0.0],), [-INF, INF]),
    Edge(sqrt, "at 0 the slope is infinite", ([0.0, 4.0, INF],), [2.0, 2.0, 2.0], ([INF, 0.5, 0.0],), [0.0, 2.0, INF]),
    Edge(sqrt, "at 0 a zero cotangent gives NaN, as its docstring says", ([0.0],), [0.0], ([NAN],), [0.0]),
    Edge(rsqrt, "at 0 and ∞", ([0.0, 4.0, INF],), [16.0, 16.0, 16.0], ([-INF, -1.0, 0.0],), [INF, 0.5, 0.0]),
    Edge(tanh, "saturated", ([-INF, -30.0, 0.0, INF],), [1.0, 1.0, 1.0, 1.0], ([0.0, 0.0, 1.0, 0.0],), [-1.0, -1.0, 0.0, 1.0]),
    Edge(absolute, "the kink gives 0", ([0.0, -2.0, 3.0],), [INF, 2.0, 2.0], ([0.0, -2.0, 2.0],), [0.0, 2.0, 3.0]),
    Edge(maximum, "ties share", ([1.0, 1.0, 2.0], [1.0, 3.0, 0.0]), [2.0, 4.0, 6.0], ([1.0, 0.0, 6.0], [1.0, 4.0, 0.0]), [1.0, 3.0, 2.0]),
    Edge(maximum, "an infinite cotangent stays on its side", ([1.0], [3.0]), [INF], ([0.0], [INF])),
    Edge(maximum, "of infinities", ([INF, -INF], [INF, INF]), [2.0, 2.0], ([1.0, 0.0], [1.0, 2.0]), [INF, INF]),
    Edge(minimum, "ties share", ([1.0, 1.0, 2.0], [1.0, 3.0, 0.0]), [2.0, 4.0, 6.0], ([1.0, 4.0, 0.0], [1.0, 0.0, 6.0]), [1.0, 1.0, 0.0]),
    Edge(mul, "one number for a matrix: its cotangents sum up", ([[1.0, 2.0], [3.0, 4.0]], [2.0]), [[1.0, 1.0], [1.0, 1.0]],
         ([[2.0, 2.0], [2.0, 2.0]], [10.0])),
]  # fmt: skip
