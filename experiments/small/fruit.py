"""Which fruit is it? Three classes by colour, size and weight, told apart by an MLP under plain gradient descent.

Apples come red, or green to yellow; oranges and lemons are their colour, give or take. Sizes overlap, and weight follows from
size: the mass of a ball of that diameter at the density of the fruit (all float, apples best). So a yellowish apple may pass for
an orange and a small one for a lemon: nobody gets them all right.
"""

from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from ... import nn, ops
from ...models.mlp import MLP
from ..step import Params
from .config import FruitConfig
from .job import Job, Report, chances, generator, supervised

FRUITS = ("apple", "orange", "lemon")
FEATURES = ("hue in degrees", "diameter in cm", "weight in g")


class Kind(NamedTuple):
    """Means and standard deviations; colours: (share, hue in degrees, its deviation)."""

    colours: tuple[tuple[float, float, float], ...]
    diameter: tuple[float, float]  # cm
    density: tuple[float, float]  # g/cm³


KINDS = {  # hue: 0 red, 30 orange, 60 yellow, 120 green
    "apple": Kind(((0.6, 10.0, 9.0), (0.4, 75.0, 14.0)), (7.4, 0.8), (0.80, 0.04)),
    "orange": Kind(((1.0, 32.0, 6.0),), (7.2, 0.7), (0.91, 0.04)),
    "lemon": Kind(((0.9, 54.0, 5.0), (0.1, 80.0, 10.0)), (5.8, 0.5), (0.95, 0.03)),
}


def grown(rng: np.random.Generator, count: int) -> tuple[Float[np.ndarray, "N 3"], Int[np.ndarray, " N"]]:
    """`count` fruits, the three kinds in turn: their features in FEATURES' units, and which of FRUITS each is."""
    labels = np.arange(count) % len(FRUITS)
    rows = []
    for label in labels:
        kind = KINDS[FRUITS[label]]
        shares = [share for share, _, _ in kind.colours]
        _, hue, spread = kind.colours[rng.choice(len(shares), p=shares)]
        diameter, density = max(2.0, rng.normal(*kind.diameter)), rng.normal(*kind.density)
        rows.append((rng.normal(hue, spread) % 360, diameter, density * np.pi / 6 * diameter**3))
    return np.asarray(rows), labels.astype(np.int32)


def measured(features: Float[np.ndarray, "N 3"]) -> Float[np.ndarray, "N 3"]:
    """Numbers about 0 for the network, whatever the sample. A hue is an angle: 350 degrees is nearly 0."""
    hue = (features[:, 0] + 180) % 360 - 180
    return np.stack([(hue - 35) / 30, features[:, 1] - 7, (features[:, 2] - 150) / 50], 1).astype(np.float32)


def loss(logits, labels):
    return ops.softmax_cross_entropy(logits, labels, reduction="mean")


def prepare(config: FruitConfig) -> Job:
    model = MLP.init(jax.random.key(config.seed), (len(FEATURES), config.hidden, len(FRUITS)))
    training, held_back = (
        (measured(features), labels)
        for features, labels in (
            grown(generator(config, "training"), config.examples),
            grown(generator(config, "validation"), max(3, config.examples // 4)),
        )
    )
    classify, cases = chances(model), grown(generator(config, "test"), 9)

    def report(params: Params, folder: Path) -> Report:
        accuracy = float(np.mean(classify(params, held_back[0]).argmax(1) == held_back[1]))
        rows = [
            {"features": [round(float(x), 1) for x in features], "true": FRUITS[label], "chances": dict(zip(FRUITS, chance))}
            for features, label, chance in zip(*cases, classify(params, measured(cases[0])).tolist())
        ]
        text = f"{table(rows)}\n\naccuracy on {len(held_back[1])} fruits of the validation split: {accuracy:.1%}"
        return Report(text, {"accuracy": accuracy, "cases": rows})

    data = {"classes": FRUITS, "features": FEATURES}
    return supervised(config, model, loss, nn.sgd(config.rate), training, held_back, data, "nats", report)


def table(rows: list[dict]) -> str:
    """Test cases, one a line."""
    lines = [f"{'hue °':>6}{'cm':>6}{'g':>7}   {'it is':<8}{'taken for':<11}" + "".join(f"{name:>8}" for name in FRUITS)]
    for row in rows:
        taken = max(FRUITS, key=row["chances"].get)
        hue, diameter, weight = row["features"]
        shares = "".join(f"{row['chances'][name]:>8.1%}" for name in FRUITS)
        wrong = "" if taken == row["true"] else "   wrong"
        lines.append(f"{hue:>6.0f}{diameter:>6.1f}{weight:>7.0f}   {row['true']:<8}{taken:<11}{shares}{wrong}")
    return "\n".join(lines)
