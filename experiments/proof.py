"""The long proofs, one after the other: `make prove`. Each leaves its commit, its command and its figures in docs/proof.json.

usage: python -m pullback.experiments.proof [NAME ...]        in the root of the repository
"""

import datetime
import json
import os
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
DRAWN = "PULLBACK_EXAMPLES=10000 python -m pytest -q -n auto"
PROOFS = {  # name: a command of the shell whose last line of standard output says what came of it
    "check": "pullback check --json",
    "mutation": "pullback mutate --json",
    "verdict": "pullback bench verdict --json",
    "parity": "python -m pytest -q tests/parity",
    "killed after every step": "PULLBACK_KILLS=200 python -m pytest -q -n auto tests/experiments/test_verify.py -k killed",
    "killed at any instant": "PULLBACK_KILLS=200 python -m pytest -q -n 2 tests/experiments/test_kills.py",
    "headers": "PULLBACK_EXAMPLES=100000 python -m pytest -q tests/lib/test_tensors.py",
    "random operands": f"{DRAWN} tests/ops/test_drawn.py",
    "random operands of fused ops": f"{DRAWN} tests/ops/test_drawn_fused.py",
    "random expressions": f"{DRAWN} tests/ops/test_index_expressions.py tests/ops/test_einsum_expressions.py",
}


def figures(line: str) -> Any:
    """What is kept of a proof: its summary if it prints JSON that has one."""
    try:
        found = json.loads(line)
    except ValueError:
        return line.strip()
    return found.get("summary", found) if isinstance(found, dict) else found


def run(name: str, command: str, commit: str) -> dict[str, Any]:
    """Run a proof, with the programs of this environment. One that fails raises ConfigError."""
    began = time.monotonic()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(command, shell=True, env={**os.environ, "PATH": path}, stdout=subprocess.PIPE, text=True)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        print(done.stdout, file=sys.stderr)
        raise ConfigError(f"the proof {name!r} failed with code {done.returncode}: {(lines or ['it said nothing'])[-1][:300]}")
    return {
        "command": command,
        "commit": commit,
        "date": datetime.date.today().isoformat(),
        "seconds": round(time.monotonic() - began),
        "figures": figures(lines[-1]),
    }


def main(names: Sequence[str]) -> int:
    for name in names:
        if name not in PROOFS:
            raise UnknownName(f"no proof {name!r}" + near(name, PROOFS))
    if not Path("tests").is_dir():
        raise ConfigError("the proofs run in the root of the repository, where tests/ is")
    described = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"], capture_output=True, text=True)
    proofs = json.loads(OUT.read_text()) if OUT.is_file() else {}
    for name in names or PROOFS:
        print(f"{name}: {PROOFS[name]}", file=sys.stderr, flush=True)
        proofs[name] = run(name, PROOFS[name], described.stdout.strip() or "unknown")
        write_json(OUT, proofs)
        print(f"  {json.dumps(proofs[name]['figures'])[:300]}", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (ConfigError, UnknownName) as error:
        sys.exit(complain(str(error)))
