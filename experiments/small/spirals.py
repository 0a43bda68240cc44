"""Which spiral is it? Two classes that wind around each other, so that no line parts them; the picture is the boundary.

Spiral c ∈ {0, 1} is the curve (r·cos θ, r·sin θ) with θ = 2π·turns·r + π·c for radii r from 0.1 to 1, and its points miss it by
Gaussian noise. The loss is the negative log-likelihood −log p(class | point).        Lang & Witbrock 1988
"""

from functools import partial
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Float, Int

from ... import nn, ops
from ...lib.atomic import replacing
from ...models.mlp import MLP
from ..plot import can_plot
from ..step import Params
from .config import SpiralsConfig
from .job import Job, Report, chances, generator, supervised

INNER = 0.1  # where they begin; at 0 they would meet
GRID = 200  # points along each side of the picture
COLOURS = ("tab:blue", "tab:orange")


def wound(rng: np.random.Generator, count: int, turns: float, noise: float) -> tuple[Float[np.ndarray, "N 2"], Int[np.ndarray, " N"]]:
    """`count` points and which spiral each is of, the two in turn; as many to a stretch of radius everywhere."""
    labels = np.arange(count) % 2
    radius = rng.uniform(INNER, 1, count)
    angle = 2 * np.pi * turns * radius + np.pi * labels
    points = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1) + rng.normal(0, noise, (count, 2))
    return points.astype(np.float32), labels.astype(np.int32)


def loss(logits, labels):
    """The mean of −log p at the label."""
    log_p = ops.log_softmax(logits)
    return -ops.mean(ops.take_along_axis(log_p, labels[:, None], axis=1))


def prepare(config: SpiralsConfig) -> Job:
    model = MLP.init(jax.random.key(config.seed), (2, config.hidden, config.hidden, 2), config.activation)
    shape = config.turns, config.noise
    training = wound(generator(config, "training"), config.examples, *shape)
    held_back = wound(generator(config, "validation"), max(2, config.examples // 4), *shape)
    classify = chances(model)

    def report(params: Params, folder: Path) -> Report:
        accuracy = float(np.mean(classify(params, held_back[0]).argmax(1) == held_back[1]))
        text = f"accuracy on {len(held_back[1])} points of the validation split: {accuracy:.1%}"
        if can_plot():
            plot_boundary(folder / "boundary.png", partial(classify, params), held_back, f"{config.preset}, seed {config.seed}; {text}")
        return Report(text, {"accuracy": accuracy})

    adamw = nn.adamw(config.rate, weight_decay=config.weight_decay)
    return supervised(config, model, loss, adamw, training, held_back, {}, "nats", report)


def plot_boundary(path: Path, classify, examples, title: str) -> None:
    """The chance of the second spiral as colour, the line where it is a half, and the points with those taken wrongly marked."""
    from matplotlib.figure import Figure  # without pyplot: no window, no state

    points, labels = examples
    side = np.linspace(-1, 1, GRID) * max(1.15, 1.05 * float(np.abs(points).max()))
    rows = (np.stack([side, np.full(GRID, y)], 1).astype(np.float32) for y in side)
    chance = np.stack([classify(row)[:, 1] for row in rows])  # row by row: one small program
    figure = Figure(figsize=(7.5, 7), layout="constrained")
    axes = figure.add_subplot()
    filled = axes.contourf(side, side, chance, levels=np.linspace(0, 1, 21), cmap="RdYlBu_r", alpha=0.55)
    if chance.min() < 0.5 < chance.max():
        axes.contour(side, side, chance, levels=[0.5], colors="black", linewidths=1.2)
    for label, colour in enumerate(COLOURS):
        axes.scatter(*points[labels == label].T, s=14, color=colour, edgecolors="white", linewidths=0.4, label=f"spiral {label}")
    wrong = classify(points).argmax(1) != labels
    if wrong.any():
        axes.scatter(*points[wrong].T, s=70, facecolors="none", edgecolors="black", label="taken for the other")
    axes.set(xlabel="x", ylabel="y", title=title, aspect="equal")
    axes.legend(loc="upper right")
    figure.colorbar(filled, ax=axes, shrink=0.8, ticks=[0, 0.25, 0.5, 0.75, 1], label="chance of spiral 1")
    with replacing(path) as beside:
        figure.savefig(beside, dpi=110)
