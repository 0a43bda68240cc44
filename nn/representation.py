"""A module as text: its fields, with shapes in place of values."""

import reprlib
from typing import Any

from .reflection import entries, is_module, joined, parts

LINE = 100  # characters; what is longer is broken at its fields


def shape_text(x) -> str:
    """`float32[3072,768]`; a plain repr for what is no array."""
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        return reprlib.repr(x)
    return f"{x.dtype}[{','.join(map(str, x.shape))}]"


def described(m) -> str:
    return text_of(m, "", {}, 0)


def text_of(x, path: str, seen: dict[int, str], indent: int) -> str:
    if is_module(x):
        if id(x) in seen:
            return f"<{seen[id(x)] or 'itself'} again>"
        seen[id(x)] = path
        items = [(part.name, field_text(x, part, path, seen, indent)) for part in parts(x)]
        return bracketed(f"{type(x).__name__}(", [f"{name}={text}" for name, text in items], ")", indent)
    inner = entries(x)
    if inner is None:
        return shape_text(x)
    texts = [text_of(item, joined(path, name), seen, indent + 1) for name, item in inner]
    if isinstance(x, dict):
        return bracketed("{", [f"{name!r}: {text}" for (name, _), text in zip(inner, texts)], "}", indent)
    left, right = ("[", "]") if isinstance(x, list) else ("(", ",)" if len(x) == 1 else ")")
    return bracketed(left, runs(texts), right, indent)


def field_text(m: Any, part, path: str, seen: dict[int, str], indent: int) -> str:
    value = getattr(m, part.name)
    if part.kind == "static":
        return getattr(value, "__qualname__", None) or repr(value)
    return text_of(value, joined(path, part.name), seen, indent + 1)


def runs(texts: list[str]) -> list[str]:
    """Equal neighbours as one: `12 × Block(...)`."""
    counted: list[tuple[int, str]] = []
    for text in texts:
        if counted and counted[-1][1] == text:
            counted[-1] = counted[-1][0] + 1, text
        else:
            counted.append((1, text))
    return [text if n == 1 else f"{n} × {text}" for n, text in counted]


def bracketed(left: str, items: list[str], right: str, indent: int) -> str:
    line = left + ", ".join(items) + right
    if len(line) + 2 * indent <= LINE and "\n" not in line:
        return line
    pad = "  " * (indent + 1)
    return left + "".join(f"\n{pad}{item}," for item in items) + "\n" + "  " * indent + right.removeprefix(",")
