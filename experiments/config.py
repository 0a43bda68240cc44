"""What a run is: frozen dataclasses, changed by the command line, written to config.json and read back field by field."""

import dataclasses
import json
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar, Union

import numpy as np
import tyro

from ..lib.errors import ConfigError, UnknownName, near
from ..lib.precision import POLICIES
from ..lib.tokenisers import KINDS
from ..models.gpt2 import GPT2Config
from ..nn import LossScaling

T = TypeVar("T")

INT32 = 2**31  # seeds and steps are numbers of the compiled step
FLOAT32 = float(np.finfo(np.float32).max)  # and so are rates
DECAYS = ("constant", "linear", "cosine")
ORDERS = ("random", "shuffled", "sequential")
FREE = ("steps", "validate_every", "validate_batches", "log_every", "checkpoint_every", "keep", "checksum_every", "sample_tokens")
"""Settings that decide no number of a step: a run may be resumed under others."""


@dataclass(frozen=True)
class ScheduleConfig:
    """The learning rate by step: up a line from peak/(warmup + 1), so that the first step moves too, then down to `end`."""

    kind: str = "cosine"
    """constant, linear or cosine: the way down."""
    peak: float = 1e-3
    """Learning rate at the end of the warm-up."""
    end: float = 1e-4
    """Learning rate at the last step."""
    warmup: int = 100
    """Steps of the warm-up; a run so short that this is more than half of it warms up for half of it."""
    length: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Steps of the whole; as many as the run has if not given. A run that is resumed for more steps keeps the length it began with."""


@dataclass(frozen=True)
class OptimiserConfig:
    """AdamW. Only matrices decay."""

    b1: float = 0.9
    """Memory of the mean of the gradients."""
    b2: float = 0.99
    """Memory of the mean of their squares."""
    eps: float = 1e-8
    """Added to the root of the latter."""
    weight_decay: float = 0.1
    """Fraction of a weight that learning rate 1 takes away in one step."""
    clip: float = 1.0
    """Largest norm of all gradients together; 0 for no limit."""


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides the numbers of a run. The defaults are the baseline that presets differ from."""

    preset: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PRESET")] = "quick"
    """What the other settings differ from: quick, shakespeare-char or gpt2-124m (experiments/presets.py)."""
    data: str = "python-docs"
    """A corpus: python-docs, the name of a data set, a UTF-8 text file, or a token file (`pullback data prepare`)."""
    order: str = "random"
    """Of the training windows: random places, each as likely as any; shuffled, each window once an epoch; or sequential."""
    tokeniser: str = "bytes"
    """bytes, characters, bpe (byte pairs learnt from the corpus, as many as the model's vocabulary has room for) or gpt2."""
    init: Annotated[str | None, tyro.conf.arg(metavar="RUN|DIR")] = None
    """Begin with the weights and the tokeniser of a run, of a folder with GPT-2's weights, or of hf:NAME."""
    init_from: Annotated[str | None, tyro.conf.arg(metavar="RUN|CHECKPOINT|DIR|FILE")] = None
    """Begin with those weights whose names and shapes this model has, and list the others; the tokeniser is not taken."""
    trainable: Annotated[str | None, tyro.conf.arg(metavar="GLOB")] = None
    """Change only the parameters whose names match, as in 'blocks.1[01].*,ln.*'."""
    steps: int = 2000
    """Updates of the weights."""
    batch: int = 12
    """Windows of text per step."""
    accumulate: int = 1
    """Parts of a batch that are computed one after the other, in the memory of one; the numbers are those of the whole."""
    context: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Tokens per window; as many as the model can take if not given."""
    validate_every: int = 250
    """Steps between looks at the validation split."""
    validate_batches: int = 20
    """About how many batches such a look takes; the last step looks at the whole split."""
    log_every: int = 10
    """Steps between lines of metrics.jsonl."""
    checkpoint_every: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Steps between checkpoints; one at each look at the validation split if not given, 0 for none."""
    keep: int = 2
    """Checkpoints that stay, besides the best."""
    checksum_every: int = 100
    """Steps between checksums of the state, for `pullback verify` to compare; the last step has one too. 0 for none."""
    sample_tokens: int = 400
    """Length of the sample that is written at the end."""
    seed: int = 0
    """Decides the first weights, the batches and the dropout."""
    reproducible: bool = True
    """The same bits each time on a GPU too: only ops that can, and kernels chosen once. Elsewhere they are the same either way."""
    precision: str = "float32"
    """float32, tf32, bfloat16 or float16 (with a loss scale); weights and optimiser stay float32."""
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    loss_scale: LossScaling = field(default_factory=LossScaling)
    model: GPT2Config = field(default_factory=GPT2Config)

    @property
    def window(self) -> int:
        """T, the tokens per window."""
        return self.model.context if self.context is None else self.context

    @property
    def schedule_length(self) -> int:
        """Steps that the learning rate is planned for."""
        return self.steps if self.schedule.length is None else self.schedule.length

    @property
    def saving(self) -> int:
        """Steps between checkpoints; 0: none is made."""
        return self.validate_every if self.checkpoint_every is None else self.checkpoint_every

    @property
    def tokens_per_step(self) -> int:
        return self.batch * self.window


