"""`pullback bench eager`: what recording an op costs beside the bare jitted call, and a step of the walk beside the bare rule."""

import importlib.util
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ... import ops
from ...autograd import tensor
from ...autograd.walk import walk
from ...lib.errors import ConfigError
from ..parsing import parse
from .harness import compared, show


@dataclass(frozen=True)
class Options:
    """A chain of elementwise products of small arrays, in microseconds per op. Ratios are ours over theirs."""

    length: int = 200
    rounds: int = 31
    json: bool = False


def per_call(programs: dict[str, Callable[[], float]], rounds: int, length: int) -> dict[str, float]:
    """Median microseconds per op of programs that time themselves, one after the other in every round."""
    taken: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds + 3):
        for name, program in programs.items():
            taken[name].append(program() / length * 1e6)
    return {name: statistics.median(values[3:]) for name, values in taken.items()}


def timed(f: Callable[[], object]) -> float:
    started = time.perf_counter()
    out = f()  # what it made is freed after the clock has stopped
    stopped = time.perf_counter()
    del out
    return stopped - started


def ours(length: int) -> dict[str, Callable[[], float]]:
    x, y = jnp.linspace(0.5, 1.5, 8), jnp.linspace(1.5, 0.5, 8)
    bare, plain_rule = ops.mul.forward.program, ops.mul.rules["exact"].program((True, False)).program
    _, res = ops.mul.evaluate(x, y)
    tracked = tensor(x)

    def chain(f, x):
        for _ in range(length):
            x = f(x, y)
        return x

    def recorded():
        return timed(lambda: chain(ops.mul, tracked))

    def walked():
        z = chain(ops.mul, tracked)
        jax.block_until_ready(z.value)
        return timed(lambda: walk([z], [x]))

    def rules():
        def run():
            bar = x
            for _ in range(length):
                bar = plain_rule(res, bar)[0]
            return bar

        return timed(run)

    return {"recorded": recorded, "bare call": lambda: timed(lambda: chain(bare, x)), "walked": walked, "bare rule": rules}


def torch(length: int) -> dict[str, Callable[[], float]]:
    import torch  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    x, y = torch.linspace(0.5, 1.5, 8, requires_grad=True), torch.linspace(1.5, 0.5, 8)

    def chain():
        z = x
        for _ in range(length):
            z = z * y
        return z

    def walked():
        z = chain()
        seed = torch.ones(8)
        return timed(lambda: torch.autograd.grad(z, x, seed))

    return {"torch recorded": lambda: timed(chain), "torch walked": walked}


def main(argv: Sequence[str]) -> int:
    options = parse(Options, argv, "bench eager")
    if options.length < 1 or options.rounds < 1:
        raise ConfigError("length and rounds are counts; expected at least 1")
    programs = ours(options.length)
    if importlib.util.find_spec("torch") is not None:
        programs |= torch(options.length)
    took = per_call(programs, options.rounds, options.length)
    figures = {"pullback": {"recorded_us": took["recorded"], "walked_us": took["walked"]}}
    figures["bare"] = {"recorded_us": took["bare call"], "walked_us": took["bare rule"]}
    if "torch recorded" in took:
        figures["torch-eager"] = {"recorded_us": took["torch recorded"], "walked_us": took["torch walked"]}
    result = compared(figures, {"recorded": "recorded_us", "walked": "walked_us"})
    columns = {"recorded op us": ("recorded_us", 1, ".2f"), "walked op us": ("walked_us", 1, ".2f")}
    show(result, "eager: microseconds per op", columns, options.json)
    return 0
