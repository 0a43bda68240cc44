"""Cases for the floor `nn`."""

import json
import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def known_faults():
    """`known_faults("adamw")`: cases of one op from public reports of other frameworks' faults, in the folder `PULLBACK_CASES`."""
    folder = os.environ.get("PULLBACK_CASES")
    if not folder:
        pytest.skip("needs the cases of known faults: set PULLBACK_CASES to the folder that holds known_faults.json")
    cases = json.loads((Path(folder) / "known_faults.json").read_text())

    def of(op: str) -> list[dict]:
        found = [case for case in cases if case["op"] == op]
        assert found, f"no case of {op!r} in {folder}"
        return found

    return of