def check(config: RunConfig) -> RunConfig:
    """The config itself, or a ConfigError that names the first setting that cannot be used."""
    for name in ("steps", "batch", "accumulate", "validate_every", "validate_batches", "log_every", "keep"):
        demand(name, getattr(config, name), lambda n: 1 <= n < INT32, f"from 1 to {INT32 - 1}")
    demand("checkpoint_every", config.saving, lambda n: 0 <= n < INT32, f"from 0 to {INT32 - 1}")
    for name in ("checksum_every", "sample_tokens", "seed"):
        demand(name, getattr(config, name), lambda n: 0 <= n < INT32, f"from 0 to {INT32 - 1}")
    among("tokeniser", config.tokeniser, KINDS)
    among("order", config.order, ORDERS)
    among("precision", config.precision, POLICIES)
    among("schedule.kind", config.schedule.kind, DECAYS)
    if config.batch % config.accumulate:
        raise ConfigError(f"accumulate is {config.accumulate}; it must divide the batch, which is {config.batch}")
    demand("schedule.length", config.schedule_length, lambda n: 1 <= n < INT32, f"from 1 to {INT32 - 1}")
    demand("context", config.window, lambda n: n >= 1, "at least 1")
    if config.init is not None and config.init_from is not None:
        raise ConfigError("init and init_from are both given; init takes a model whole, init_from what fits of it: leave one out")
    if config.init is None:  # else the model is that of the weights, which are yet to be read
        demand_window(config)
    for name in ("peak", "end"):
        demand(f"schedule.{name}", getattr(config.schedule, name), at_least_0, "a float32, 0 or more")
    demand("schedule.warmup", config.schedule.warmup, lambda n: n >= 0, "0 or more")
    for name in ("b1", "b2"):
        demand(f"optimiser.{name}", getattr(config.optimiser, name), lambda x: 0 <= x < 1, "from 0 up to, but not, 1")
    for name in ("eps", "weight_decay", "clip"):
        demand(f"optimiser.{name}", getattr(config.optimiser, name), at_least_0, "a float32, 0 or more")
    return config


def demand_window(config: RunConfig) -> None:
    if config.window > config.model.context:
        raise ConfigError(f"context is {config.window}; it must be at most model.context, which is {config.model.context}")


def at_least_0(x: float) -> bool:
    return 0 <= x <= FLOAT32


def demand(name: str, value, allowed: Callable[[Any], bool], expected: str) -> None:
    if not allowed(value):
        raise ConfigError(f"{name} is {value}; it must be {expected}")


def among(name: str, value: str, known: typing.Iterable[str]) -> None:
    if value not in known:
        raise UnknownName(f"no {name} {value!r}" + near(value, known))


def to_record(config) -> dict[str, Any]:
    """What config.json holds."""
    return dataclasses.asdict(config)


def from_record(kind: type[T], record: Any, where: str) -> T:
    """The dataclass `kind` from what JSON held: every field there, none besides, each of its type. `where` is for the error."""
    if not isinstance(record, dict):
        raise ConfigError(f"{where}: expected an object with the fields of {kind.__name__}; got {shown(record)}")
    hints = typing.get_type_hints(kind)
    for name in record:
        if name not in hints:
            raise ConfigError(f"{where}: no field {shown(name)}" + near(name, hints))
    for name in hints:
        if name not in record:
            raise ConfigError(f"{where}: the field {name!r} is missing")
    return kind(**{name: typed(hint, record[name], f"{where}: {name}") for name, hint in hints.items()})


def typed(hint: Any, value: Any, where: str):
    """The value as the type `hint`: bool, int, float (an integer will do), str, a dataclass, or a union of these and None."""
    if dataclasses.is_dataclass(hint):
        return from_record(typing.cast(type, hint), value, where)
    options = typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)
    if type(value) in options:
        return value
    if float in options and type(value) is int and abs(value) < 2**53:
        return float(value)
    names = " or ".join("null" if option is types.NoneType else option.__name__ for option in options)
    raise ConfigError(f"{where} is {shown(value)}; expected {names}")


def shown(value: Any) -> str:
    """A stranger's value, short and on one line."""
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
