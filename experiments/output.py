"""What a command prints on standard output, for people or for programs."""

import json
import math
import sys
from typing import Any


def visible(text: str) -> str:
    """On a terminal without control characters, which a model of bytes writes too; elsewhere as it is."""
    if not sys.stdout.isatty():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def say(**answer) -> None:
    print(json.dumps(without_nan(answer), allow_nan=False))


def without_nan(answer) -> Any:
    """JSON has neither NaN nor infinity: null in their place."""
    if isinstance(answer, dict):
        return {name: without_nan(value) for name, value in answer.items()}
    if isinstance(answer, (list, tuple)):
        return [without_nan(value) for value in answer]
    return None if isinstance(answer, float) and not math.isfinite(answer) else answer
