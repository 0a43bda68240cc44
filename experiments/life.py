"""One life of a run that `pullback verify --interrupt` repeats: begun or resumed, and ended by SIGKILL. Its task comes in JSON."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from .checkpoint import FOLDER, there
from .config import RunConfig, from_record
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


def live(config: RunConfig, folder: Path, kill: int | None) -> None:
    if there(folder / FOLDER):
        resume(folder, Killer(kill))
    else:
        shutil.rmtree(folder, ignore_errors=True)  # killed before its first checkpoint: there is nothing to go on from
        train(config, folder, Killer(kill))


if __name__ == "__main__":
    task = json.load(sys.stdin)
    settle(Machine(**task["machine"]))
    live(from_record(RunConfig, task["config"], "the task"), Path(task["folder"]), task["kill"])
