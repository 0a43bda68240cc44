"""Layers one after the other."""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .fields import ModuleError
from .module import Module, static


class Function(Module):
    """A plain function of one argument, standing where a module stands. It is compiled in, so it holds no trained arrays."""

    function: Callable = static()

    def __call__(self, x):
        return self.function(x)


class Sequential(Module):
    """y = layers[-1](… layers[1](layers[0](x))).

        model = nn.Sequential((nn.Linear.init(k1, 4, 16), nn.Gelu(), nn.Dropout(0.1), nn.Linear.init(k2, 16, 2)))
        nn.named_parameters(model)      # layers.0.weight, layers.0.bias, layers.3.weight, layers.3.bias
        model[0], model[1:]             # the first layer; a Sequential of the others

    A function that is no module, such as `ops.relu`, becomes a `Function`. `train` is passed on to the layers that take it.
    """

    layers: tuple[Module, ...]

    def __init__(self, layers: Sequence[Module | Callable]):
        if not isinstance(layers, (tuple, list)):
            raise ModuleError(f"Sequential takes a tuple of layers, not a {type(layers).__name__}: nn.Sequential((first, second))")
        for i, layer in enumerate(layers):
            if not callable(layer):
                raise ModuleError(f"Sequential.layers.{i} is {layer!r}; expected a module or a function of one argument")
        object.__setattr__(self, "layers", tuple(layer if isinstance(layer, Module) else Function(layer) for layer in layers))

    def __call__(self, x, *, train: bool = False):
        layer: Any
        for layer in self.layers:
            x = layer(x, train=train) if takes_train(type(layer)) else layer(x)
        return x

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.layers)

    def __getitem__(self, index: int | slice) -> Module:
        return Sequential(self.layers[index]) if isinstance(index, slice) else self.layers[index]


@functools.cache
def takes_train(cls: type) -> bool:
    """Does a call of such a module ask whether it is training?"""
    return "train" in inspect.signature(cls.__call__).parameters
