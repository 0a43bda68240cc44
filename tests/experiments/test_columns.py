import json
import math

import numpy as np
import pytest

from pullback.experiments import columns
from pullback.experiments.columns import read_columns
from pullback.lib.errors import ConfigError


@pytest.fixture
def read(tmp_path):
    def read(*lines):
        (tmp_path / "metrics.jsonl").write_bytes(
            b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
        )
        return read_columns(tmp_path / "metrics.jsonl")

    return read


def test_numbers_by_columns(read):
    found = read({"step": 1, "loss": 3, "val_loss": None}, {"step": 5, "loss": 2.5, "val_loss": 4.0})
    assert found.steps.tolist() == [1, 5] and found.columns["loss"].tolist() == [3, 2.5]
    steps, values = found.points("val_loss")
    assert (steps.tolist(), values.tolist()) == ([5], [4.0])
    assert [len(x) for x in found.points("elsewhere")] == [0, 0]


@pytest.mark.parametrize("tail", [b'{"step": 3, "lo', b"\x00" * 40, b'{"step": 3', b"\xff", b"3"])
def test_a_half_written_last_line_is_left_out(read, tail):
    assert read({"step": 1, "loss": 3.0}, {"step": 2, "loss": 2.0}, tail).steps.tolist() == [1, 2]


def test_a_last_line_that_lacks_its_end_only_counts(read):
    assert read({"step": 1}, b'{"step": 2, "loss": 1.0}').columns["loss"][1] == 1.0


@pytest.mark.parametrize(
    "line",
    [b"{\n", b"[1]\n", b"\n", b'{"loss": 1}\n', b'{"step": -1}\n', b'{"step": 1.5}\n', b'{"step": true}\n', b"[" * 9999 + b"\n", b"\xff\n"],
)
def test_damage_names_the_line(read, line):
    with pytest.raises(ConfigError, match="metrics.jsonl is damaged: line 2 is no object with a step"):
        read({"step": 1}, line, {"step": 3})


def test_what_is_no_number_is_left_out(read):
    huge = b'{"step": 3, "loss": 1e999, "a": ' + b"9" * 400 + b"}\n"
    found = read({"step": 1, "loss": 2.0, "a": True}, b'{"step": 2, "loss": NaN, "a": [1]}\n', huge)
    assert found.columns.keys() == {"loss"} and found.points("loss")[0].tolist() == [1]


def test_a_field_may_come_late_or_go(read):
    found = read({"step": 1, "loss": 2.0}, {"step": 2, "loss_scale": 1024.0, "checksum": "ab"}, {"step": 3, "loss": 1.0, "checksum": "cd"})
    assert found.words == {"checksum": "cd"}
    np.testing.assert_array_equal(found.columns["loss"], [2.0, math.nan, 1.0])
    np.testing.assert_array_equal(found.columns["loss_scale"], [math.nan, 1024.0, math.nan])


def test_steps_that_come_again_replace_the_first(read):
    found = read(*({"step": n, "loss": 1.0} for n in (1, 2, 3, 4)), {"step": 3, "loss": 9.0}, {"step": 5, "loss": 8.0})
    assert found.steps.tolist() == [1, 2, 3, 5] and found.columns["loss"].tolist() == [1, 1, 9, 8]


def test_bounds(read, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="more than 40 different fields"):
        read({"step": 1, **{f"x{i}": 1 for i in range(41)}})
    monkeypatch.setattr(columns, "LARGEST", 20)
    with pytest.raises(ConfigError, match="has 27 bytes; at most 20"):
        read({"step": 1}, {"step": 1000})
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="folder is no file"):
        read_columns(tmp_path / "folder")


def test_none_yet(tmp_path):
    assert len(read_columns(tmp_path / "metrics.jsonl").steps) == 0
