"""The loss curve of a run."""

import importlib.util
from pathlib import Path

from ..lib.atomic import replacing
from .columns import rows_of

MISSING = "pictures were left out, since matplotlib is not installed: pip install 'pullback[plots]'"


def can_plot() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def plot_loss(folder: Path, title: str, unit: str = "nats per token") -> None:
    """metrics.jsonl as loss.png: training loss as it came and smoothed, validation loss as points."""
    from matplotlib.figure import Figure  # without pyplot: no window, no state

    rows = list(rows_of(folder / "metrics.jsonl"))
    losses = [(row["step"], row["loss"]) for row in rows if row["loss"] is not None]
    looked = [(row["step"], row["val_loss"]) for row in rows if row["val_loss"] is not None]
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    if losses:
        steps, values = zip(*losses)
        axes.plot(steps, values, color="tab:blue", alpha=0.3, linewidth=1, label="training, each batch")
        axes.plot(steps, smoothed(values), color="tab:blue", linewidth=1.8, label="training, smoothed")
    if looked:
        axes.plot(*zip(*looked), "o-", color="tab:orange", markersize=4, label=f"validation, {looked[-1][1]:.3f} at the end")
    axes.set(xlabel="step", ylabel=f"loss ({unit})", title=title)
    axes.grid(alpha=0.3)
    if losses:
        axes.legend(frameon=False)
    with replacing(folder / "loss.png") as beside:
        figure.savefig(beside, dpi=120)


def smoothed(values) -> list[float]:
    """A moving mean that forgets over a fiftieth of the curve, without the pull of its start."""
    keep = 1 - 1 / max(1, len(values) / 50)
    mean, weight, out = 0.0, 0.0, []
    for value in values:
        mean, weight = keep * mean + (1 - keep) * value, keep * weight + (1 - keep)
        out.append(mean / weight)
    return out
