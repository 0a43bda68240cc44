"""One life of a run that `pullback verify --interrupt` repeats: begun or resumed, and ended by SIGKILL. Its task comes in JSON."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from .checkpoint import FOLDER, there
from .config import RunConfig, from_record
from .kernels import kernels_of
from .loop import train
from .machine import Machine, settle
from .progress import Silent
from .resume import resume


class Killer(Silent):
    """Ends the process when the line of this step is written, and its checkpoint not yet begun."""

    def __init__(self, step: int | None):
        self.step = step

    def at(self, done: int, text: str = "") -> None:
        if done == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


def live(config: RunConfig, folder: Path, run: Path, kill: int | None) -> None:
    """run: the one that is repeated in `folder`."""
    if there(folder / FOLDER):
        resume(folder, Killer(kill), loose=True)  # what has changed since the run was made is noted by who asked for it
    else:
        shutil.rmtree(folder, ignore_errors=True)  # killed before its first checkpoint: there is nothing to go on from
        with kernels_of(run):
            train(config, folder, Killer(kill))


if __name__ == "__main__":
    task = json.load(sys.stdin)
    settle(Machine(**task["machine"]))
    live(from_record(RunConfig, task["config"], "the task"), Path(task["folder"]), Path(task["run"]), task["kill"])
