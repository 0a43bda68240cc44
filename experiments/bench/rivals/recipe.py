"""What every rival is given (shape, recipe, weights, data) and the one line of JSON that it prints.

A rival is a script that knows nothing of Pullback: `python jax_plain.py --shape shakespeare-char --steps 20`.
"""

import argparse
import json
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Recipe:
    """A GPT-2 with a tied head, trained by AdamW on random tokens. Of the weights only matrices decay, as in nanoGPT."""

    batch: int = 4
    time: int = 64
    layers: int = 12
    heads: int = 12
    width: int = 768
    vocab: int = 50257
    context: int = 1024
    bias: bool = True  # of every linear layer and layer norm
    lr: float = 3e-4
    b1: float = 0.9
    b2: float = 0.95
    eps: float = 1e-8
    decay: float = 0.1
    clip: float = 0.0  # largest global norm of the gradient; 0: none
    steps: int = 6  # timed, after one that is not
    seed: int = 0

    @property
    def tokens(self) -> int:
        return self.batch * self.time

    @property
    def head_width(self) -> int:
        return self.width // self.heads


SHAPES = {
    "gpt2-124m": Recipe(),
    "shakespeare-char": Recipe(
        batch=12, layers=4, heads=4, width=128, vocab=65, context=64, bias=False, lr=1e-3, b2=0.99, clip=1.0, steps=50
    ),
}


def from_command_line(doc: str, extra: tuple[tuple[str, dict[str, Any]], ...] = ()) -> tuple[Recipe, argparse.Namespace]:
    """The recipe of `--shape`, changed by the flags that were given; `extra` declares a rival's own flags."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0], argument_default=argparse.SUPPRESS)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="gpt2-124m")
    for field in fields(Recipe):
        kind = dict(action=argparse.BooleanOptionalAction) if field.type is bool else dict(type=field.type)
        parser.add_argument(f"--{field.name}", **kind)  # type: ignore[arg-type]
    for flag, settings in extra:
        parser.add_argument(flag, **settings)
    given = parser.parse_args()
    return replace(SHAPES[given.shape], **{f.name: getattr(given, f.name) for f in fields(Recipe) if hasattr(given, f.name)}), given


def weights(recipe: Recipe) -> dict[str, Any]:
    """float32 NumPy arrays: matrices (in, out) drawn from N(0, 0.02), scales one, biases zero or `None`."""
    rng = np.random.default_rng(recipe.seed)
    C = recipe.width

    def matrix(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32) * np.float32(0.02)

    def bias(n: int) -> np.ndarray | None:
        return np.zeros(n, np.float32) if recipe.bias else None

    def norm() -> tuple:
        return np.ones(C, np.float32), bias(C)

    def block() -> dict[str, tuple]:
        return dict(
            ln1=norm(),
            qkv=(matrix(C, 3 * C), bias(3 * C)),
            proj=(matrix(C, C), bias(C)),
            ln2=norm(),
            fc=(matrix(C, 4 * C), bias(4 * C)),
            out=(matrix(4 * C, C), bias(C)),
        )

    wte, wpe = matrix(recipe.vocab, C), matrix(recipe.context, C)
    return dict(wte=wte, wpe=wpe, h=[block() for _ in range(recipe.layers)], lnf=norm())


def tokens(recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
    """One batch of inputs and targets, (B, T) int32."""
    ids = np.random.default_rng(recipe.seed + 1).integers(0, recipe.vocab, (2, recipe.batch, recipe.time), np.int32)
    return ids[0], ids[1]


def page_faults() -> int:
    """Pages that this process had to be given so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def run(rival: str, recipe: Recipe, step: Callable[[int], float], versions: dict[str, str], **measured: Any) -> None:
    """Call `step(i)`, which ends when its work is done and gives the loss, `steps + 1` times and print the line.

    The first is not timed. step_s, best_s: median and least of the others; page_faults: median per step.
    """
    seconds, faults, losses = [], [], []
    for i in range(recipe.steps + 1):
        before, started = page_faults(), time.perf_counter()
        losses.append(step(i))
        seconds.append(time.perf_counter() - started)
        faults.append(page_faults() - before)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    line = dict(
        rival=rival,
        **measured,
        step_s=statistics.median(seconds[1:]),
        best_s=min(seconds[1:]),
        first_s=seconds[0],
        page_faults=statistics.median(faults[1:]),
        peak_bytes=peak,
        losses=losses[:4],
        recipe=asdict(recipe),
        versions=dict(python=platform.python_version(), **versions),
    )
    print(json.dumps(line))
