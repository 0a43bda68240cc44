"""The long proofs, one after the other: `make prove`. Each leaves its commit, its command and its figures in docs/proof.json.

usage: python -m pullback.experiments.proof [NAME ...]        in the root of the repository
"""

import datetime
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..lib.atomic import write_json
from ..lib.errors import ConfigError, UnknownName, near
from .cli import complain

OUT = Path("docs/proof.json")
DRAWN = "tests/ops/test_drawn.py tests/ops/test_index_expressions.py tests/ops/test_einsum_expressions.py"
PROOFS = {  # name: a command whose last line of standard output says what came of it
    "check": "pullback check --json",
    "mutation": "pullback mutate --json",
    "verdict": "pullback bench verdict --json",
    "random operands": f"PULLBACK_PROVE=1 python -m pytest -q {DRAWN}",
}


def figures(name: str, line: str) -> Any:
    """What is kept of a proof."""
    if name == "random operands":
        return line.strip()
    found = json.loads(line)
    return found if name == "verdict" else found["summary"]


def run(name: str, command: str) -> dict[str, Any]:
    """Run a proof. One that fails raises ConfigError and leaves the file as it was."""
    words = shlex.split(command)
    settings = dict(word.split("=", 1) for word in words if "=" in word and word == words[0])
    words = [word for word in words if word not in (f"{key}={value}" for key, value in settings.items())]
    programs = {"pullback": ["-m", "pullback"], "python": []}
    began = time.monotonic()
    argv = [sys.executable, *programs[words[0]], *words[1:]]
    done = subprocess.run(argv, env={**os.environ, **settings}, stdout=subprocess.PIPE, text=True)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise ConfigError(f"the proof {name!r} failed with code {done.returncode}: {(lines or ['it said nothing'])[-1][:300]}")
    return {
        "command": command,
        "commit": subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip(),
        "date": datetime.date.today().isoformat(),
        "seconds": round(time.monotonic() - began),
        "figures": figures(name, lines[-1]),
    }


def main(names: Sequence[str]) -> int:
    for name in names:
        if name not in PROOFS:
            raise UnknownName(f"no proof {name!r}" + near(name, PROOFS))
    if not Path("tests").is_dir():
        raise ConfigError("the proofs run in the root of the repository, where tests/ is")
    proofs = json.loads(OUT.read_text()) if OUT.is_file() else {}
    for name in names or PROOFS:
        print(f"{name}: {PROOFS[name]}", file=sys.stderr, flush=True)
        proofs[name] = run(name, PROOFS[name])
        write_json(OUT, proofs)
        print(f"  {json.dumps(proofs[name]['figures'])[:300]}", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (ConfigError, UnknownName) as error:
        sys.exit(complain(str(error)))
