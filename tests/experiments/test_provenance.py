"""What is not as it was when a run was made, told in words."""

import json

import pytest

from pullback.experiments.machine import processor
from pullback.experiments.provenance import changes, last_leg, legs, provenance, record_of, resumed

SHA, DIRTY = "a1b2c3d4e5f6", {"sha256": "0123456789", "diff": "+x"}
THEN = {
    "versions": {"jax": "0.10.2", "jaxlib": "0.10.2"},
    "git": {"sha": SHA, "dirty": None},
    "python": "3.11.7",
    "platform": "Linux-6",
    "device": "cpu:0",
    "device_kind": "AMD EPYC",
    "vectors": "avx avx2",
    "threads": 2,
    "xla_flags": "",
    "jax_config": {"jax_enable_x64": False},
    "arena": "mallopt",
    "rules": [],
}


def test_nothing_has_changed_since_now():
    record = json.loads(json.dumps(provenance()))
    assert changes(record, provenance()) == ([], [])
    assert changes({**record, "device": "cpu:1", "arena": "off"}, provenance()) == ([], [])


@pytest.mark.parametrize(
    "change, says",
    [
        (dict(versions={"jax": "0.11.0", "jaxlib": "0.10.2"}), "versions.jax is now '0.11.0' and was '0.10.2'"),
        (dict(device_kind="Intel Xeon"), "device_kind is now 'Intel Xeon' and was 'AMD EPYC'"),
        (dict(vectors="avx"), "vectors is now 'avx' and was 'avx avx2'"),
        (dict(threads=1), "threads is now 1 and was 2"),
        (dict(xla_flags="--xla_x"), "xla_flags is now '--xla_x' and was ''"),
        (dict(jax_config={"jax_enable_x64": True}), "jax_config.jax_enable_x64 is now True and was False"),
        (dict(git={"sha": "d4e5f6a1b2c3", "dirty": None}), "the code changed since (git a1b2c3d → d4e5f6a)"),
        (dict(git={"sha": SHA, "dirty": DIRTY}), "the code changed since (git a1b2c3d → a1b2c3d with changes 0123456)"),
        (dict(git=None), "the code changed since (git a1b2c3d → none)"),
    ],
)
def test_what_decides_numbers(change, says):
    assert changes(THEN, {**THEN, **change}) == ([says], [])


def test_what_does_not():
    now = {**THEN, "python": "3.12.0", "platform": "Linux-7"}
    assert changes(THEN, now) == ([], ["python is now '3.12.0' and was '3.11.7'", "platform is now 'Linux-7' and was 'Linux-6'"])


def test_the_threads_of_the_host_of_a_gpu_decide_nothing():
    then = {**THEN, "vectors": None}
    assert changes(then, {**then, "threads": 64}) == ([], ["threads is now 64 and was 2"])


@pytest.mark.parametrize("git", [7, "x", [], {}, {"sha": 7, "dirty": 8}, {"sha": SHA, "dirty": {"sha256": None}}])
def test_a_strangers_record(git, tmp_path):
    [said] = changes({**THEN, "git": git}, THEN).deciding
    assert said.startswith("the code changed since (git ") and "\n" not in said
    assert changes({}, THEN).deciding == ["its provenance.json cannot be read"]
    assert record_of(tmp_path) == {}
    for text in ("[1]", "{", "\xff"):
        (tmp_path / "provenance.json").write_text(text)
        assert record_of(tmp_path) == {}
    for told in (3, [7, {}, {"differences": 3, "provenance": {}}, {"differences": [], "provenance": 3}]):
        assert legs({"resumed": told}) == []


def test_a_run_goes_on_with_what_it_was_last_gone_on_with():
    assert last_leg(THEN) == THEN
    now = {**THEN, "threads": 1}
    record = resumed(THEN, 20, ["threads is now 1 and was 2"], now)
    assert changes(last_leg(record), now).deciding == [] and changes(record, now).deciding == ["threads is now 1 and was 2"]
    again = resumed(record, 30, ["threads is now 2 and was 1"], THEN)
    assert [leg["step"] for leg in legs(again)] == [20, 30] and changes(last_leg(again), THEN).deciding == []
    assert {name: again[name] for name in THEN} == THEN


def test_processor():
    """Here, whatever it is; the same each time."""
    assert processor() == processor() and processor().name
