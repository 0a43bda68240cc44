"""What the programs of `bench generate` have in common: the work, and one line of JSON on standard output.

load_s             a ready model from a folder, from the time that the library is imported
decode_tok_s       greedy, a prompt of 16 tokens and 128 more, as one call         decode8_tok_s      the same for 8 prompts at once
prefill_s          512 tokens to the next one                                      first_token_s      16 tokens to the next one
tokens             a hash of what was written, the same for all if they agree

The one argument is a folder with GPT-2's weights. Every figure is the median of REPEATS calls after one that is not counted.
"""

import hashlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

REPEATS, TOKENS = 3, 128
PROMPTS = {"decode": (1, 16, TOKENS), "decode8": (8, 16, TOKENS), "prefill": (1, 512, 1), "first_token": (1, 16, 1)}

Write = Callable[[Any, np.ndarray, int], np.ndarray]  # (model, prompts (B, T), tokens) -> what was written (B, tokens)


def prompts(rows: int, length: int) -> np.ndarray:
    return np.random.default_rng(rows * length).integers(0, 50257, (rows, length)).astype(np.int32)


def run(load: Callable[[Path], Any], write: Write, more: Callable[[Any, float], dict[str, Any]] = lambda model, decode_s: {}) -> None:
    """more: further figures of a program, from its model and its seconds per token."""
    began = time.perf_counter()
    model = load(Path(sys.argv[1]))
    figures: dict[str, Any] = {"load_s": time.perf_counter() - began}
    for name, (rows, length, tokens) in PROMPTS.items():
        ids, seconds = prompts(rows, length), []
        for _ in range(1 + REPEATS):
            began = time.perf_counter()
            written = write(model, ids, tokens)
            seconds.append(time.perf_counter() - began)
        assert written.shape == (rows, tokens), written.shape
        middle = statistics.median(seconds[1:])
        figures |= {f"{name}_tok_s": rows * tokens / middle} if tokens > 1 else {f"{name}_s": middle}
        if name == "decode":
            figures["tokens"] = hashlib.sha256(np.ascontiguousarray(written, "<u4").tobytes()).hexdigest()[:16]
    print(json.dumps(figures | more(model, 1 / figures["decode_tok_s"])))
