"""The examples of the README and of the first ten minutes run, and print what they say."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()


def test_examples(registry, capsys):
    scope: dict = {"__name__": "readme"}
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    assert len(blocks) == 3
    for block in blocks:
        exec(block, scope)
    printed = capsys.readouterr().out
    numbers = lambda text: [float(x) for x in re.findall(r"-?\d+\.\d+", text)]
    for line, said in zip(printed.splitlines(), re.findall(r"print\(.*?# (\[.*)", TEXT)):
        assert numbers(line) == pytest.approx(numbers(said), abs=1e-3), line
    assert float(scope["loss"]) > 0 and scope["step"].traces == 1 and len(scope["text"].ids) == 10


def test_the_first_ten_minutes(registry, capsys):
    """Every line that is shown is printed: words as they are, numbers of four digits or more, gaps by their size."""
    text, scope = (ROOT / "docs" / "first-ten-minutes.md").read_text(), {"__name__": "notebook"}
    blocks = re.findall(r"```(python|text)\n(.*?)```", text, re.S)
    assert [kind for kind, _ in blocks] == ["python", "text"] * 4
    for (_, code), (_, shown) in zip(blocks[::2], blocks[1::2]):
        exec(code, scope)
        printed = capsys.readouterr().out.splitlines()
        assert len(printed) == len(shown.splitlines())
        for came, due in zip(printed, shown.splitlines()):
            assert re.findall(r"[A-Za-z]{3,}", came) == re.findall(r"[A-Za-z]{3,}", due)
            values = [[float(x) for x in re.findall(r"-?\d+\.\d{4,}", line)] for line in (came, due)]
            assert values[0] == pytest.approx(values[1], abs=1e-3)
