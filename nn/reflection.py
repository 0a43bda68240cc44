"""What a module is made of: its modules and arrays by name, and the module without its arrays.

A name is the way to an array: field names, positions in tuples and lists, and keys of dicts, joined by dots, such as
`blocks.3.attn.qkv.weight`. A module that stands in several places is one module: it is met once, under the first of its
names, and whatever rebuilds the tree makes it once.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .fields import Part

CACHE = "_anatomy"  # in the instance's __dict__, beside its fields


class Absent:
    """Stands in a skeleton where an array was."""

    def __repr__(self) -> str:
        return "·"


ABSENT = Absent()


def is_module(x) -> bool:
    return hasattr(type(x), "__parts__")


def parts(m) -> tuple[Part, ...]:
    return type(m).__parts__


def entries(container) -> list[tuple[str, Any]] | None:
    """(name, item) for each item of a tuple, list or dict; `None` for anything else."""
    if isinstance(container, dict):
        return [(str(key), item) for key, item in container.items()]
    if isinstance(container, (tuple, list)):
        names = getattr(container, "_fields", None) or map(str, range(len(container)))
        return list(zip(names, container))
    return None


def replaced(container, items: list):
    """A container like this one, with other items."""
    if isinstance(container, dict):
        return dict(zip(container, items))
    if hasattr(container, "_fields"):
        return type(container)._make(items)
    return list(items) if isinstance(container, list) else tuple(items)


def leaves(path: str, value) -> Iterator[tuple[str, Any]]:
    """(name, value) of what stands in the nested containers of a field."""
    inner = None if is_module(value) else entries(value)
    if inner is None:
        yield path, value
    else:
        for name, item in inner:
            yield from leaves(f"{path}.{name}", item)


def mapped(f: Callable[[str, Any], Any], path: str, value):
    """The value with f(name, x) in place of each x in its nested containers."""
    inner = None if is_module(value) else entries(value)
    if inner is None:
        return f(path, value)
    return replaced(value, [mapped(f, f"{path}.{name}", item) for name, item in inner])


def modules(m, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """(path, module) for a module and all below it, each once, owners first, in the order of their fields."""
    seen = set() if seen is None else seen
    if id(m) in seen:
        return
    seen.add(id(m))
    yield path, m
    for part in parts(m):
        if part.kind is None:
            for name, child in leaves(joined(path, part.name), getattr(m, part.name)):
                if child is not None:
                    yield from modules(child, name, seen)


def joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name


def own_arrays(m, path: str, kinds: tuple[str, ...] = ("param", "buffer")) -> Iterator[tuple[str, Any]]:
    """(name, array) of the arrays that a module holds itself."""
    for part in parts(m):
        if part.kind in kinds:
            for name, x in leaves(joined(path, part.name), getattr(m, part.name)):
                if x is not None:
                    yield name, x


class Anatomy:
    """What was found out about one instance, kept on it. A module is frozen, but a list or dict in it may still change."""

    def __init__(self, changeable: list, arrays: dict[str, Any] | None = None, skeleton: "Skeleton | None" = None):
        self.changeable = [(container, contents(container)) for container in changeable]
        self.arrays, self.skeleton = arrays, skeleton
        self.descendants: dict[int, str] | None = None

    def holds(self) -> bool:
        """Is every list and dict what it was?"""
        for container, before in self.changeable:
            now = contents(container)
            if len(now) != len(before) or not all(map(operator.is_, now, before)):
                return False
        return True


def contents(container) -> tuple:
    return (*container, *container.values()) if isinstance(container, dict) else tuple(container)


def changeable(m) -> list:
    """The lists and dicts anywhere in a module."""
    pending = [getattr(owner, part.name) for _, owner in modules(m) for part in parts(owner) if part.kind != "static"]
    found = []
    while pending:
        value = pending.pop()
        inner = None if is_module(value) else entries(value)
        if inner is not None:
            found += [] if isinstance(value, tuple) else [value]
            pending += [item for _, item in inner]
    return found


def anatomy(m) -> Anatomy:
    known = m.__dict__.get(CACHE)
    if known is None or not known.holds():
        known = m.__dict__[CACHE] = Anatomy(changeable(m))
    return known


def descendants(m) -> dict[int, str]:
    """{id: path from m} of the modules below m."""
    known = anatomy(m)
    if known.descendants is None:
        known.descendants = {id(child): path for path, child in modules(m) if child is not m}
    return known.descendants


def dissected(m) -> tuple[dict[str, Any], "Skeleton"]:
    """(arrays by name, parameters and buffers alike; the module without them)."""
    known = anatomy(m)
    if known.arrays is None or known.skeleton is None:
        known.arrays = {name: x for path, owner in modules(m) for name, x in own_arrays(owner, path)}
        known.skeleton = Skeleton(m, known.arrays)
    return known.arrays, known.skeleton


class Skeleton:
    """A module without its arrays: what is compiled in, and the key of a program that takes the module.

    Two are equal if classes, settings, containers, absent arrays and sharing are. `parameters`: which names are trained.
    """

    __slots__ = ("bones", "names", "parameters", "frozen", "key", "hash")

    def __init__(self, m, arrays: Mapping[str, Any]):
        self.names = tuple(arrays)
        self.parameters = tuple(name for path, owner in modules(m) for name, _ in own_arrays(owner, path, ("param",)))
        self.bones = rebuilt(m, dict.fromkeys(arrays, ABSENT), {})
        self.frozen = not changeable(m)
        self.key = signature(m, {})
        self.hash = hash(self.key)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other) -> bool:
        return self is other or (type(other) is Skeleton and self.hash == other.hash and self.key == other.key)

    def __repr__(self) -> str:
        return f"<{type(self.bones).__name__} without its {len(self.names)} arrays>"

    def filled(self, arrays: dict[str, Any]):
        """The module with these arrays, whatever they are."""
        m = rebuilt(self.bones, arrays, {})
        m.__dict__[CACHE] = Anatomy([] if self.frozen else changeable(m), arrays, self)
        return m


def rebuilt(m, arrays: Mapping[str, Any], made: dict[int, Any], path: str = ""):
    """m with other arrays, by name; a module that stands in several places is made once."""
    if id(m) in made:
        return made[id(m)]
    twin = made[id(m)] = object.__new__(type(m))

    def put(name: str, x):
        return rebuilt(x, arrays, made, name) if is_module(x) else arrays.get(name, x)

    for part in parts(m):
        value = getattr(m, part.name)
        if part.kind != "static":
            value = mapped(put, joined(path, part.name), value)
        object.__setattr__(twin, part.name, value)
    return twin


def signature(x, seen: dict[int, int]):
    """A hashable description of a module without its arrays: where it stands again, a shared module is a number."""
    if is_module(x):
        if id(x) in seen:
            return seen[id(x)]
        seen[id(x)] = len(seen)
        return (type(x), *(setting(getattr(x, p.name)) if p.kind == "static" else signature(getattr(x, p.name), seen) for p in parts(x)))
    inner = entries(x)
    if inner is None:
        return None if x is None else ABSENT
    return (type(x), *((name, signature(item, seen)) for name, item in inner))


def setting(value):
    return type(value), value  # 1, 1.0 and True are equal, and compile to different programs
