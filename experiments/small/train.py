"""A run of a small preset, in a folder as a language model's has it.

config.json  provenance.json  metrics.jsonl  loss.png  model.safetensors        as there, without a tokeniser
report.txt         what is printed at the end
boundary.png       spirals: the plane, coloured by class
fit.png            toy-regression: the function and the network
neuron.png         toy-regression: the graph of one neuron
"""

from collections.abc import Callable
from pathlib import Path

from ...lib.atomic import write_text
from ...lib.precision import precision
from ..loop import Result, carry_out
from ..metrics import Log
from ..progress import Progress, Silent
from ..provenance import provenance
from ..run import RUNS, begin, demand_free, demand_writable, make_folder, occupied
from . import fruit, regression, spirals
from .config import SmallConfig, check
from .job import Job, Report

PREPARE: dict[str, Callable[..., Job]] = {
    "fruit": fruit.prepare,
    "toy-regression": regression.prepare,
    "spirals": spirals.prepare,
}


def train(config: SmallConfig, out: str | Path | None = None, show: Progress | None = None) -> Result:
    """A whole run, in the folder `out` or in a new one under runs/; as `pullback.experiments.loop.train` does it.

    Ctrl-C ends it after the step at work, and its report is that of the weights so far.
    """
    check(config)
    demand_writable(RUNS) if out is None else demand_free(out)
    show = show or Silent()
    with precision("float32"):
        job = PREPARE[config.preset](config)
        show.note(f"{config.preset}: {job.record['parameters']:,} parameters, {job.record['data']['training']:,} examples")
        record = job.record | provenance()
        folder = make_folder(out, config.preset)
        with occupied(folder):
            begin(folder, config, None, record)
            log = Log(folder, config.batch, show, "examples", "rate")
            end = carry_out(job, log)
            report = job.report(end.params, folder) if end.whole else Report("", {})
            if report.text:
                write_text(folder / "report.txt", report.text + "\n")
    return Result(folder, config, record, end.steps, log.last, log.val_loss, end.seconds, end.interrupted, report.text, report.measures)
