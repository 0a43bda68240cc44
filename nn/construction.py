"""Building a module from values: what each field was given is checked, and a call that meant `init` is told so."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .fields import ModuleError, Part
from .reflection import entries, is_module, joined, leaves, mapped, parts
from .representation import shape_text


def checking(build: Callable) -> Callable:
    """The `__init__` of a module class, whose values are checked when the whole module is there."""

    @functools.wraps(build)
    def __init__(self, *args, **kwargs):
        try:
            build(self, *args, **kwargs)
        except TypeError as error:
            if isinstance(error, ModuleError) or fits(build, self, args, kwargs):
                raise
            names = ", ".join(part.name for part in parts(self)) or "nothing"
            raise ModuleError(f"{type(self).__name__} is made from values for {names}: {error}{remedy(type(self), args, kwargs)}") from None
        if type(self).__init__ is __init__:  # not in the middle of a subclass's own
            for part in parts(self):
                check(self, part, args, kwargs)

    return __init__


def fits(build: Callable, self, args: tuple, kwargs: dict[str, Any]) -> bool:
    try:
        inspect.signature(build).bind(self, *args, **kwargs)
    except TypeError:
        return False
    return True


def check(m, part: Part, args: tuple, kwargs: dict[str, Any]) -> None:
    """ModuleError where the value of a field is not of the field's kind."""
    where, value = f"{type(m).__name__}.{part.name}", getattr(m, part.name)
    if part.kind == "static":
        check_static(where, value)
        return
    if value is None:
        if not part.optional:
            raise ModuleError(f"{where} is None; annotate it `... | None` if it may be left out{remedy(type(m), args, kwargs)}")
        return
    check_names(where, value)
    for name, x in leaves(where, value):
        if part.kind is None:
            if x is not None and not is_module(x):
                raise ModuleError(
                    f"{name} is {shown(x)}, but {part.name} holds modules; declare it param(), buffer() or static() if that is meant"
                )
        elif x is not None:
            check_array(name, x, part, remedy(type(m), args, kwargs))
    if part.kind is not None:
        on_device = lambda name, x: jnp.asarray(x) if isinstance(x, (np.ndarray, np.generic)) else x
        object.__setattr__(m, part.name, mapped(on_device, part.name, value))


def check_static(where: str, value) -> None:
    if is_module(value):
        raise ModuleError(f"{where} is a module, whose arrays would be compiled in as constants; declare it without static()")
    try:
        hash(value)
    except TypeError:
        hint = "buffer() is for arrays that are not trained" if hasattr(value, "dtype") else "write it with tuples, strings and numbers"
        raise ModuleError(f"{where} is {shown(value)}: a static is part of every program's key, so it must be hashable; {hint}") from None


def check_names(path: str, value) -> None:
    inner = None if is_module(value) else entries(value)
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or not key or "." in key:
                raise ModuleError(f"{path} has the key {key!r}; keys become parts of names, so they are texts without dots")
    for name, item in inner or ():
        check_names(joined(path, name), item)


def check_array(name: str, x, part: Part, remedy: str) -> None:
    if not hasattr(x, "shape") or not hasattr(x, "dtype") or (is_key(x) and part.kind == "param"):
        raise ModuleError(f"{name} is {shown(x)}; expected an array{remedy}")
    if part.kind == "param" and not jnp.issubdtype(x.dtype, jnp.floating):
        raise ModuleError(f"{name} is {shape_text(x)}: a parameter is trained, so it is floating; declare it buffer(), or cast it{remedy}")


def remedy(cls: Any, args: tuple, kwargs: dict[str, Any]) -> str:
    """`; to make one from a key: Linear.init(key, 768, 3072)`, with the arguments that came."""
    came = (*args, *kwargs.values())
    if not hasattr(cls, "init") or (came and not any(isinstance(x, (int, float)) or is_key(x) for x in came)):
        return ""
    given = [short(x) for x in args if not is_key(x)] + [f"{name}={short(x)}" for name, x in kwargs.items() if not is_key(x)]
    first = ["key"] if "key" in inspect.signature(cls.init).parameters else []
    return f"; to make one from its sizes: {cls.__name__}.init({', '.join(first + given)})"


def is_key(x) -> bool:
    return hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def short(x) -> str:
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return shape_text(x)
    text = repr(x)
    return text if len(text) <= 40 else f"{text[:37]}..."


def shown(x) -> str:
    """`the int 768`, `an array float32[3]`"""
    if is_key(x):
        return "a random key"
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return f"an array {shape_text(x)}"
    return "None" if x is None else f"the {type(x).__name__} {short(x)}"
