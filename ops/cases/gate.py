"""Cases of `ops/gate.py`."""

import math

import jax.numpy as jnp
import numpy as np

from ..gate import gelu_erf, mish, silu
from .case import Case, Edge, normal

INF, NAN = np.inf, np.nan

SHAPES = {"matrix": (3, 4), "scalar": (), "nothing": (0, 3)}

CASES = [Case(op, label, normal(shape)) for op in (silu, mish, gelu_erf) for label, shape in SHAPES.items()]
CASES += [
    Case(op, "tails", lambda rng, far=far: (rng.uniform(3, far, size=6) * np.array([1, -1] * 3),))
    for op, far in ((silu, 12), (mish, 12), (gelu_erf, 5))
]

TAIL = {x: 0.5 * math.erfc(-x * math.sqrt(0.5)) for x in (-10.0, -12.0625)}  # Φ(x)
FAR = [-INF, -1e30, -1000.0, 0.0, 1000.0, 1e30, INF]


def limits(op, slope):
    """slope: at 0, where the cotangent is 2 as everywhere."""
    y, x_bar = [0.0] * 4 + FAR[4:], [0.0] * 3 + [2 * slope] + [2.0] * 3
    return [
        Edge(op, "far out", (FAR,), [2.0] * 7, (x_bar,), y),
        Edge(op, "NaN stays NaN", ([NAN, 0.0],), [2.0, 2.0], ([NAN, 2 * slope],), [NAN, 0.0]),
    ]


def falling(op, x, slope):
    """The slope far below 0 keeps its digits: the cotangent makes it 1."""
    return Edge(op, "far below 0", ([x],), [1 / slope], ([1.0],), [0.0])


def narrow(op, dtype, x, y_bar, slope):
    """A narrow dtype keeps its tail: what is inside is float32."""
    x, y_bar = np.array([x], dtype), np.array([y_bar], dtype)
    return Edge(op, "narrow below 0", (x,), y_bar, ((y_bar.astype(float) * slope).astype(dtype),))


EDGES = [
    *limits(silu, 0.5),
    *limits(mish, 0.6),
    *limits(gelu_erf, 0.5),
    falling(silu, -60.0, -59 * np.exp(-60.0)),
    falling(mish, -60.0, -59 * np.exp(-60.0)),
    falling(gelu_erf, -10.0, TAIL[-10.0] - 10 * np.exp(-50.0) / np.sqrt(2 * np.pi)),
    narrow(silu, "float16", -12.0, 6e4, -11 * np.exp(-12.0)),
    narrow(mish, "float16", -12.0, 6e4, -11 * np.exp(-12.0)),
    narrow(gelu_erf, jnp.bfloat16, -12.0625, 1e31, TAIL[-12.0625] - 12.0625 * np.exp(-(12.0625**2) / 2) / np.sqrt(2 * np.pi)),
]
