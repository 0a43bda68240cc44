"""The README's examples run, and print what they say."""

import re
from pathlib import Path

import pytest

from pullback.ops.op import REGISTRY

TEXT = (Path(__file__).parents[1] / "README.md").read_text()


@pytest.fixture
def registry():
    """What the examples register goes again."""
    before = set(REGISTRY)
    yield
    for name in set(REGISTRY) - before:
        del REGISTRY[name]


def test_examples(registry, capsys):
    scope: dict = {"__name__": "readme"}
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, scope)
    printed = capsys.readouterr().out
    numbers = lambda text: [float(x) for x in re.findall(r"-?\d+\.\d+", text)]
    for line, said in zip(printed.splitlines(), re.findall(r"print\(.*?# (\[.*)", TEXT)):
        assert numbers(line) == pytest.approx(numbers(said), abs=1e-3), line
    assert float(scope["loss"]) > 0 and scope["step"].traces == 1
