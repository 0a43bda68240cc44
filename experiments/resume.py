"""`pullback resume`: a run goes on from its last whole checkpoint, to the same numbers as if it had never stopped."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from ..lib.atomic import write_json
from ..lib.errors import ConfigError, PullbackError
from ..lib.precision import precision
from ..lib.tensors import Tensors
from .checkpoint import STATE, Checkpoint, newest
from .commands import tell
from .config import FREE, RunConfig, check, to_record
from .job import Begun, prepare
from .kernels import doubts, kernels_of
from .loop import Result, complete
from .machine import Machine, settle
from .metrics import Log
from .parsing import parse
from .plot import can_plot
from .progress import Progress, Silent, progress
from .provenance import changes as since
from .provenance import last_leg, provenance, record_of, resumed
from .run import occupied, read_run

Count = Annotated[int | None, tyro.conf.arg(metavar="INT")]


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped or killed, or for more steps. Other settings than these it keeps; the last line printed is its
    folder."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder of a run."""
    steps: Count = None
    """Updates of the weights in all; the learning rate stays planned for as many as the run began with."""
    validate_every: Count = None
    """Steps between looks at the validation split."""
    validate_batches: Count = None
    """About how many batches such a look takes."""
    log_every: Count = None
    """Steps between lines of metrics.jsonl."""
    checkpoint_every: Count = None
    """Steps between checkpoints, 0 for none."""
    keep: Count = None
    """Checkpoints that stay, besides the best."""
    checksum_every: Count = None
    """Steps between checksums of the state, 0 for none."""
    sample_tokens: Count = None
    """Length of the sample that is written at the end."""
    loose: tyro.conf.FlagCreatePairsOff[bool] = False
    """Go on though the code, a library or the machine is another, by which the numbers may be others; provenance.json says which."""
    machine: Annotated[Machine, tyro.conf.arg(name="")] = field(default_factory=Machine)


def main(argv: Sequence[str]) -> int:
    given = parse(Resume, argv, "resume")
    settle(given.machine)
    changes = {name: value for name in FREE if (value := getattr(given, name)) is not None}
    return tell(resume(given.run, progress(), given.loose, **changes), given.machine.json)


def resume(path: str | Path, show: Progress | None = None, loose: bool = False, **changes: int) -> Result:
    """The rest of a run, under `changes` of the settings in FREE; of one that has done its steps, what it should have left.

    ConfigError where there is no whole checkpoint, nothing left to do, or where the data, the tokeniser, the rules or a setting is
    not what it was, each difference named; and, unless it is `loose`, where the code, a library or the machine is not.
    """
    show = show or Silent()
    config, words = read_run(path)
    config = check(replace(config, **changes))
    folder = Path(path)
    with occupied(folder), precision(config.precision), kernels_of(folder):
        checkpoint = newest(folder, show.note)
        if checkpoint.step > config.steps or checkpoint.step == config.steps and ended(folder, config, checkpoint):
            raise ConfigError(f"{folder} has done {checkpoint.step:,} of its {config.steps:,} steps; ask for more with --steps")
        record, now = record_of(folder), provenance()
        found = since(last_leg(record), now).deciding + (doubts(folder, reproducible=True) if config.reproducible else [])
        if found and not loose:
            raise ConfigError(f"{folder}: {'; '.join(found)}; the rest of the run may differ: --loose goes on anyway")
        job = prepare(config, show, Begun(checkpoint, words))
        if found:
            write_json(folder / "provenance.json", resumed(record, checkpoint.step, found, now))
            for text in found:
                show.note(f"WARNING: {text}; the rest of the run may differ")
        write_json(folder / "config.json", to_record(job.config))
        log = Log(folder, job.config.tokens_per_step, show)
        log.resume(checkpoint.step)
        show.note(f"going on from step {checkpoint.step:,}")
        return complete(job, log, first=checkpoint.step)


def ended(folder: Path, config: RunConfig, last: Checkpoint) -> bool:
    """Is there all that a run leaves at its end? It may have been killed, or the disk full, after its last checkpoint."""
    files = {"model.safetensors": True, "samples.txt": config.sample_tokens > 0, "loss.png": can_plot()}
    if not all((folder / name).is_file() for name, due in files.items() if due):
        return False
    try:
        weights, state = Tensors(folder / "model.safetensors"), Tensors(last.path / STATE)
        return all(np.array_equal(weights[name], state[f"params/{name}"]) for name in weights.kinds)
    except (PullbackError, KeyError):
        return False
