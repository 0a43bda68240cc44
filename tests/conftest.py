"""What tests of every floor share."""

import os
from pathlib import Path

import jax
import pytest


def pytest_configure(config):
    """The reason of a skip is always printed, as with `-rs`."""
    if "s" not in config.option.reportchars:
        config.option.reportchars += "s"


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
