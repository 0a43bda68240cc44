"""Every optimiser in plain NumPy: an update as a function of all gradients so far, from the formulas of the papers.

Nothing here knows our optimisers. What they keep from step to step is here a sum over the history, so no recursion is shared.
A parameter is a number and a matrix of 2 × 2, written as five numbers in a row.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

LEAVES = {"scale": slice(0, 1), "weight": slice(1, 5)}


class History:
    """What a formula is given: the settings s, all gradients until now, the count of each step, the weights."""

    def __init__(self, settings: dict[str, Any], gs: np.ndarray, counts: np.ndarray, p: np.ndarray, before: "History | None"):
        self.s = settings
        self.gs, self.g, self.p, self.before = gs, gs[-1], p, before
        self.t = float(counts[-1])
        self.steps = len(gs)

    def now(self, name: str) -> float:
        """A setting at this step: a number, or one number for each step."""
        value = self.s[name]
        return value[self.steps - 1] if isinstance(value, list) else value

    def mean(self, decay: float, values: np.ndarray) -> np.ndarray:
        """Σ (1 − d)·dᵃ·value over the values, of age a."""
        return (1 - decay) * self.sum(decay, values)

    def sum(self, decay: float, values: np.ndarray) -> np.ndarray:
        return np.tensordot(decay ** np.arange(len(values))[::-1], values, 1)

    def decaying(self) -> np.ndarray:
        """Which of the five numbers lose weight."""
        mask = self.s.get("mask", {"scale": False, "weight": True})
        mask = {"scale": mask, "weight": mask} if isinstance(mask, bool) else mask or {"scale": True, "weight": True}
        return np.array([mask["scale"], *[mask["weight"]] * 4])


Formula = Callable[[History], np.ndarray]


def adam(h: History) -> np.ndarray:
    """Kingma & Ba 2015, algorithm 1; with nesterov Dozat 2016, algorithm 2, with a constant μ and ν̂ = ν/(1 − βᵗ)."""
    b1, b2 = h.s["b1"], h.s["b2"]
    m, v = h.mean(b1, h.gs), h.mean(b2, h.gs**2) / (1 - b2**h.t)
    along = b1 * m / (1 - b1 ** (h.t + 1)) + (1 - b1) * h.g / (1 - b1**h.t) if h.s.get("nesterov") else m / (1 - b1**h.t)
    return -h.now("learning_rate") * along / (np.sqrt(v + h.s.get("eps_root", 0.0)) + h.s["eps"])


def adamw(h: History) -> np.ndarray:
    """Loshchilov & Hutter 2019, algorithm 2."""
    return adam(h) - h.now("learning_rate") * h.now("weight_decay") * np.where(h.decaying(), h.p, 0)


def lion(h: History) -> np.ndarray:
    """Chen et al. 2023, algorithm 2."""
    b1, b2 = h.s["b1"], h.s["b2"]
    before = h.mean(b2, h.gs[:-1]) if h.steps > 1 else 0.0
    return -h.now("learning_rate") * (np.sign(b1 * before + (1 - b1) * h.g) + h.now("weight_decay") * np.where(h.decaying(), h.p, 0))


def sgd(h: History) -> np.ndarray:
    """Sutskever et al. 2013, as everybody writes it: the rate in front of the trace."""
    momentum = h.s.get("momentum", 0.0)
    trace = h.sum(momentum, h.gs)
    return -h.now("learning_rate") * (h.g + momentum * trace if h.s.get("nesterov") else trace)


def rmsprop(h: History) -> np.ndarray:
    """Tieleman & Hinton 2012; Graves 2013, eq. 38-42, for the centred form."""
    momentum, steps = h.s.get("momentum", 0.0), []
    past: History | None = h
    while past is not None:
        steps.insert(0, rms_step(past))
        past = past.before
    trace = h.sum(momentum, np.array(steps))
    return -(steps[-1] + momentum * trace if h.s.get("nesterov") else trace)


def rms_step(h: History) -> np.ndarray:
    decay, eps = h.s["decay"], h.s["eps"]
    gathered = 1 - decay**h.t if h.s.get("bias_correction") else 1.0
    spread = (h.mean(decay, h.gs**2) + decay**h.steps * h.s.get("initial_scale", 0.0)) / gathered
    if h.s.get("centered"):
        spread = np.maximum(spread - (h.mean(decay, h.gs) / gathered) ** 2, 0)
    return h.now("learning_rate") * h.g / (np.sqrt(spread + eps) if h.s.get("eps_in_sqrt", True) else np.sqrt(spread) + eps)


def adagrad(h: History) -> np.ndarray:
    """Duchi, Hazan & Singer 2011."""
    squares = h.s["initial_accumulator_value"] + np.sum(h.gs**2, axis=0)
    return np.where(squares == 0, 0, -h.now("learning_rate") * h.g / np.sqrt(np.where(squares == 0, 1, squares + h.s["eps"])))


def ema(h: History) -> np.ndarray:
    """Kingma & Ba 2015, section 3, for the correction."""
    return h.mean(h.s["decay"], h.gs) / (1 - h.s["decay"] ** h.t if h.s.get("debias", True) else 1)


def clip(h: History) -> np.ndarray:
    return np.clip(h.g, -h.s["max_delta"], h.s["max_delta"])


def clip_by_block_rms(h: History) -> np.ndarray:
    """Shazeer & Stern 2018, section 6."""
    sizes = np.array([np.sqrt(np.mean(h.g[leaf] ** 2)) for leaf in LEAVES.values() for _ in h.g[leaf]])
    return np.where(np.isfinite(sizes), h.g / np.maximum(1, sizes / h.s["threshold"]), np.nan)


def clip_by_global_norm(h: History) -> np.ndarray:
    """Pascanu et al. 2013, algorithm 1; nothing is left of a step whose norm is not finite."""
    norm = np.sqrt(np.sum(h.g**2))
    return h.g / max(1, norm / h.s["max_norm"]) if np.isfinite(norm) else np.full(5, np.nan)


def state(optimiser: str, h: History) -> dict[str, Any]:
    """What the state of an optimiser says of itself."""
    if optimiser == "clip_by_global_norm":
        return {"norm": np.sqrt(np.sum(h.g**2))}
    if optimiser.startswith("clip"):
        return {}
    return {"count": int(h.t)} | ({"mu": h.mean(h.s["decay"], h.gs)} if h.s.get("centered") else {})
