"""`pullback bench scan`: forward and backward of a stack of transformer blocks as one loop, beside JAX's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..parsing import parse
from .gpt2_step import COLUMNS, FIGURES, RIVALS
from .harness import alternating, compared, median, show


@dataclass(frozen=True)
class Options:
    """12 blocks of GPT-2 124M by `pb.scan`, beside `jax.lax.scan` with `jax.checkpoint` under autodiff. Ratios are ours over theirs."""

    preset: Literal["gpt2-124m", "shakespeare-char"] = "gpt2-124m"
    rounds: int = 3
    arena: Literal["on", "off"] = "on"
    json: bool = False


def main(argv: Sequence[str]) -> int:
    options = parse(Options, argv, "bench scan")
    arena, shape = options.arena == "on", ["--shape", options.preset]
    programs = {
        "pullback": (["-m", "pullback.experiments.bench.ours_scan", *shape], arena),
        "jax-scan": ([str(RIVALS / "jax_scan.py"), *shape], arena),
    }
    lines = alternating(programs, options.rounds)
    figures = {name: {key: median(rounds, key) for key in FIGURES} | {"losses": rounds[0]["losses"]} for name, rounds in lines.items()}
    result = compared(figures, {"step": "step_s", "compile": "compile_s", "temp": "temp_bytes"})
    show(result, f"scan over the blocks of {options.preset}, arena {options.arena}", COLUMNS, options.json)
    return 0
