"""The settings of the small presets. Each is a dataclass of its own: they share the pace, not the model."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from ...models.mlp import ACTIVATIONS
from ..config import INT32, among, at_least_0, demand

Preset = Annotated[str, tyro.conf.Fixed, tyro.conf.Suppress]  # it is named before the options, not among them
LARGEST = {"hidden": 1024, "batch": 1 << 16, "examples": 1 << 20, "points": 1 << 12}  # a toy stays a toy
FUNCTIONS = ("sine", "parabola", "bump")


@dataclass(frozen=True)
class SmallConfig:
    """What every small preset can be told."""

    preset: Preset
    steps: int
    """Updates of the weights."""
    batch: int
    """Examples per step, drawn anew for each."""
    rate: float
    """Learning rate."""
    hidden: int
    """Neurons in a hidden layer."""
    validate_every: int = 100
    """Steps between looks at the validation split, which is taken whole."""
    log_every: int = 10
    """Steps between lines of metrics.jsonl; their tokens_per_s are examples per second."""
    seed: int = 0
    """Decides the data, the first weights and the batches."""

    saving = checksum_every = 0  # of runs of seconds there are neither checkpoints nor checksums

    @property
    def validate_batches(self) -> None:
        """A look takes the whole split."""


@dataclass(frozen=True)
class FruitConfig(SmallConfig):
    """An apple, an orange or a lemon, by colour, size and weight: an MLP under plain gradient descent."""

    preset: Preset = "fruit"
    steps: int = 1000
    """Updates of the weights."""
    batch: int = 32
    """Examples per step, drawn anew for each."""
    rate: float = 0.1
    """Learning rate."""
    hidden: int = 16
    """Neurons in the hidden layer."""
    examples: int = 1500
    """Fruits to learn from; a quarter as many more are the validation split."""


@dataclass(frozen=True)
class RegressionConfig(SmallConfig):
    """One number from another, by neurons that are lists of single numbers: no array, no compiled step, every update by hand."""

    preset: Preset = "toy-regression"
    steps: int = 300
    """Updates of the weights."""
    batch: int = 4
    """Examples per step, drawn anew for each."""
    rate: float = 0.1
    """Learning rate."""
    hidden: int = 8
    """Neurons in the hidden layer."""
    points: int = 33
    """Points of the function to learn from, evenly spaced; validation lies halfway between them."""
    function: str = "sine"
    """sine, parabola or bump: what is to be learnt, on -2 to 2."""


@dataclass(frozen=True)
class SpiralsConfig(SmallConfig):
    """Which of two spirals does a point of the plane lie on? An MLP with two hidden layers under AdamW."""

    preset: Preset = "spirals"
    steps: int = 1500
    """Updates of the weights."""
    batch: int = 128
    """Examples per step, drawn anew for each."""
    rate: float = 1e-2
    """Learning rate."""
    hidden: int = 32
    """Neurons in each of the two hidden layers."""
    examples: int = 1000
    """Points to learn from; a quarter as many more are the validation split."""
    turns: float = 1.5
    """How often each spiral winds around the middle."""
    noise: float = 0.02
    """Standard deviation by which points miss their spiral, whose outer end is at 1."""
    activation: str = "tanh"
    """tanh, relu, gelu, silu or sigmoid: between the layers."""
    weight_decay: float = 1e-3
    """Fraction of a weight that learning rate 1 takes away in one step."""


SMALL: dict[str, SmallConfig] = {config.preset: config for config in (FruitConfig(), RegressionConfig(), SpiralsConfig())}


def check(config: SmallConfig) -> SmallConfig:
    """The config itself, or a PullbackError that names the first setting that cannot be used."""
    for name in ("steps", "validate_every", "log_every"):
        demand(name, getattr(config, name), lambda n: 1 <= n < INT32, f"from 1 to {INT32 - 1}")
    for name, largest in LARGEST.items():
        if hasattr(config, name):
            demand(name, getattr(config, name), range(1, largest + 1).__contains__, f"from 1 to {largest:,}")
    demand("rate", config.rate, at_least_0, "a float32, 0 or more")
    demand("seed", config.seed, lambda n: 0 <= n < INT32, f"from 0 to {INT32 - 1}")
    if isinstance(config, RegressionConfig):
        among("function", config.function, FUNCTIONS)
    if isinstance(config, SpiralsConfig):
        demand("turns", config.turns, lambda x: 0 < x <= 100, "above 0, at most 100")
        demand("noise", config.noise, lambda x: 0 <= x <= 1, "from 0 to 1")
        among("activation", config.activation, ACTIVATIONS)
        demand("weight_decay", config.weight_decay, at_least_0, "a float32, 0 or more")
    return config
