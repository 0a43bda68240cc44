"""The numbers of a run as they come: metrics.jsonl, and the same on the screen."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..lib.atomic import reason
from ..lib.errors import ConfigError, PullbackError
from .progress import Progress
from .step import Measured


class Diverged(PullbackError):
    """The loss is no number any more."""


class Metrics(NamedTuple):
    """One line of metrics.jsonl. step: updates done; loss: of this step's batch before its update; val_loss: after it.

    tokens_per_s: where there are no tokens, examples per second.
    """

    step: int
    loss: float
    val_loss: float | None
    lr: float
    grad_norm: float
    tokens_per_s: float


class Log:
    """Writes lines one step behind, so that the device is at the next step while Python waits for the numbers of the last.

    unit: what is counted per step. rate: the setting to lower when the loss is lost.
    """

    def __init__(self, folder: Path, tokens_per_step: int, show: Progress, unit: str = "tokens", rate: str = "schedule.peak"):
        self.path, self.tokens_per_step, self.show, self.unit, self.rate = folder / "metrics.jsonl", tokens_per_step, show, unit, rate
        self.held: tuple | None = None
        self.last: Metrics | None = None
        self.val_loss: float | None = None
        self.step, self.since = 0, time.perf_counter()

    def hold(self, step: int, measured: Measured) -> None:
        """Keep what a step measured, numbers that may not be there yet, for the next `write`."""
        self.held = step, measured

    def write(self, look: Callable[[], float] | None = None) -> None:
        """Write the line that is held, if any. `look` takes the validation loss; its time is not counted into the speed.

        Raises Diverged after the line where the loss is no finite number.
        """
        if self.held is None:
            return
        (step, measured), self.held = self.held, None
        loss = float(measured.loss)  # waits for the device
        now = time.perf_counter()
        speed = self.tokens_per_step * (step - self.step) / (now - self.since)
        good = math.isfinite(loss)
        val_loss = look() if look and good else None
        self.append(Metrics(step, loss, val_loss, float(measured.lr), float(measured.grad_norm), speed))
        if not good:
            raise Diverged(f"the loss is {loss} at step {step}: lower {self.rate}, or look for the op with pb.debug_nans()")
        self.step, self.since = step, time.perf_counter() if look else now

    def append(self, metrics: Metrics) -> None:
        """A number that JSON does not have (NaN, infinity) becomes null."""
        self.last, self.val_loss = metrics, self.val_loss if metrics.val_loss is None else metrics.val_loss
        row = {name: x if x is None or math.isfinite(x) else None for name, x in metrics._asdict().items()}
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            raise ConfigError(f"cannot write {self.path}: {reason(error)}") from None
        seen = "" if self.val_loss is None else f"  validation {self.val_loss:.3f}"
        text = f"loss {metrics.loss:.3f}{seen}  {metrics.tokens_per_s:,.0f} {self.unit}/s"
        self.show.at(metrics.step, text)
        if metrics.val_loss is not None:
            self.show.note(f"step {metrics.step:,}  {text}")
