"""A run goes on by other code or on another machine only where that is asked for, and then it is written down."""

import json
from dataclasses import replace

import pytest

from pullback.experiments import job
from pullback.experiments.cli import main
from pullback.experiments.loop import train
from pullback.experiments.progress import Silent
from pullback.experiments.resume import resume
from pullback.experiments.verify import verify
from pullback.lib.errors import ConfigError


@pytest.fixture(scope="module", autouse=True)
def compiled_once(compiled):
    """All of it by one step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "training_step", lambda *args: compiled.step)
        patch.setattr(job, "validation", lambda *args: compiled.evaluate)
        yield


class Notes(Silent):
    def __init__(self):
        self.said = []

    def note(self, line):
        self.said.append(line)


@pytest.fixture
def run(tiny, tmp_path):
    return train(replace(tiny, steps=4, checkpoint_every=2, checksum_every=1, log_every=1, sample_tokens=0), tmp_path / "run").folder


def record(run, **changes) -> dict:
    """provenance.json, after these changes."""
    told = {**json.loads((run / "provenance.json").read_text()), **changes}
    (run / "provenance.json").write_text(json.dumps(told))
    return told


FOUND = ["the code changed since (git abcdefa → none)", "xla_flags is now '' and was '--xla_other'"]


def test_a_mismatch_is_refused_unless_it_is_asked_for(run, capsys, monkeypatch):
    monkeypatch.setattr("pullback.experiments.provenance.git", lambda folder: None)
    record(run, git={"sha": "abcdefabcdef", "dirty": None}, xla_flags="--xla_other", platform="another kernel")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert main(["resume", str(run), "--steps", "6"]) == 2
    assert f"{run}: {'; '.join(FOUND)}; the rest of the run may differ: --loose goes on anyway\n" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before

    assert main(["resume", str(run), "--steps", "6", "--loose"]) == 0
    err = capsys.readouterr().err
    assert all(f"WARNING: {text}; the rest of the run may differ\n" in err for text in FOUND)
    [leg] = record(run)["resumed"]
    assert (leg["step"], leg["differences"], leg["provenance"]["git"]) == (4, FOUND, None)
    assert record(run)["xla_flags"] == "--xla_other"

    assert resume(run, steps=7).steps == 7 and len(record(run)["resumed"]) == 1  # nothing has changed since
    assert verify(run).notes == [
        *(f"note: {text}" for text in FOUND),
        *(text for text in verify(run).notes if text.startswith("note: platform")),
        *(f"note: from step 4 on: {text}" for text in FOUND),
    ]
    assert verify(run, start=6)[:2] == (1, None)  # a part of it, from a checkpoint on, is noted, not refused


def test_without_its_provenance(run):
    (run / "provenance.json").unlink()
    with pytest.raises(ConfigError, match="its provenance.json cannot be read; the rest of the run may differ"):
        resume(run, steps=6)
    notes = Notes()
    assert resume(run, notes, loose=True, steps=6).steps == 6
    assert notes.said[1] == "WARNING: its provenance.json cannot be read; the rest of the run may differ"


def test_a_gpus_kernels_that_are_gone_are_a_mismatch(run, monkeypatch):
    monkeypatch.setattr("pullback.experiments.kernels.doubts_on", lambda platform, reproducible, kept: [] if kept else ["gone"])
    with pytest.raises(ConfigError, match="run: gone; the rest of the run may differ"):
        resume(run, steps=6)
    (run / "autotune.textproto").write_text("")
    assert resume(run, steps=6).steps == 6


def test_what_a_run_keeps_is_not_loose(run):
    settings = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**settings, "reproducible": False}))
    with pytest.raises(ConfigError, match="config.reproducible is now False and was True"):
        resume(run, loose=True, steps=6)
