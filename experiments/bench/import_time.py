"""`pullback bench import`: what `import pullback` costs beside `import jax`."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from ..parsing import parse
from .harness import alternating, compared, median, show

# With compiled files, as an installation has them, whether or not this environment has Python write any.
TIMED = """
import json, sys, time
sys.dont_write_bytecode, sys.pycache_prefix = False, {folder!r}
t = time.perf_counter()
import {module}
print(json.dumps(dict(import_s=time.perf_counter() - t)))
"""


@dataclass(frozen=True)
class Options:
    """Each import in a fresh process, alternating; medians. `extra_s` is what ours takes beyond `import jax`."""

    rounds: int = 9
    json: bool = False


def main(argv: Sequence[str]) -> int:
    options = parse(Options, argv, "bench import")
    with tempfile.TemporaryDirectory() as folder:
        programs = {name: (["-c", TIMED.format(folder=folder, module=name)], False) for name in ("pullback", "jax")}
        alternating(programs, 1)  # writes the compiled files
        lines = alternating(programs, options.rounds)
    taken = {name: median(rounds, "import_s") or 0.0 for name, rounds in lines.items()}
    figures: dict[str, dict] = {name: {"import_s": seconds} for name, seconds in taken.items()}
    figures["pullback"]["extra_s"] = round(taken["pullback"] - taken["jax"], 4)
    result = compared(figures, {"import": "import_s"})
    show(result, "import", {"import ms": ("import_s", 1e3, ",.0f"), "beyond jax ms": ("extra_s", 1e3, ",.0f")}, options.json)
    return 0
