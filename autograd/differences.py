"""Derivatives by differences, each with a measured error bar.

The derivative of t ↦ φ(t) at 0 is extrapolated from central differences over halving steps (Ridders 1982). Its error bar is
what neighbours in the table disagree by, plus the rounding of φ carried through the table. Rounding is measured, not
assumed: high differences of a smooth function over eight close points are zero, those of noise are not (Moré & Wild 2011).
Differences over smaller steps than the chosen one must agree with it; where they do not, a kink or a pole lies between, and
the bar widens by what they are off. A kink at the point itself has one slope to either side, and a central difference is
their mean: how far they are apart is measured too.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

LADDER = 2.0 ** -np.arange(22)  # steps, times the size of x
NEAR = 1e-7 * np.arange(1, 9)
POINTS = np.concatenate([LADDER, -LADDER, NEAR])  # where φ is wanted
ORDERS = 6  # columns of the table
EPS = float(np.finfo(np.float64).eps)
FAST = {  # to compile: these programs run once
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
}


class Slopes(NamedTuple):
    """What was measured, one number per direction: the slope, its error bar, and how far the slopes to either side are apart."""

    slope: np.ndarray
    bar: np.ndarray
    jump: np.ndarray


def rounding(close: np.ndarray) -> np.ndarray:
    """Standard deviation of the noise in rows of eight close values, from their differences of orders 3 to 5."""
    levels = []
    for k in range(1, 6):
        close = np.diff(close, axis=-1)
        levels.append(np.sqrt(math.factorial(k) ** 2 / math.factorial(2 * k) * np.mean(close**2, axis=-1)))
    return np.max(levels[2:], axis=0)


def noise_of(phi: np.ndarray, floor: np.ndarray | float) -> np.ndarray:
    """One number per row of values at POINTS, in a column."""
    return np.maximum(np.nan_to_num(rounding(phi[:, 2 * len(LADDER) :])), np.maximum(floor, 1e-300))[:, None]


def extrapolated(phi: np.ndarray, floor: np.ndarray | float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """(φ'(0), error bar) for each row of values at POINTS.

    floor: the least noise to reckon with. A φ that is constant or exact on the close points would else have none.
    """
    n = len(LADDER)
    with np.errstate(all="ignore"):  # a step may leave the domain: what is not finite is passed over
        slopes = (phi[:, :n] - phi[:, n : 2 * n]) / (2 * LADDER)
        noise = noise_of(phi, floor) / LADDER
        columns = [(slopes, noise)]
        rows = np.arange(len(phi))
        best, bar, at = np.full(len(phi), np.nan), np.full(len(phi), np.inf), np.zeros(len(phi), int)
        for order in range(1, ORDERS + 1):
            factor = 4.0**order
            finer = (factor * slopes[:, 1:] - slopes[:, :-1]) / (factor - 1)
            noise = (factor * noise[:, 1:] + noise[:, :-1]) / (factor - 1)
            error = np.maximum(np.abs(finer - slopes[:, 1:]), np.abs(finer - slopes[:, :-1]) / factor) + noise
            k = np.argmin(np.where(np.isfinite(error), error, np.inf), axis=1)
            better = error[rows, k] < bar
            best, bar = np.where(better, finer[rows, k], best), np.where(better, error[rows, k], bar)
            at = np.where(better, k + order, at)
            slopes = finer
            columns.append((slopes, noise))
        slopes, noise = columns[2]
        off = np.abs(slopes - best[:, None]) - 6 * noise
        smaller = np.arange(slopes.shape[1]) >= at[:, None]
        bar = bar + np.max(np.where(smaller & np.isfinite(off), off, 0.0), axis=1, initial=0.0)
        return best, bar + EPS * np.abs(np.nan_to_num(best))  # the slope itself is a rounded number


def jumps(phi: np.ndarray, floor: np.ndarray | float = 0.0) -> np.ndarray:
    """φ'(0+) − φ'(0−) for each row of values at POINTS, where φ(0) = 0; 0 where φ is smooth as far as can be told.

    (φ(h) + φ(−h))/h is the jump and a term that falls with h: at the least step that stands out of the noise it no longer does.
    """
    n, rows = len(LADDER), np.arange(len(phi))
    with np.errstate(all="ignore"):
        sums = (phi[:, :n] + phi[:, n : 2 * n]) / LADDER
        told = np.abs(sums) > 1e3 * noise_of(phi, floor) / LADDER
        last = n - 1 - np.argmax(told[:, ::-1], axis=1)
        here, before = sums[rows, last], sums[rows, last - 1]
        return np.where(told[rows, last] & (np.abs(here - before) < 0.01 * np.abs(here)), 2 * here - before, 0.0)


def along(f: Callable, xs: Sequence, y_bars: Sequence, directions: Sequence) -> Slopes:
    """The slope of t ↦ ⟨ȳ, f(x + t·v)⟩ for each direction v.

    f: a tuple of float64 arrays -> a tuple of arrays; y_bars: one per output; directions: one array per x, with a leading axis.
    """
    phi, size = moved(f)(tuple(xs), tuple(y_bars), tuple(directions))
    phi, floor = np.asarray(phi), EPS * float(size)
    return Slopes(*extrapolated(phi, floor), jumps(phi, floor))


@functools.lru_cache(maxsize=32)
def moved(f: Callable) -> Callable:
    """The program of `along`: ⟨ȳ, f(x + t·v) − f(x)⟩ at all POINTS, one row per direction, and the size of ȳ·f(x)."""

    def program(xs, y_bars, directions):
        here = f(xs)

        def phi(v, t):
            there = f(tuple(x + t * one for x, one in zip(xs, v)))
            return sum(jnp.sum(jnp.where(bar == 0, 0.0, (y - y0) * bar)) for y, y0, bar in zip(there, here, y_bars))

        size = sum(jnp.sum(jnp.where(bar == 0, 0.0, jnp.square(y * bar))) for y, bar in zip(here, y_bars))  # 0·∞ is not asked for
        return jax.lax.map(lambda v: jax.vmap(lambda t: phi(v, t))(jnp.asarray(POINTS)), directions), jnp.sqrt(size)

    return jax.jit(program, compiler_options=FAST)


def signs(rng: np.random.Generator, xs: Sequence, count: int) -> tuple[np.ndarray, ...]:
    """Directions of ±1, times the sizes of each x. (A normal draw near 0 would lose an element.)"""
    return tuple(rng.choice((-1.0, 1.0), size=(count, *x.shape)) * sizes_of(x) for x in xs)


def coins(rng: np.random.Generator, xs: Sequence) -> tuple[np.ndarray, ...]:
    """±1 for every element."""
    return tuple(rng.choice((-1.0, 1.0), size=x.shape) for x in xs)


def elements(xs: Sequence, i: int) -> tuple[np.ndarray, ...]:
    """One direction for each element of the i-th x."""
    n = xs[i].size
    own = np.diag(sizes_of(xs[i]).ravel())
    return tuple(own.reshape(n, *x.shape) if j == i else np.zeros((n, *x.shape)) for j, x in enumerate(xs))


def sizes_of(x) -> np.ndarray:
    """The longest step of each element: its own size, or the median one where that is larger; 1 where both are 0.

    With one step for all, the largest element would blind the others.
    """
    sizes = np.abs(np.asarray(x, np.float64))
    sizes = np.where(np.isfinite(sizes), sizes, 0.0)
    sizes = np.maximum(sizes, np.median(sizes)) if sizes.size else sizes
    return np.where(sizes > 0, sizes, 1.0)
