"""Where in a model an instruction comes from, read off the name that JAX gave it: scope, op and direction.

`jit(step)/blocks.0/mlp/fc/jit(linear)/dot_general`                        forward of linear in blocks.0.mlp.fc
`jit(step)/blocks.0.mlp.fc/backward/jit(linear_backward)/dot_general`      its backward
`jit(step)/blocks.0.mlp.fc/backward/jit(layer_norm_again)/sub`             what it reads, computed again for it
`jit(step)/update/mul`                                                     outside ops: by JAX's own name
"""

import re
from typing import NamedTuple

from ...ops.op import REGISTRY

DIRECTIONS = ("forward", "backward", "update", "other")
UPDATE = ("update", "accumulate")  # scopes of a step that are of neither direction
LOOPS = ("while", "body", "cond", "closed_call", "checkpoint")  # what JAX says of loops


class Place(NamedTuple):
    """direction: forward, backward, update (optimiser, clipping, accumulation) or other."""

    scope: str
    op: str
    direction: str


IDLE = Place("", "(no instruction at work)", "other")
UNKNOWN = Place("", "(made by XLA)", "other")


def place_of(op_name: str) -> Place:
    """The place that a name says; `UNKNOWN` where it says none."""
    parts = op_name.split("/")
    if not parts[0].startswith("jit(") or len(parts) < 2:
        return UNKNOWN
    parts = [part for part in parts[1:] if part not in LOOPS]
    programs = [re.search(r"\bjit\((\w+)\)", part) for part in parts]
    at = next((i for i, found in enumerate(programs) if found), max(len(parts) - 1, 0))
    found = programs[at] if parts else None
    name = found[1] if found else (parts or [""])[at]
    scopes, was_walked = [[]], False
    for part in parts[:at]:
        if part == "backward":
            scopes.append([])
            was_walked = True
        elif "(" not in part:
            scopes[-1].append(part)
    scope = next((".".join(path) for path in reversed(scopes) if path), "")
    op = name.removesuffix("_backward")
    if was_walked or op != name and op in REGISTRY:
        return Place(scope, op if op in REGISTRY else name, "backward")
    if scope.split(".")[0] in UPDATE:
        return Place(scope, name, "update")
    if scope or found and name in REGISTRY:  # JAX's own `mul` is not ours
        return Place(scope, name, "forward")
    return Place("", name, "other") if name else UNKNOWN


def merged(place: Place) -> Place:
    """Layers of one kind under one name: blocks.3.mlp as blocks.*.mlp."""
    return place._replace(scope=re.sub(r"(?<=\.)\d+(?=\.|$)", "*", place.scope))
