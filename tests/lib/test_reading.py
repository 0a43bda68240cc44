"""Files that are read whole, and those that are not."""

import os

import pytest

from pullback.lib.errors import ConfigError
from pullback.lib.reading import read_bytes, read_json


def test_what_is_there_comes_back(tmp_path):
    (tmp_path / "a.json").write_text('{"a": [1, 2.5, null, "\\u00e9"]}')
    assert read_json(tmp_path / "a.json") == {"a": [1, 2.5, None, "é"]}
    assert read_bytes(tmp_path / "a.json")[:4] == b'{"a"'


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "is damaged"),
        ('{"a": 1, "a": 2}', "a field twice"),
        ("[NaN]", "NaN is no JSON"),
        ("[-Infinity]", "-Infinity is no JSON"),
        ("[1e999]", "1e999 is larger than any float"),
        ("[-1e999]", "-1e999 is larger than any float"),
        ("[" * 100_000, "is damaged"),
        ("9" * 5000, "is damaged"),
    ],
)
def test_what_is_no_json_is_one_line(text, said, tmp_path):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ConfigError, match=f"a.json.*{said}") as error:
        read_json(tmp_path / "a.json")
    assert "\n" not in str(error.value)


def test_what_is_no_file_or_too_large_is_not_read(tmp_path):
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(1 << 40)  # a hole: it takes no space on the disk
    with pytest.raises(ConfigError, match="has 1,099,511,627,776 bytes; at most 100 are read"):
        read_bytes(tmp_path / "huge", 100)
    with pytest.raises(ConfigError, match="is a folder; expected a file"):
        read_bytes(tmp_path)
    with pytest.raises(ConfigError, match="No such file"):
        read_bytes(tmp_path / "gone")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ConfigError, match="is a pipe or device"):
            read_bytes(tmp_path / "pipe")
