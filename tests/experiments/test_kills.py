"""A run that saves at every step, killed at any instant, goes on to where it would have come.

PULLBACK_KILLS is the number of kills, by tens: 10 if not given.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace

import jax
import pytest

from pullback.experiments.checkpoint import FOLDER, newest, restore, there, unfinished
from pullback.experiments.config import to_record
from pullback.experiments.loop import train
from pullback.experiments.machine import Machine
from pullback.experiments.metrics import sums
from pullback.experiments.resume import resume
from pullback.experiments.step import first_state
from pullback.lib.checksum import hexadecimal

CHAINS = max(1, int(os.environ.get("PULLBACK_KILLS", 10)) // 10)
WINDOW = 0.3  # seconds after a life's first checkpoint in which it is killed: some saves
LONGEST = 60.0  # seconds that a life may take to its first checkpoint, where others are at work on the machine


@pytest.fixture(scope="module")
def config(tiny):
    """A checkpoint of 5 MB, so that a step is for the most part saving."""
    model = replace(tiny.model, width=192, dropout=0.1)
    return replace(
        tiny, steps=120, batch=2, validate_every=60, log_every=1, checksum_every=1, checkpoint_every=1, sample_tokens=0, model=model
    )


@pytest.fixture(scope="module")
def straight(config, compiled_once, tmp_path_factory):
    return train(replace(config, checkpoint_every=0), tmp_path_factory.mktemp("straight") / "run")


def life(config, folder) -> subprocess.Popen:
    """A process that begins the run or goes on with it."""
    task = {"config": to_record(config), "folder": str(folder), "run": str(folder), "kill": None, "machine": asdict(Machine())}
    process = subprocess.Popen([sys.executable, "-m", "pullback.experiments.life"], stdin=subprocess.PIPE, text=True)
    assert process.stdin
    process.stdin.write(json.dumps(task))
    process.stdin.close()
    return process


def last(folder) -> int:
    return max((int(path.name) for path in there(folder / FOLDER)), default=0)


def killed(config, folder, delay: float) -> bool:
    """One life, killed so many seconds after its first checkpoint; False if it came to its end before."""
    before, process, began = last(folder), life(config, folder), time.monotonic()
    while last(folder) == before and process.poll() is None:
        assert time.monotonic() - began < LONGEST, "no checkpoint"
        time.sleep(0.002)
    time.sleep(delay)
    process.kill()
    code = process.wait()
    assert code in (0, -signal.SIGKILL), "it ended by itself"
    return code != 0


@pytest.mark.usefixtures("compiled_once", "remembered")
@pytest.mark.parametrize("chain", range(CHAINS))
def test_killed_at_any_instant_it_goes_on_to_the_same(config, straight, rows, chain, tmp_path, record_property):
    """Each life begins where the one before was killed. After each: every checkpoint that has its name is whole, the last holds
    the state that the straight run had at that step, and all lines are those of the straight run. A chain has ten kills, and
    more until one of them has hit a save."""
    right, draw, kills, hits, runs = {row["step"]: row for row in rows(straight.folder)}, random.Random(chain), 0, 0, 0
    shapes = jax.eval_shape(lambda: first_state(straight.config))
    while kills < 10 or not hits:
        assert kills < 50, "no kill has hit a save"
        folder = tmp_path / f"run{runs}"
        if not killed(config, folder, draw.uniform(0, WINDOW)):
            assert rows(folder) == list(right.values())
            runs += 1
            continue
        kills += 1
        hits += bool(unfinished(folder / FOLDER))
        found = newest(folder, pytest.fail)
        parts = sums(restore(found, shapes), ())
        assert {name: hexadecimal(parts[name]) for name in ("params", "optimiser")}.items() <= right[found.step]["checksum"].items()
        lines = rows(folder)
        assert lines == [right[step] for step in range(1, len(lines) + 1)] and len(lines) >= found.step
    folder = tmp_path / f"run{runs}"
    resume(folder, checkpoint_every=0)
    assert rows(folder) == list(right.values())
    assert (folder / "model.safetensors").read_bytes() == (straight.folder / "model.safetensors").read_bytes()
    assert not unfinished(folder / FOLDER)
    print(f"{kills} kills, {hits} of them during a save; {runs} runs ended before they were killed")
    record_property("during a save", f"{hits} of {kills}")
