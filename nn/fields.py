"""What a module declares: the kinds of its fields, read and checked once, when the class is defined.

    class Layer(Module):
        inner: tuple[Linear, ...]                         # modules need no kind
        weight: Float[Array, "O I"] = param()             # trained
        mean: Float[Array, " O"] = buffer()               # kept and saved, not trained
        rate: float = static()                            # part of the program's key
        bias: Float[Array, " O"] | None = param(default=None)

A param or buffer is an array, `None` where the annotation allows it, or tuples, lists and dicts of arrays. A field without a
kind holds modules: one, `None`, or tuples, lists and dicts of them, nested as you like.
"""

import collections.abc
import dataclasses
import sys
import types
from typing import Annotated, Any, ForwardRef, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from ..lib.errors import PullbackError

Kind = Literal["param", "buffer", "static"]
KIND = "pullback kind"  # the key in a field's metadata

SEQUENCES = (tuple, list, collections.abc.Sequence)
MAPPINGS = (dict, collections.abc.Mapping)


class ModuleError(PullbackError, TypeError):
    """A module was declared, built or filled in a way that cannot work."""


def param(**options: Any) -> Any:
    """A trained array (floating). options: those of `dataclasses.field`, such as default, default_factory and kw_only."""
    return declaration("param", options)


def buffer(**options: Any) -> Any:
    """An array that is kept and saved but not trained: statistics, tables, counters. Options as for `param`."""
    return declaration("buffer", options)


def static(**options: Any) -> Any:
    """A hashable setting that is compiled in: a rate, a number of heads, a function. Options as for `param`."""
    return declaration("static", options)


def declaration(kind: Kind, options: dict[str, Any]) -> Any:
    return dataclasses.field(**{**options, "metadata": {**(options.get("metadata") or {}), KIND: kind}})


class Part(NamedTuple):
    """A field of a module. kind: `None` for one that holds modules; optional: may it be `None`?"""

    name: str
    kind: Kind | None
    optional: bool


def parts_of(cls: type) -> tuple[Part, ...]:
    """The fields of a module class in order, inherited ones first; ModuleError for one whose kind is not clear."""
    found = []
    for field in dataclasses.fields(cls):
        kind = field.metadata.get(KIND)
        annotation = resolved(field.type, cls)
        if kind is None and not holds_modules(annotation, cls):
            raise ModuleError(
                f"{cls.__name__}.{field.name} is annotated {shown(annotation)}, which is no module and no tuple, list or dict of modules; "
                f"declare its kind: {field.name} = param() if it is trained, buffer() if it is another array, static() if it is a setting"
            )
        found.append(Part(field.name, kind, field.default is None or may_be_none(annotation, cls)))
    return tuple(found)


def resolved(annotation: Any, cls: type) -> Any:
    """The annotation behind a text; the text itself where it names what is not there yet. Values are checked in any case."""
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if not isinstance(annotation, str):
        return annotation
    for owner in cls.__mro__:
        module = sys.modules.get(owner.__module__)
        try:
            return eval(annotation, {**vars(module), cls.__name__: cls} if module else {cls.__name__: cls})
        except Exception:  # a name that comes later or is local to a function; whatever a text may hold
            continue
    return annotation


def holds_modules(annotation: Any, cls: type) -> bool:
    """Can a value of this annotation hold modules and nothing else? A text that cannot be resolved may."""
    annotation = resolved(annotation, cls)
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation in (None, type(None)) or isinstance(annotation, str):
        return True
    if origin in (Union, types.UnionType) or origin in SEQUENCES:
        return bool(inner) and all(holds_modules(a, cls) for a in inner if a is not Ellipsis)
    if origin in MAPPINGS:
        return holds_modules(inner[1], cls)
    if origin is Annotated:
        return holds_modules(inner[0], cls)
    if isinstance(annotation, TypeVar):
        choices = annotation.__constraints__ or (annotation.__bound__,)
        return None not in choices and all(holds_modules(a, cls) for a in choices)
    plain = origin or annotation
    if isinstance(plain, type) and issubclass(plain, tuple) and hasattr(plain, "_fields"):
        return all(holds_modules(a, cls) for a in get_type_hints(plain).values())
    return hasattr(plain, "__named_parameters__")


def may_be_none(annotation: Any, cls: type) -> bool:
    annotation = resolved(annotation, cls)
    if get_origin(annotation) is Annotated:
        return may_be_none(get_args(annotation)[0], cls)
    if get_origin(annotation) in (Union, types.UnionType):
        return any(may_be_none(a, cls) for a in get_args(annotation))
    if isinstance(annotation, TypeVar):
        return any(a is not None and may_be_none(a, cls) for a in (*annotation.__constraints__, annotation.__bound__))
    return annotation in (None, type(None), Any) or isinstance(annotation, str)


def shown(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation).replace("typing.", "")
