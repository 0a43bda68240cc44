"""`pullback bench gpt2-step`: one training step of a GPT-2, ours beside JAX's autodiff and beside PyTorch."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...lib.errors import ConfigError, UnknownName, near
from ..parsing import parse
from .harness import alternating, compared, median, show
from .rivals.recipe import SHAPES

RIVALS = Path(__file__).parent / "rivals"
PROGRAMS = {
    "jax-plain": ["jax_plain.py"],
    "jax-tuned": ["jax_tuned.py"],
    "torch-eager": ["torch_gpt2.py", "--mode", "eager"],
    "torch-compile": ["torch_gpt2.py", "--mode", "compile"],
}
FIGURES = ("step_s", "best_s", "compile_s", "temp_bytes", "page_faults", "peak_bytes")
COLUMNS = {
    "step ms": ("step_s", 1e3, ",.1f"),
    "compile s": ("compile_s", 1, ",.2f"),
    "temp MiB": ("temp_bytes", 2**-20, ",.0f"),
    "faults/step": ("page_faults", 1, ",.0f"),
    "peak MiB": ("peak_bytes", 2**-20, ",.0f"),
}


@dataclass(frozen=True)
class Options:
    """One GPT-2 training step, ours and each rival in processes of their own, alternating; medians of the rounds.

    Ratios are ours over theirs: step, compile (trace + lower + compile) and XLA's temporary memory. JAX programs share our
    allocator setting; torch runs as its users run it, and once more under ours as NAME+arena.
    """

    preset: Literal["gpt2-124m", "shakespeare-char"] = "gpt2-124m"
    batch: int | None = None
    time: int | None = None
    against: str = ""  # rivals by name, with commas; all that can run if empty
    rounds: int = 3
    steps: int | None = None  # timed per round
    arena: Literal["on", "off"] = "on"
    json: bool = False


def rivals_of(against: str) -> list[str]:
    """The rivals that were asked for, or all that can run here."""
    torch = importlib.util.find_spec("torch") is not None
    names = [*PROGRAMS, *(f"{name}+arena" for name in PROGRAMS if name.startswith("torch"))]
    if not against:
        return [name for name in names if torch or not name.startswith("torch")]
    asked = [name.strip() for name in against.split(",") if name.strip()]
    for name in asked:
        if name not in names:
            raise UnknownName(f"no rival {name!r}" + near(name, names))
        if name.startswith("torch") and not torch:
            raise ConfigError(f"{name} needs PyTorch; install it beside Pullback, or leave it out of --against")
    return asked


def main(argv: Sequence[str]) -> int:
    options = parse(Options, argv, "bench gpt2-step")
    for name in ("batch", "time", "steps", "rounds"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ConfigError(f"{name} is {value}; expected at least 1")
    context = SHAPES[options.preset].context
    if (options.time or 1) > context:
        raise ConfigError(f"time is {options.time}; the context of {options.preset} is {context}")
    arena, shape = options.arena == "on", ["--shape", options.preset]
    for name in ("batch", "time", "steps"):
        if getattr(options, name) is not None:
            shape += [f"--{name}", str(getattr(options, name))]
    programs = {"pullback": (["-m", "pullback.experiments.bench.ours", *shape], arena)}
    for name in rivals_of(options.against):
        script, *flags = PROGRAMS[name.removesuffix("+arena")]
        ours_too = name.startswith("jax") and arena or name.endswith("+arena")
        programs[name] = ([str(RIVALS / script), *shape, *flags], ours_too)
    lines = alternating(programs, options.rounds)
    figures = {name: {key: median(rounds, key) for key in FIGURES} | {"losses": rounds[0]["losses"]} for name, rounds in lines.items()}
    result = compared(figures, {"step": "step_s", "compile": "compile_s", "temp": "temp_bytes"})
    recipe = lines["pullback"][0]["recipe"]
    result["settings"] = {"recipe": recipe, "arena": options.arena, "rounds": options.rounds, "versions": lines["pullback"][0]["versions"]}
    show(result, f"{options.preset}, batch {recipe['batch']}, time {recipe['time']}, arena {options.arena}", COLUMNS, options.json)
    return 0
