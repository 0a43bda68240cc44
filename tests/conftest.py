"""What tests of every floor share."""

import json
import os
import tempfile
from pathlib import Path

import jax
import pytest
from hypothesis import settings

from pullback.ops import op as machinery
from pullback.ops import rule

# How many examples a hypothesis test draws: PULLBACK_EXAMPLES. The same ones every time, and as long as they take: a compile is
# slow, not a hang.
settings.register_profile("pullback", max_examples=int(os.environ.get("PULLBACK_EXAMPLES", 60)), deadline=None, derandomize=True)
settings.load_profile("pullback")


def pytest_addoption(parser):
    parser.addoption("--cases", metavar="FILE", help="known faults of other frameworks, a JSON file; else PULLBACK_CASES/known_faults.json")


def pytest_generate_tests(metafunc):
    """One test for each known fault; where there is no file of them, one that is skipped and says so."""
    if "known_fault" not in metafunc.fixturenames:
        return
    folder = os.environ.get("PULLBACK_CASES")
    file = metafunc.config.getoption("--cases") or (folder and str(Path(folder) / "known_faults.json"))
    if not file:
        skipped = pytest.param(None, marks=pytest.mark.skip(reason="neither --cases nor PULLBACK_CASES names known faults"))
        metafunc.parametrize("known_fault", [skipped], ids=["none"])
        return
    cases = json.loads(Path(file).read_text())
    metafunc.parametrize("known_fault", cases, ids=[case["id"] for case in cases])


def pytest_configure(config):
    """The reason of a skip is always printed, as with `-rs`. What one process of this session has compiled, the others, and those
    that tests start, find on the disk."""
    if "s" not in config.option.reportchars:
        config.option.reportchars += "s"
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # the first process, not one of several that it starts
        folder = tempfile.TemporaryDirectory(prefix="programs-")
        config.add_cleanup(folder.cleanup)
        limits = {"jax_persistent_cache_min_compile_time_secs": 0.0, "jax_persistent_cache_min_entry_size_bytes": -1}
        for name, value in {"jax_compilation_cache_dir": folder.name, **limits}.items():
            jax.config.update(name, value)
            os.environ[name.upper()] = str(value)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with real data sets, named by `PULLBACK_DATA`; without it the test is skipped and says so."""
    folder = os.environ.get("PULLBACK_DATA")
    if not folder:
        pytest.skip("needs real data: set PULLBACK_DATA to a folder that holds tinyshakespeare.txt")
    return Path(folder).resolve(strict=True)


@pytest.fixture
def x64():
    """Everything in the test is float64; afterwards the flag is what it was."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def registry():
    """A registry in which a test may define ops; afterwards it is what it was."""
    before, epoch = dict(machinery.REGISTRY), rule.EPOCH.value
    yield machinery.REGISTRY
    machinery.REGISTRY.clear()
    machinery.REGISTRY.update(before)
    rule.EPOCH.set_global(epoch)
