"""`pullback bench generate`: text from GPT-2 124M, ours beside Hugging Face transformers."""

import importlib.util
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import jax

from ...models import gpt2_weights
from ...models.gpt2 import GPT2, SIZES
from ..parsing import parse
from .harness import alternating, compared, median, show

# figure: the name of its ratio. Of a time a ratio wants to be below 1, of a rate above.
FIGURES = {
    "decode_tok_s": "decode",
    "decode8_tok_s": "decode8",
    "prefill_s": "prefill",
    "first_token_s": "first_token",
    "load_s": "load",
}
OWN = ("bandwidth_fraction", "matvec_gb_s", "bfloat16_decode_tok_s")


@dataclass(frozen=True)
class Options:
    """Random weights of the published shape, read by each program from one folder; fresh processes that take turns; medians of the
    rounds. Decode: tokens per second for a prompt of 16 tokens and 128 more, alone and 8 at once. Prefill: 512 tokens to the next
    one. First token: 16 tokens to the next one, the program being there. Load: seconds from a folder to a ready model. bfloat16:
    our decode from a file of that dtype."""

    rounds: int = 3
    arena: Literal["on", "off"] = "on"
    json: bool = False


def main(argv: Sequence[str]) -> int:
    options = parse(Options, argv, "bench generate")
    arena, rivals = options.arena == "on", Path(__file__).parent / "rivals"
    ours = ["-m", "pullback.experiments.bench.ours_generate"]
    with tempfile.TemporaryDirectory() as place:
        folder, narrow = Path(place) / "float32", Path(place) / "bfloat16"
        for path, dtype in ((folder, "float32"), (narrow, "bfloat16")):
            path.mkdir()
            gpt2_weights.save(GPT2.init(jax.random.key(0), SIZES["gpt2-124m"], dtype=dtype), path)
        programs = {"pullback": ([*ours, str(folder)], arena), "bfloat16": ([*ours, str(narrow)], arena)}
        if importlib.util.find_spec("transformers") and importlib.util.find_spec("torch"):
            programs["transformers"] = ([str(rivals / "transformers_gpt2.py"), str(folder)], False)
        lines = alternating(programs, options.rounds)
    narrow_lines = lines.pop("bfloat16")
    figures = {
        name: {key: median(rounds, key) for key in (*FIGURES, *OWN)} | {"tokens": rounds[0]["tokens"]} for name, rounds in lines.items()
    }
    figures["pullback"]["bfloat16_decode_tok_s"] = median(narrow_lines, "decode_tok_s")
    result = compared(figures, {ratio: key for key, ratio in FIGURES.items()})
    columns = {
        "tok/s": ("decode_tok_s", 1, ",.1f"),
        "8 prompts tok/s": ("decode8_tok_s", 1, ",.1f"),
        "prefill ms": ("prefill_s", 1e3, ",.0f"),
        "first ms": ("first_token_s", 1e3, ",.1f"),
        "load s": ("load_s", 1, ",.2f"),
        "of bandwidth": ("bandwidth_fraction", 1, ".2f"),
        "bfloat16 tok/s": ("bfloat16_decode_tok_s", 1, ",.1f"),
    }
    show(result, f"GPT-2 124M, arena {options.arena}", columns, options.json)
    return 0
