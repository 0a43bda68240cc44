"""A file is there whole or not at all."""

import json
import os

import pytest

from pullback.lib.atomic import replacing, write_bytes, write_json, write_text
from pullback.lib.errors import ConfigError


def names(folder):
    return sorted(os.listdir(folder))


def test_writes_what_it_was_given(tmp_path):
    write_bytes(tmp_path / "a.bin", b"\x00\xff")
    write_text(tmp_path / "a.txt", "naïve\r\n")
    write_json(tmp_path / "a.json", {"b": [1, None], "a": "é"})
    assert (tmp_path / "a.bin").read_bytes() == b"\x00\xff"
    assert (tmp_path / "a.txt").read_bytes() == "naïve\r\n".encode()
    assert list(json.loads((tmp_path / "a.json").read_text()).items()) == [("b", [1, None]), ("a", "é")]
    assert names(tmp_path) == ["a.bin", "a.json", "a.txt"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_half_way_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"old")
    with pytest.raises(error), replacing(path) as beside:
        beside.write_bytes(b"half of the n")
        assert path.read_bytes() == b"old"
        raise error
    assert path.read_bytes() == b"old" and names(tmp_path) == ["model.safetensors"]


def test_the_new_file_is_flushed_before_it_takes_the_place(tmp_path, monkeypatch):
    order = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append(("fsync", os.fstat(fd).st_ino)), fsync(fd)))
    monkeypatch.setattr(os, "replace", lambda old, new: (order.append(("replace", os.stat(old).st_ino)), replace(old, new)))
    write_bytes(tmp_path / "a", b"new")
    new = (tmp_path / "a").stat().st_ino
    assert order == [("fsync", new), ("replace", new), ("fsync", tmp_path.stat().st_ino)]


def test_the_file_beside_keeps_the_extension_and_the_folder(tmp_path):
    with replacing(tmp_path / "loss.png") as beside:
        assert beside.suffix == ".png" and beside.parent == tmp_path and beside.name != "loss.png"
        beside.write_bytes(b"picture")


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    write_text(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink() and (tmp_path / "real.txt").read_text() == "new"


def test_json_without_numbers_that_json_lacks(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"loss": float("nan")})
    assert names(tmp_path) == []


@pytest.mark.parametrize("place", ["no/such/folder/a.txt", "file/a.txt", "folder"])
def test_a_place_that_cannot_be_written_is_one_clear_line(tmp_path, place):
    (tmp_path / "file").write_text("a file, no folder")
    (tmp_path / "folder").mkdir()
    before = names(tmp_path)
    with pytest.raises(ConfigError) as error:
        write_text(tmp_path / place, "text")
    assert str(error.value).startswith(f"cannot write {tmp_path / place}: ") and "\n" not in str(error.value)
    assert names(tmp_path) == before
