"""Twenty steps of every optimiser under settings that make each term matter: what mutants of the updates are judged by.

`python -m pullback.experiments.mutation.trajectories` writes trajectories.json anew, from formulas.py.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import formulas
from .formulas import History

FILE = Path(__file__).with_name("trajectories.json")
STEPS = 20
LAST = 2**31 - 1  # where the count of an int32 stays
PARAMS = np.array([0.7, -1.2, 0.4, 2.1, -0.3])


def gradients() -> dict[str, np.ndarray]:
    """usual: of sizes from 0.03 to 30. still: the same at every step. late: none at first, and never any for one element.

    huge: the last of the matrix have squares above the largest float64.
    """
    t, j = np.arange(STEPS)[:, None], np.arange(5)
    usual = np.round(10 ** (1.5 * np.sin(0.9 * t)) * np.sin(1.3 * t + 2.1 * j + 0.4 * t * j + 0.2), 6)
    return {
        "usual": usual,
        "still": np.ones((STEPS, 1)) * np.array([1.1, -0.7, 0.3, 0.9, -1.3]),
        "late": np.where((t < 4) | (j == 2), 0.0, usual),
        "huge": np.where((t == STEPS - 1) & (j > 0), 1e200, usual),
    }


FALLING = [round(0.3 / (t + 2), 6) for t in range(STEPS)]
RISING = [round(0.05 * t, 6) for t in range(STEPS)]


class Case(NamedTuple):
    """settings: numbers, or one number for each step where they follow a schedule. given: numbers, or as arrays of no axis."""

    settings: dict[str, Any]
    gradients: str = "usual"
    given: str = "numbers"
    first_count: int = 0


END = LAST - 10  # the count arrives at its last value within the twenty steps
SCALE_ONLY = {"scale": True, "weight": False}

CASES: dict[str, list[Case]] = {
    "adam": [
        Case(dict(learning_rate=0.1, b1=0.9, b2=0.99, eps=0.01)),
        Case(dict(learning_rate=FALLING, b1=0.5, b2=0.8, eps=0.3, eps_root=0.2, nesterov=True), given="arrays"),
        Case(dict(learning_rate=0.1, b1=0.8, b2=0.95, eps=0.1, nesterov=True), "late"),
        Case(dict(learning_rate=0.1, b1=0.7, b2=0.8, eps=0.1, nesterov=True), first_count=END),
    ],
    "adamw": [
        Case(dict(learning_rate=0.1, b1=0.9, b2=0.99, eps=0.01, weight_decay=0.3)),
        Case(dict(learning_rate=FALLING, b1=0.5, b2=0.8, eps=0.3, weight_decay=RISING, mask=None), given="arrays"),
        Case(dict(learning_rate=0.1, b1=0.6, b2=0.7, eps=0.2, weight_decay=0.2, mask=True, eps_root=0.1), "late"),
        Case(dict(learning_rate=0.1, b1=0.6, b2=0.7, eps=0.2, weight_decay=0.2, mask=SCALE_ONLY, nesterov=True), first_count=END),
    ],
    "lion": [
        Case(dict(learning_rate=0.1, b1=0.9, b2=0.99, weight_decay=0.3, mask=None)),
        Case(dict(learning_rate=FALLING, b1=0.6, b2=0.8, weight_decay=RISING, mask=None), given="arrays"),
        Case(dict(learning_rate=0.1, b1=0.8, b2=0.5, weight_decay=0.2, mask=True), "late"),
        Case(dict(learning_rate=0.1, b1=0.9, b2=0.9, weight_decay=0.2, mask=SCALE_ONLY), first_count=END),
    ],
    "sgd": [
        Case(dict(learning_rate=0.1)),
        Case(dict(learning_rate=0.1, momentum=0.8)),
        Case(dict(learning_rate=FALLING, momentum=0.6, nesterov=True), given="arrays"),
        Case(dict(learning_rate=0.02, momentum=0.9), "late", first_count=END),
    ],
    "rmsprop": [
        Case(dict(learning_rate=0.1, decay=0.9, eps=0.1, initial_scale=0.5)),
        Case(dict(learning_rate=FALLING, decay=0.8, eps=0.2, eps_in_sqrt=False, momentum=0.7), given="arrays"),
        Case(dict(learning_rate=0.05, decay=0.6, eps=0.1, centered=True, momentum=0.5, nesterov=True, bias_correction=True)),
        Case(dict(learning_rate=1e5, decay=0.1, eps=1e6, eps_in_sqrt=False, centered=True), "still"),  # a variance of 0, rounded
        Case(dict(learning_rate=0.1, decay=0.7, eps=0.1, bias_correction=True), "late", first_count=END),
    ],
    "adagrad": [
        Case(dict(learning_rate=0.5, initial_accumulator_value=0.1, eps=0.2)),
        Case(dict(learning_rate=FALLING, initial_accumulator_value=0.3, eps=0.4), given="arrays"),
        Case(dict(learning_rate=0.5, initial_accumulator_value=0.0, eps=0.0), "late", first_count=END),
    ],
    "ema": [
        Case(dict(decay=0.9)),
        Case(dict(decay=0.7, debias=False), given="arrays"),
        Case(dict(decay=0.8), "late", first_count=END),
    ],
    "clip": [Case(dict(max_delta=0.8)), Case(dict(max_delta=3.0), given="arrays")],
    "clip_by_block_rms": [Case(dict(threshold=0.5), "huge"), Case(dict(threshold=4.0), given="arrays")],
    "clip_by_global_norm": [Case(dict(max_norm=0.5), "huge"), Case(dict(max_norm=4.0), given="arrays")],
}


def trajectory(optimiser: str, case: Case) -> dict[str, Any]:
    """The parameters after each step, and what the state tells its users."""
    formula, gs, p, history = getattr(formulas, optimiser), gradients()[case.gradients], PARAMS, None
    counts = np.minimum(case.first_count + 1 + np.arange(STEPS), LAST)
    params: list[list] = []
    state: dict[str, list] = {}
    for i in range(STEPS):
        history = History(case.settings, gs[: i + 1], counts[: i + 1], p, history)
        p = p + formula(history)
        params.append(digits(p))
        for name, value in formulas.state(optimiser, history).items():
            state.setdefault(name, []).append(value if isinstance(value, int) else digits(value))
    return {"optimiser": optimiser, **case._asdict(), "state": state, "params": params}


def digits(x: np.ndarray) -> list[float | str]:
    """Rounded to what a float64 holds for certain; JSON knows no number for "inf" and "nan"."""
    return [float(f"{value:.15g}") if np.isfinite(value) else str(value) for value in np.atleast_1d(x)]


def table() -> dict[str, Any]:
    """All that the file holds."""
    return {
        "params": PARAMS.tolist(),
        "gradients": {kind: [digits(g) for g in gs] for kind, gs in gradients().items()},
        "trajectories": [trajectory(optimiser, case) for optimiser, cases in CASES.items() for case in cases],
    }


def text(x: Any, indent: str = "") -> str:
    """JSON with every row of numbers on one line."""
    inner = list(x.values()) if isinstance(x, dict) else x if isinstance(x, list) else []
    if not any(isinstance(y, (dict, list)) for y in inner):
        return json.dumps(x)
    deeper = indent + "  "
    if isinstance(x, dict):
        items, (left, right) = [f"{json.dumps(key)}: {text(y, deeper)}" for key, y in x.items()], "{}"
    else:
        items, (left, right) = [text(y, deeper) for y in x], "[]"
    return f"{left}\n{deeper}" + f",\n{deeper}".join(items) + f"\n{indent}{right}"


if __name__ == "__main__":
    with np.errstate(over="ignore", invalid="ignore"):  # the huge gradients
        FILE.write_text(text(table()) + "\n")
