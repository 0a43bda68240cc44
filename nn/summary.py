"""A model as a table: what stands where, in which shapes, and how much of it there is."""

from typing import Any

from .module import Module, named_buffers, named_parameters
from .reflection import joined, leaves, own_arrays, parts
from .representation import shape_text


def param_count(m: Module) -> int:
    """How many numbers are trained; what is shared counts once."""
    return sum(size_of(x) for x in named_parameters(m).values())


def summary(m: Module) -> str:
    """One line per module with its own arrays, then the totals. A module that stands in a second place is marked there.

    Takes a module of shapes as well, as `jax.eval_shape` makes it, so that a large model need not be there.
    """
    rows = [("module", "class", "arrays", "parameters", "size")]
    for path, owner, first in places(m, "", {}):
        if first is not None:
            rows.append((path, type(owner).__name__, f"= {first or 'the model'}, counted there", "", ""))
            continue
        trained, kept = (dict(own_arrays(owner, "", (kind,))) for kind in ("param", "buffer"))
        texts = [f"{name} {shape_text(x)}" for name, x in trained.items()]
        texts += [f"{name} {shape_text(x)} (buffer)" for name, x in kept.items()]
        count = sum(map(size_of, trained.values()))
        size = sum(map(bytes_of, (*trained.values(), *kept.values())))
        rows.append(
            (path or "(model)", type(owner).__name__, ", ".join(texts), f"{count:,}" if trained else "", byte_text(size) if size else "")
        )
    totals = [("parameters", named_parameters(m)), ("buffers", named_buffers(m))]
    lines = aligned(rows)
    lines.insert(1, "-" * max(map(len, lines)))
    lines.append(lines[1])
    for kind, arrays in totals:
        if arrays or kind == "parameters":
            size = byte_text(sum(map(bytes_of, arrays.values())))
            lines.append(f"{kind}: {sum(map(size_of, arrays.values())):,} numbers in {len(arrays):,} arrays, {size}")
    return "\n".join(lines)


def places(m: Any, path: str, seen: dict[int, str]):
    """(path, module, first path of a module met before or `None`) of every place in the tree."""
    if id(m) in seen:
        yield path, m, seen[id(m)]
        return
    seen[id(m)] = path
    yield path, m, None
    for part in parts(m):
        if part.kind is None:
            for name, child in leaves(joined(path, part.name), getattr(m, part.name)):
                if child is not None:
                    yield from places(child, name, seen)


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Columns of equal width, the last two to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    cells = [[cell.ljust(w) if i < 3 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))] for row in rows]
    return ["  ".join(row).rstrip() for row in cells]


def size_of(x) -> int:
    size = 1
    for n in x.shape:
        size *= n
    return size


def bytes_of(x) -> int:
    return size_of(x) * x.dtype.itemsize


def byte_text(n: float) -> str:
    """`512 B`, `1.5 KiB`, `474.7 MiB`"""
    units = ["B", "KiB", "MiB", "GiB"]
    while n >= 1024 and len(units) > 1:
        n /= 1024
        units.pop(0)
    return f"{n:.0f} B" if units[0] == "B" else f"{n:.1f} {units[0]}"
