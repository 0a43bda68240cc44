"""What each command of the command line takes and does. A command is a function from its arguments to an exit code."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, make_dataclass
from typing import Annotated, Any, NamedTuple

import tyro

from ..lib.corpora import NAMED, fetch
from ..lib.errors import UnknownName, near
from .checkpoint import FOLDER as CHECKPOINTS
from .config import RunConfig
from .loop import Result
from .loop import train as train_run
from .machine import Machine, settle
from .output import say, visible
from .parsing import parse
from .plot import MISSING, can_plot
from .presets import language_settings
from .progress import progress
from .small.config import SMALL, SmallConfig
from .small.train import train as train_small

BENCHES = {  # name: module of experiments/bench with main(argv)
    "gpt2-step": "gpt2_step",
    "eager": "eager",
    "scan": "scan",
    "loop": "loop",
    "loader": "loader",
    "run-overhead": "run_overhead",
    "import": "import_time",
    "verdict": "verdict",
    "tokenizer": "tokenizer",
    "generate": "generate",
}


@dataclass(frozen=True)
class Train:
    """Train a model. The last line printed is the folder of the run.

    The small presets fruit, toy-regression and spirals have other settings than those below: see `pullback train fruit --help`.
    """

    config: Annotated[RunConfig, tyro.conf.arg(name=""), tyro.conf.FlagConversionOff] = field(default_factory=RunConfig)
    out: Annotated[str | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder of the run, absent or empty; a new runs/PRESET-NNN if not given."""
    machine: Annotated[Machine, tyro.conf.arg(name="")] = field(default_factory=Machine)


@dataclass(frozen=True)
class Data:
    """Fetch a named data set, unless it is there. The last line printed is its file.

    `pullback data prepare` makes a token file of texts: see `pullback data prepare --help`.
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """tinyshakespeare."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print one JSON object on standard output and nothing else there."""


def train(argv: Sequence[str]) -> int:
    small, rest = small_preset(argv)
    given: Any = parse(asking(SMALL[small]), rest, f"train {small}") if small else language_settings(Train, argv, "train")
    settle(given.machine)
    return tell((train_small if small else train_run)(given.config, given.out, progress()), given.machine.json)


def tell(result: Result, as_json: bool) -> int:
    """Say what a run came to, and give its exit code."""
    if as_json:
        say(**summary(result))
    else:
        print(*([visible(result.sample), ""] if result.sample else []), result.folder, sep="\n")
    if not can_plot():
        print(MISSING, file=sys.stderr)
    if result.interrupted:
        more = f"; go on with: pullback resume {result.folder}" if (result.folder / CHECKPOINTS).is_dir() else ""
        print(f"pullback: interrupted after {result.steps:,} of {result.config.steps:,} steps{more}", file=sys.stderr)
    return 130 if result.interrupted else 0


def small_preset(argv: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """(the small preset that is named, if one is, the other arguments): the first word, or a later one that is no option's value."""
    alone = ("--json", "--no-json", "--help", "-h")
    for i, (before, word) in enumerate(zip(["", *argv], argv)):
        is_value = before.startswith("--") and "=" not in before and before not in alone
        if word in SMALL and not is_value:
            return word, [*argv[:i], *argv[i + 1 :]]
        if i == 0 and not word.startswith("-"):
            break
    return None, argv


def asking(small: SmallConfig) -> type:
    """`Train` with the settings of a small preset."""
    config = ("config", Annotated[type(small), tyro.conf.arg(name="")], field(default=small))
    text = f"{small.__doc__}\n\nThe last line printed is the folder of the run."
    return make_dataclass("Train", [config], bases=(Train,), namespace={"__doc__": text}, frozen=True)


def summary(result: Result) -> dict[str, Any]:
    """What --json says of a run."""
    config = result.config
    is_small = isinstance(config, SmallConfig)
    return {
        "run": str(result.folder),
        "preset": config.preset,
        "steps": result.steps,
        "interrupted": result.interrupted,
        "parameters": result.record["parameters"],
        **({"examples": result.steps * config.batch} if is_small else {"tokens": result.steps * config.tokens_per_step}),
        "loss": result.last and result.last.loss,
        "val_loss": result.val_loss,
        "seconds": round(result.seconds, 3),
        "compile_seconds": result.record["step"]["compile_seconds"],
        **({"report": result.sample, **result.measures} if is_small else {"sample": result.sample}),
    }


def data(argv: Sequence[str]) -> int:
    if argv[:1] == ["prepare"]:
        return later("prepare")(argv[1:])
    given = parse(Data, argv, "data")
    if given.name not in NAMED:
        raise UnknownName(f"no data set {given.name!r}" + near(given.name, NAMED))
    show = progress()
    show.start(NAMED[given.name].size, "byte")
    try:
        path = fetch(given.name, lambda done, total: show.at(done))
    finally:
        show.close()
    if given.json:
        say(name=given.name, path=str(path), sha256=NAMED[given.name].sha256, bytes=NAMED[given.name].size)
    else:
        print(path)
    return 0


def bench(argv: Sequence[str]) -> int:
    there = benches()
    if not argv or argv[0] in ("-h", "--help"):
        print(f"usage: pullback bench NAME [--help]\n\nNAME: {', '.join(there)}")
        return 0
    if argv[0] not in there:
        raise UnknownName(f"no bench {argv[0]!r}" + near(argv[0], there))
    return importlib.import_module(there[argv[0]]).main(list(argv[1:])) or 0


def benches() -> dict[str, str]:
    """Name to module of the benches that are there."""
    folder = f"{__package__}.bench."
    return {name: folder + module for name, module in BENCHES.items() if importlib.util.find_spec(folder + module)}


def later(module: str) -> Callable[[Sequence[str]], int]:
    """The command of a module of its own, imported when it is called."""
    return lambda argv: importlib.import_module(f"{__package__}.{module}").main(argv)


class Command(NamedTuple):
    run: Callable[[Sequence[str]], int]
    does: str


COMMANDS = {
    "train": Command(train, "train a model: train [PRESET] [--steps N --model.layers 4 ...] [--out DIR]"),
    "resume": Command(later("resume"), "go on with a run that was stopped: resume RUN [--steps N]"),
    "verify": Command(later("verify"), "does a run come out the same again, to the bit: verify RUN [--interrupt 3,17]"),
    "diff": Command(later("diff"), "where two runs or checkpoints first differ: diff A B"),
    "generate": Command(later("generate"), "write on from a prompt: generate RUN|DIR --prompt TEXT"),
    "eval": Command(later("evaluate"), "perplexity of a text: eval RUN|DIR FILE"),
    "check": Command(later("check"), "judge backward rules: check [OP|FILE.py:NAME ...]"),
    "mutate": Command(later("mutate"), "plant mistakes and count the unnoticed: mutate [OP|walk|OPTIMISER ...]"),
    "profile": Command(
        later("profile.command"), "where the time of a step goes: profile [PRESET] [--eager --batch 4 ...] [--out FILE.png]"
    ),
    "report": Command(later("report"), "a page of a run, or of several laid over each other: report RUN ..."),
    "runs": Command(later("runs"), "list runs and where they stand: runs [FOLDER]"),
    "data": Command(data, "fetch a named data set: data tinyshakespeare; make a token file: data prepare FILE... --tokenizer KIND"),
    "bench": Command(bench, "measure: bench NAME"),
}
