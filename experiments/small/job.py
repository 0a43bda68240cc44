"""What a small preset gives the training loop, and the step that those with a compiled model share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ... import nn
from ...autograd import compile, value_and_grad
from ...models.mlp import MLP
from ..step import Measured, Params, State
from .config import SmallConfig


class Report(NamedTuple):
    """What is told at the end. text: for people, also in report.txt; measures: for programs."""

    text: str
    measures: dict[str, Any]


class Examples:
    """Pairs of NumPy arrays, and of those each step's batch, drawn with replacement."""

    def __init__(self, x: np.ndarray, y: np.ndarray, batch: int, seed: int):
        self.x, self.y, self.batch, self.seed = x, y, batch, seed

    def at(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        rows = np.random.default_rng((self.seed, step)).integers(len(self.x), size=self.batch)
        return self.x[rows], self.y[rows]


class Job(NamedTuple):
    """A `Course` of the loop. report: from the last weights; it draws its pictures into the folder."""

    config: SmallConfig
    stream: Examples
    step: Callable[..., tuple[State, Measured]]
    evaluate: Callable[..., float]
    state: State
    record: dict[str, Any]
    report: Callable[[Params, Path], Report]


def supervised(
    config: SmallConfig,
    model: MLP,
    loss: Callable,
    optimiser: nn.Optimiser,
    training: tuple[np.ndarray, np.ndarray],
    held_back: tuple[np.ndarray, np.ndarray],
    data: dict[str, Any],
    unit: str,
    report: Callable[[Params, Path], Report],
) -> Job:
    """The job of fitting `model(x)` to y by compiled steps.

    loss: of (model(x), y), a scalar, in this unit. data: for the record.
    """

    def update(state: State, number, x, y):
        value, grads = value_and_grad(lambda m: loss(m(x), y))(nn.with_parameters(model, state.params))
        updates, moments = optimiser.update(grads, state.optimiser, state.params)
        return State(nn.apply_updates(state.params, updates), moments), Measured(value, nn.global_norm(grads), jnp.float32(config.rate))

    step = compile(update, donate=0)
    look = compile(lambda params, x, y: loss(nn.with_parameters(model, params)(x), y))
    stream = Examples(*training, config.batch, config.seed)
    params = nn.named_parameters(model)
    state = State({name: x.copy() for name, x in params.items()}, optimiser.init(params))
    plan = step.plan(state, 0, *stream.at(0))
    record = {
        "parameters": nn.param_count(model),
        "loss_unit": unit,
        "data": {"training": len(training[0]), "validation": len(held_back[0]), **data},
        "step": {"compile_seconds": round(plan.compile_seconds, 3), "peak_bytes": plan.peak},
        "device": str(next(iter(params.values())).device),
    }
    evaluate = lambda params, batches: float(look(params, *held_back))
    return Job(config, stream, step, evaluate, state, record, report)


def chances(model: MLP) -> Callable[[Params, Any], np.ndarray]:
    """`classify(params, x)`: the probability of each class, (N, C), in float64 so that a row adds up to 1."""
    logits = compile(lambda params, x: nn.with_parameters(model, params)(x))
    return lambda params, x: np.asarray(jax.nn.softmax(logits(params, x)), np.float64)


def generator(config: SmallConfig, purpose: str) -> np.random.Generator:
    """NumPy's generator for one purpose: the data do not change with the number of steps, nor the weights with the data."""
    return np.random.default_rng((config.seed, *purpose.encode()))
