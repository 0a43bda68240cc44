"""One number from another, by neurons made of single numbers: a first lesson in backpropagation, with nothing hidden.

A neuron is a list of weights and a bias, each a tracked number, a `pb.tensor`. A step makes them anew, works the loss out in
Python, calls `loss.backward()`, reads each number's `.grad` and takes a bit of it off. No array, no optimiser, no compiled step.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from ... import ops
from ...autograd import Tensor, draw, tensor
from ...lib.atomic import replacing
from ..plot import can_plot
from ..step import Measured, Params, State
from .config import FUNCTIONS, RegressionConfig
from .drawing import plot_graph
from .job import Examples, Job, Report, generator

WIDEST = 2.0  # the functions are learnt on -2 to 2
CURVES: dict[str, Callable] = dict(zip(FUNCTIONS, (lambda x: np.sin(2 * x), lambda x: x**2 / 2 - 1, lambda x: 2 * np.exp(-2 * x**2) - 1)))

Number = Any  # a tracked number, or a plain one where nothing is to be learnt


class Neuron:
    """y = φ(w₁·x₁ + w₂·x₂ + ... + b), or without φ."""

    def __init__(self, weights: list[Number], bias: Number, bend: bool):
        self.weights, self.bias, self.bend = weights, bias, bend

    def __call__(self, inputs: list[Number]) -> Number:
        total = self.bias
        for w, x in zip(self.weights, inputs):
            total = w * x + total
        return ops.tanh(total) if self.bend else total


class Network:
    """One input, a hidden layer, one output; built from numbers by name, so that they can be written to a file."""

    def __init__(self, numbers: dict[str, Number], hidden: int):
        self.hidden = [Neuron([numbers[f"hidden.{i}.weight"]], numbers[f"hidden.{i}.bias"], bend=True) for i in range(hidden)]
        self.out = Neuron([numbers[f"out.weights.{i}"] for i in range(hidden)], numbers["out.bias"], bend=False)

    def __call__(self, x: Number) -> Number:
        return self.out([neuron([x]) for neuron in self.hidden])


def first_numbers(config: RegressionConfig) -> Iterator[tuple[str, float]]:
    """Hidden neurons that bend up or down, one after the other along -2 to 2, and an output that is not too loud."""
    rng = generator(config, "weights")
    for i, place in enumerate(np.linspace(-WIDEST, WIDEST, config.hidden + 2)[1:-1].tolist()):
        slope = rng.choice((-1, 1)) * rng.uniform(1, 3)
        yield f"hidden.{i}.weight", slope
        yield f"hidden.{i}.bias", -slope * place
    for i in range(config.hidden):
        yield f"out.weights.{i}", rng.normal(0, 1 / math.sqrt(config.hidden))
    yield "out.bias", 0.0


def mean_squared_error(network: Network, xs, ys) -> Number:
    total = 0.0
    for x, y in zip(xs.tolist(), ys.tolist()):
        total = total + (network(x) - y) ** 2
    return total / len(xs)


def descend(config: RegressionConfig, state: State, number: int, xs, ys) -> tuple[State, Measured]:
    """One step of gradient descent, by hand."""
    numbers = {name: tensor(value) for name, value in state.params.items()}
    loss = mean_squared_error(Network(numbers, config.hidden), xs, ys)
    loss.backward()
    moved = {name: x.detach() - config.rate * x.grad for name, x in numbers.items()}
    length = math.sqrt(sum(float(x.grad) ** 2 for x in numbers.values()))
    return State(moved, ()), Measured(loss.detach(), jnp.float32(length), jnp.float32(config.rate))


def prepare(config: RegressionConfig) -> Job:
    curve = CURVES[config.function]
    training = np.linspace(-WIDEST, WIDEST, config.points) if config.points > 1 else np.zeros(1)
    between = (training[1:] + training[:-1]) / 2 if config.points > 1 else training
    params = {name: jnp.float32(value) for name, value in first_numbers(config)}

    def evaluate(params: Params, batches: int | None = None) -> float:
        return float(mean_squared_error(Network(plain(params), config.hidden), between, curve(between)))

    def report(params: Params, folder: Path) -> Report:
        network = Network(plain(params), config.hidden)
        errors = [abs(float(network(x)) - y) for x, y in zip(between.tolist(), curve(between).tolist())]
        middle = config.hidden // 2
        y, named = one_neuron(params, middle)
        if can_plot():
            plot_graph(folder / "neuron.png", y, named, f"hidden neuron {middle} at x = 0.5: y = tanh(w·x + b)")
            plot_fit(folder / "fit.png", network, curve, training, f"{config.preset}, seed {config.seed}: {config.function}")
        text = f"The graph of hidden neuron {middle}, y = tanh(w·x + b), as pb.draw shows it:\n\n{draw(y)}\n\n"
        text += f"largest error between the points: {max(errors):.3f}"
        return Report(text, {"largest_error": max(errors)})

    record = {
        "parameters": len(params),
        "loss_unit": "squared error",
        "data": {"training": len(training), "validation": len(between), "from": -WIDEST, "to": WIDEST},
        "step": {"compile_seconds": None, "peak_bytes": None},  # op by op: there is no program
        "device": str(params["out.bias"].device),
    }
    stream = Examples(training, curve(training), config.batch, config.seed)
    step = partial(descend, config)
    return Job(config, stream, step, evaluate, State(params, ()), record, report)


def plain(params: Params) -> dict[str, np.float32]:
    """Numbers that nobody watches."""
    return {name: np.float32(value) for name, value in params.items()}


def one_neuron(params: Params, index: int) -> tuple[Tensor, dict[str, Tensor]]:
    """A neuron of the network with its gradients: what it gives, and every value on the way by name."""
    x, w, b = tensor(0.5), tensor(params[f"hidden.{index}.weight"]), tensor(params[f"hidden.{index}.bias"])
    product = w * x
    total = product + b
    y = total.tanh()
    named = {"x": x, "w": w, "b": b, "w·x": product, "w·x + b": total, "y": y}
    for value in named.values():
        value.retain_grad()
    y.backward(retain=True)
    return y, named


def plot_fit(path: Path, network: Network, curve: Callable, points, title: str) -> None:
    """The function, the points that were learnt from, and what the network makes of them, a little beyond both ends too."""
    from matplotlib.figure import Figure  # without pyplot: no window, no state

    x = np.linspace(-1.25 * WIDEST, 1.25 * WIDEST, 201)
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(x, curve(x), color="0.6", linewidth=4, label="the function")
    axes.plot(x, [float(network(v)) for v in x.tolist()], color="tab:blue", label="the network")
    axes.plot(points, curve(points), "o", color="black", markersize=4, label="learnt from")
    low, high = float(curve(points).min()), float(curve(points).max())
    axes.set(xlabel="x", ylabel="y", title=title, ylim=(low - 0.5 * (high - low + 1), high + 0.5 * (high - low + 1)))
    axes.axvspan(-WIDEST, WIDEST, color="0.95", zorder=0)
    axes.legend()
    with replacing(path) as beside:
        figure.savefig(beside, dpi=110)
