"""Settings with a name. A preset is a difference from the baseline, `RunConfig()`, or from another preset; never a copy.

These are the language models. The small presets have settings of their own: small/config.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..lib.errors import UnknownName, near
from ..models.gpt2 import GPT2Config
from .config import OptimiserConfig, RunConfig, ScheduleConfig
from .parsing import parse
from .small.config import SMALL

BASELINE = RunConfig()

# nanoGPT's recipe for a CPU, published there at a (sampled) validation loss of 1.88. 804,096 parameters. One thing is otherwise: the
# weights start as in OpenAI's code. Started as nanoGPT does, seeds 1 to 7 ended at 1.906 on average (1.898 to 1.915).
SHAKESPEARE_CHAR = replace(
    BASELINE,
    preset="shakespeare-char",
    data="tinyshakespeare",
    tokeniser="characters",
    model=GPT2Config(layers=4, heads=4, width=128, context=64, vocab=65, bias=False, initialisation="released"),
)

# Under two minutes on two cores, without a network: the Python language reference in byte pairs that are learnt from it. After
# 1,500 steps it is at a validation loss of 4.65 a token, 1.31 a byte; without dropout it learns the corpus by heart (4.74).
QUICK = replace(
    SHAKESPEARE_CHAR,
    preset="quick",
    data=BASELINE.data,
    tokeniser="bpe",
    steps=1500,
    schedule=ScheduleConfig(peak=3e-3, end=3e-4),
    model=replace(SHAKESPEARE_CHAR.model, vocab=2048, dropout=0.1),
)

# The full model, for measuring a step and, with --init, for fine-tuning; from random weights it wants a rate of 6e-4.
GPT2_124M = replace(
    BASELINE,
    preset="gpt2-124m",
    tokeniser="gpt2",
    batch=4,
    context=64,
    validate_every=40,
    sample_tokens=64,
    schedule=ScheduleConfig(peak=5e-5, end=5e-6),
    optimiser=OptimiserConfig(b2=0.95),
)

PRESETS = {config.preset: config for config in (QUICK, SHAKESPEARE_CHAR, GPT2_124M)}


def preset(name: str) -> RunConfig:
    if name not in PRESETS:
        raise UnknownName(f"no preset {name!r}" + near(name, [*PRESETS, *SMALL]))
    return PRESETS[name]


def language_settings(start: Callable[[RunConfig], Any], argv: Sequence[str], command: str) -> Any:
    """`start(config)` of the preset that `argv` names, and what `argv` changes of it. It is a dataclass whose `config` that is."""
    named = argv[0] if argv and not argv[0].startswith("-") else BASELINE.preset
    default = start(preset(named))
    given = parse(type(default), argv, command, default)
    if given.config.preset != named:  # it came after the options
        default = start(preset(given.config.preset))
        given = parse(type(default), argv, command, default)
    return given
