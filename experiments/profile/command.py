"""`pullback profile`: where the time of a training step goes.

Random tokens stand for a corpus; all else is a step of `pullback train`: dropout, accumulation, clipping, optimiser. Without --eager
it is the compiled program, and XLA's instructions are what is measured. A fusion is one instruction, whatever ops it has taken
parts of, and counts for the one that its result comes from.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from ...autograd import Compiled
from ...lib.errors import ConfigError
from ...lib.precision import precision
from ..config import RunConfig, check
from ..job import demand_room, planned
from ..machine import Machine, settle
from ..output import say
from ..plot import can_plot
from ..presets import PRESETS, language_settings
from ..progress import Progress, progress
from ..provenance import provenance
from ..rates import Rates, rates
from ..run import demand_place
from ..small.config import SMALL
from ..step import State, first_state, training_step
from . import eager, trace
from .flame import plot_flame
from .hlo import Program
from .rows import Profile, compiled_rows, eager_rows, runs_others
from .table import print_profile

STEPS, WARM = 10, 2


@dataclass(frozen=True)
class Options:
    """Where the time of a training step goes, by scope and op, forward and backward; with products per second, bytes per second, and
    the shares that these are of what the machine does at its best.

    The settings are those of `pullback train`. The step is made of random tokens: `data` is not read. `steps` are measured twice,
    once unwatched.
    """

    config: Annotated[RunConfig, tyro.conf.arg(name=""), tyro.conf.FlagConversionOff] = field(default_factory=RunConfig)
    eager: tyro.conf.FlagCreatePairsOff[bool] = False
    """Op by op, each waited for, instead of the compiled program."""
    each_layer: tyro.conf.FlagCreatePairsOff[bool] = False
    """Tell each layer by itself, not all of one kind as one."""
    out: Annotated[str | None, tyro.conf.arg(metavar="FILE.png")] = None
    """Draw the profile, too: the scopes of the model from top to bottom, as wide as their time."""
    machine: Annotated[Machine, tyro.conf.arg(name="")] = field(default_factory=Machine)


def main(argv: Sequence[str]) -> int:
    if small := [word for word in argv[:1] if word in SMALL]:
        raise ConfigError(f"profile: {small[0]} is no language model; expected one of {', '.join(PRESETS)}")
    given = language_settings(lambda config: Options(replace(config, steps=STEPS)), argv, "profile")
    config = demanded(check(given.config), given.out)
    settle(given.machine)
    with precision(config.precision):
        parameters, show = demand_room(config), progress()
        show.note(f"{config.preset}: {parameters:,} parameters; measuring the machine, compiling")
        best = rates()
        profile = (eager_profile if given.eager else compiled_profile)(config, show)
    device = provenance()["device"]
    if given.out:
        plot_flame(given.out, profile, title(config, profile, device), given.each_layer)
    if given.machine.json:
        say(**record(config, profile, best, device, given.out))
    else:
        print(title(config, profile, device))
        print_profile(profile, best, given.each_layer)
    return 0


def demanded(config: RunConfig, out: str | None) -> RunConfig:
    """The config of the step that is measured; ConfigError where that cannot be."""
    if config.init is not None or config.init_from is not None:
        option = "--init" if config.init is not None else "--init-from"
        raise ConfigError(f"profile takes no {option}: a step takes as long whatever the weights are; set the model's shape by --model.*")
    if out is not None:
        demand_place(out, ".png")
        if not can_plot():
            raise ConfigError("pictures need matplotlib: pip install 'pullback[plots]'")
    return config


def compiled_profile(config: RunConfig, show: Progress) -> Profile:
    step, state, batch = first(config)
    planned(config, step, state, batch)
    program = Program(step.text(state, 0, *batch))
    run = runner(step, state, batch, show, 2 * config.steps + WARM)
    try:
        step_s = unwatched(run, config.steps)
        data = trace.recorded(run, config.steps)
    finally:
        show.close()
    done, windows = trace.works(data, program.name)
    rows = compiled_rows(program, trace.shares(done, windows, runs_others(program)), len(windows))
    return Profile("compiled", step_s, sum(end - start for start, end in windows) / len(windows) / 1e9, rows)


def eager_profile(config: RunConfig, show: Progress) -> Profile:
    """With accumulation, of one of the parts: what follows the first pullback counts as backward, or as update."""
    config = replace(config, batch=config.batch // config.accumulate, accumulate=1)
    step, state, batch = first(config)
    run = runner(step.f, state, batch, show, 2 * config.steps + WARM + 1)
    del state  # the step does not use it up
    try:
        step_s = unwatched(run, config.steps)
        found = eager.costs(run)
        seconds, whole = eager.timed(run, config.steps)
    finally:
        show.close()
    return Profile("eager", step_s, whole / config.steps, eager_rows(seconds, found, config.steps))


def first(config: RunConfig) -> tuple[Compiled, State, tuple]:
    """(the step, its first state, a batch of random tokens)."""
    shape = config.batch, config.window + 1
    tokens = np.random.default_rng(config.seed).integers(0, config.model.vocab, shape, np.int32)
    return training_step(config), first_state(config), (jnp.asarray(tokens[:, :-1]), jnp.asarray(tokens[:, 1:]))


def runner(step: Callable, state: State, batch: tuple, show: Progress, total: int) -> Callable[[int], object]:
    """A call carries out one step and waits for it."""
    done = 0

    def run(i: int):
        nonlocal state, done
        state, measured = jax.block_until_ready(step(state, i, *batch))
        done += 1
        show.at(done)
        return measured

    show.start(total, "step")
    return run


def unwatched(run: Callable[[int], object], steps: int) -> float:
    """Median seconds of so many steps, after some that are not counted."""
    seconds = []
    for i in range(WARM + steps):
        began = time.perf_counter()
        run(i)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[WARM:])


def title(config: RunConfig, profile: Profile, device: str) -> str:
    parts = f", one of {config.accumulate} parts" if config.accumulate > 1 and profile.how == "eager" else ""
    how = {"compiled": "compiled", "eager": "op by op"}[profile.how]
    size = f"batch {config.batch} by {config.window} tokens{parts}, {config.precision}"
    return f"{config.preset}: {size}, {how}: {1e3 * profile.step_s:,.1f} ms a step on {device}"


def record(config: RunConfig, profile: Profile, best: Rates, device: str, out: str | None) -> dict:
    """What --json says. See `Row` for the rows."""
    return {
        "preset": config.preset,
        "how": profile.how,
        "device": device,
        "batch": config.batch,
        "context": config.window,
        "accumulate": config.accumulate,
        "precision": config.precision,
        "steps": config.steps,
        "step_ms": 1e3 * profile.step_s,
        "watched_ms": 1e3 * profile.watched_s,
        "attributed": profile.attributed,
        "directions": profile.by_direction(),
        "product_gflop_s": best.product / 1e9,
        "read_gb_s": best.read / 1e9,
        "rows": [row.as_json(best) for row in profile.rows],
        "merged": [row.as_json(best) for row in profile.merged()],
        "picture": out,
    }
