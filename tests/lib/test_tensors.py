"""Files of tensors: whole ones, damaged ones, and headers that somebody made up."""

import json
import os
import random
import resource
import struct

import numpy as np
import pytest

from pullback.lib import tensors
from pullback.lib.errors import ConfigError
from pullback.lib.tensors import Kind, Tensors, demand

X = np.arange(6, dtype=np.float32).reshape(2, 3)
FUZZED = int(os.environ.get("PULLBACK_EXAMPLES", "2000"))


def raw(header, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(begin=0, end=4, shape=(1,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def read_all(path) -> dict[str, np.ndarray]:
    file = Tensors(path)
    return {name: file[name] for name in file.kinds}


def test_round_trip(tmp_path):
    path = tmp_path / "x.safetensors"
    tensors.write(path, {"x": X, "turned": X.T, "empty": np.zeros((0, 3), np.float32), "one": np.float32(7)}, "pt")
    came = read_all(path)
    np.testing.assert_array_equal(came["x"], X)
    np.testing.assert_array_equal(came["turned"], X.T)
    assert came["empty"].shape == (0, 3) and came["one"] == 7
    assert [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]
    (tmp_path / "any").touch()
    assert path.stat().st_mode == (tmp_path / "any").stat().st_mode  # the library alone would let nobody else read it


def test_several_files_are_one(tmp_path):
    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    tensors.write(a, {"x": X}, "pt")
    tensors.write(b, {"y": X + 1}, "pt")
    file = Tensors(a, b)
    assert file.kinds == {"x": Kind("F32", (2, 3)), "y": Kind("F32", (2, 3))}
    np.testing.assert_array_equal(file["y"], X + 1)
    tensors.write(b, {"x": X}, "pt")
    with pytest.raises(ConfigError, match="b.safetensors and a.safetensors both have a tensor 'x'"):
        Tensors(a, b)


BAD = {
    "a name twice": raw(b'{"a":' + json.dumps(entry()).encode() + b',"a":' + json.dumps(entry(4, 8)).encode() + b"}", bytes(8)),
    "overlap": raw({"a": entry(0, 8, (2,)), "b": entry(4, 12, (2,))}, bytes(12)),
    "one range for two": raw({"a": entry(), "b": entry()}, bytes(4)),
    "a hole": raw({"a": entry(), "b": entry(8, 12)}, bytes(12)),
    "bytes left over": raw({"a": entry()}, bytes(8)),
    "another size than the shape says": raw({"a": entry(shape=(1000, 1000))}, bytes(4)),
    "beyond the end": raw({"a": entry(0, 8, (2,))}, bytes(4)),
    "backwards": raw({"a": entry(4, 0)}, bytes(4)),
    "a header longer than the file": raw({"a": entry()}, bytes(4), 1 << 40),
    "a header of the largest length": raw({"a": entry()}, bytes(4), (1 << 64) - 1),
    "no JSON": raw(b'{"a": [', bytes(4)),
    "no UTF-8": raw(b'{"\xff": 1}', bytes(4)),
    "no object": raw([entry()], bytes(4)),
    "an unknown dtype": raw({"a": entry(dtype="F99")}, bytes(4)),
    "a negative size": raw({"a": entry(shape=(-1,))}, bytes(4)),
    "a size beyond 64 bits": raw({"a": entry(0, 0, (2**32, 2**32))}),
    "no shape": raw({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, bytes(4)),
    "offsets that are no integers": raw({"a": {**entry(), "data_offsets": [0, 4.0]}}, bytes(4)),
    "offsets in words": raw({"a": {**entry(), "data_offsets": ["0", "4"]}}, bytes(4)),
    "shorter than a length": b"\x03\x00",
    "nothing": b"",
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_what_is_no_file_of_tensors(data, tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match="x.safetensors is damaged: "):
        read_all(path)


def test_a_name_twice_with_one_range_is_one_tensor(tmp_path):
    path, one = tmp_path / "x.safetensors", json.dumps(entry()).encode()
    path.write_bytes(raw(b'{"a":' + one + b',"a":' + one + b"}", bytes(4)))
    assert {name: x.tolist() for name, x in read_all(path).items()} == {"a": [0.0]}


def test_what_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match="cannot read nowhere: No such file"):
        read_all(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="is no file"):
        read_all(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="is no file"):
        read_all(tmp_path / "pipe")


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, put in, taken out or doubled, mostly in the header; numbers in it made larger."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(min(len(out), 300)) if out else 0
        kind = rng.randrange(6)
        if kind == 0 and out:
            out[at] = rng.randrange(256)
        elif kind == 1:
            out[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 3)))
        elif kind == 2:
            del out[at : at + rng.randint(1, 8)]
        elif kind == 3:
            out[at:at] = rng.choice([b"9" * rng.randint(1, 25), b'"', b"{", b"[", b",", b"null", b"-", b"e9", b"\\u0000"])
        elif kind == 4:
            out[at:at] = out[at : at + rng.randint(1, 60)]
        else:
            out[:8] = struct.pack("<Q", rng.choice([0, 1, len(out), 2**31, 2**40, 2**63, rng.randrange(400)]))
    return bytes(out)


def test_headers_that_chance_has_changed(tmp_path):
    """Only clean errors, or tensors that lie in the file; memory does not follow what a header claims."""
    path = tmp_path / "x.safetensors"
    tensors.write(path, {"weight": X, "bias": X[0], "half": X.astype(np.float16), "none": X[:0]}, "pt")
    good, rng, refused = path.read_bytes(), random.Random(0), 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(FUZZED):
        data = mutated(good, rng)
        path.write_bytes(data)
        try:
            came = read_all(path)
        except ConfigError as error:
            assert "\n" not in str(error)
            refused += 1
        else:
            assert sum(x.nbytes for x in came.values()) <= len(data)
    assert refused > FUZZED // 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10  # KiB


def test_a_full_disk_is_one_line_and_leaves_the_old_file(tmp_path):
    """The library has an error of its own for what the system refuses."""
    path, (soft, hard) = tmp_path / "x.safetensors", resource.getrlimit(resource.RLIMIT_FSIZE)
    tensors.write(path, {"old": X}, "pt")
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(ConfigError) as caught:
            tensors.write(path, {"new": np.zeros(1000)}, "pt")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(caught.value) == f"cannot write {path}: File too large"
    assert list(tmp_path.iterdir()) == [path] and list(Tensors(path).kinds) == ["old"]


def test_what_does_not_fit_is_listed_together():
    came = {"a": Kind("F32", (2,)), "b": Kind("F16", (3,)), "c": Kind("F32", (4,)), **{f"x{i}": Kind("F32", ()) for i in range(9)}}
    with pytest.raises(ConfigError) as caught:
        demand({name: Kind("F32", (n,)) for name, n in (("a", 2), ("b", 3), ("c", 5), ("d", 1))}, came, "here")
    assert str(caught.value) == (
        "here: lacks tensor 'd'; has an unknown tensor 'x0', 'x1', 'x2', 'x3' and 5 more; "
        "b is F16 of shape (3,), expected F32 of shape (3,); c is F32 of shape (4,), expected F32 of shape (5,)"
    )
    demand({"b": Kind("F32", (3,))}, {"b": came["b"]}, "here", tensors.FLOATS)
