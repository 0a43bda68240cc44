"""The numbers of a run as they come: metrics.jsonl, and the same on the screen."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
from jax import Array

from ..lib.atomic import reason, write_text
from ..lib.checksum import checksum, hexadecimal
from ..lib.errors import ConfigError, PullbackError
from .columns import rows_of
from .output import without_nan
from .progress import Progress
from .step import Measured, State


class Diverged(PullbackError):
    """The loss is no number any more."""


class Metrics(NamedTuple):
    """One line of metrics.jsonl. step: updates done; loss: of this step's batch before its update; val_loss: after it.

    tokens_per_s: where there are no tokens, examples per second. loss_scale: in float16. checksum: of the parts of the state after
    the step and of its batch, at some steps. The last two are left out where there is none.
    """

    step: int
    loss: float
    val_loss: float | None
    lr: float
    grad_norm: float
    tokens_per_s: float
    loss_scale: float | None = None
    checksum: dict[str, str] | None = None


OPTIONAL = ("loss_scale", "checksum")


@jax.jit
def sums(state: State, batch: tuple) -> dict[str, Array]:
    """What two runs compare: checksums of the parts of a state and of the batch that it came from."""
    parts = {name: part for name, part in state._asdict().items() if part is not None}
    return {name: checksum(part) for name, part in (parts | {"batch": tuple(batch)}).items()}


class Log:
    """Writes lines one step behind, so that the device is at the next step while Python waits for the numbers of the last.

    unit: what is counted per step. rate: the setting to lower when the loss is lost.
    """

    def __init__(self, folder: Path, tokens_per_step: int, show: Progress, unit: str = "tokens", rate: str = "schedule.peak"):
        self.folder, self.path = folder, folder / "metrics.jsonl"
        self.tokens_per_step, self.show, self.unit, self.rate = tokens_per_step, show, unit, rate
        self.held: tuple | None = None
        self.last: Metrics | None = None
        self.val_loss: float | None = None
        self.step, self.since = 0, time.perf_counter()

    def resume(self, step: int) -> None:
        """Go on after `step`: the lines of later steps, which are to be done again, and a line that was cut off go."""
        rows = [row for row in rows_of(self.path) if row["step"] <= step]
        write_text(self.path, "".join(json.dumps(row) + "\n" for row in rows))
        self.step = step
        self.val_loss = next((loss for row in reversed(rows) if (loss := row.get("val_loss")) is not None), None)

    def hold(self, step: int, measured: Measured, sums: dict[str, Array] | None = None) -> None:
        """Keep what a step measured, numbers that may not be there yet, for the next `write`."""
        self.held = step, measured, sums

    def write(self, look: Callable[[], float] | None = None) -> None:
        """Write the line that is held, if any. `look` takes the validation loss; its time is not counted into the speed.

        Raises Diverged after the line where the loss is no finite number.
        """
        if self.held is None:
            return
        (step, measured, sums), self.held = self.held, None
        loss = float(measured.loss)  # waits for the device
        now = time.perf_counter()
        speed = self.tokens_per_step * (step - self.step) / (now - self.since)
        good = math.isfinite(loss)
        val_loss = look() if look and good else None
        scale = None if measured.scale is None else float(measured.scale)
        digits = None if sums is None else {name: hexadecimal(words) for name, words in sums.items()}
        self.append(Metrics(step, loss, val_loss, float(measured.lr), float(measured.grad_norm), speed, scale, digits))
        if not good:
            raise Diverged(f"the loss is {loss} at step {step}: lower {self.rate}, or look for the op with pb.debug_nans()")
        self.step, self.since = step, time.perf_counter() if look else now

    def append(self, metrics: Metrics) -> None:
        """A number that JSON does not have (NaN, infinity) becomes null."""
        self.last, self.val_loss = metrics, self.val_loss if metrics.val_loss is None else metrics.val_loss
        row = {name: x for name, x in without_nan(metrics._asdict()).items() if x is not None or name not in OPTIONAL}
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
