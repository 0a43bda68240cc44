import json
import os
import subprocess
import sys

import pytest

from pullback.experiments import run
from pullback.experiments.history import flat, read_history
from pullback.experiments.run import fcntl, occupied
from pullback.lib.errors import ConfigError


def status(folder):
    return read_history(folder).standing.status


def test_finished(leave):
    at = read_history(leave("run")).standing
    assert (at.preset, at.status, at.step, at.steps) == ("quick", "finished", 100, 100)
    assert at.loss == 3.0 and at.val_loss == 5.0 and (at.best_val_loss, at.best_step) == (5.0, 100)


def test_the_best_need_not_be_the_last(leave):
    at = read_history(leave("run", steps=400)).standing
    assert (at.best_val_loss, at.best_step) == (5.0, 100) and at.val_loss == 7.25


@pytest.mark.skipif(fcntl is None, reason="this system has no locks: a run at work is called stopped")
def test_at_work_while_its_process_lives(leave):
    folder = leave("run", done=40)
    hold = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", hold, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"\n"
        assert status(folder) == status(folder) == "at work"
        process.kill()
    assert status(folder) == "stopped"


@pytest.mark.skipif(fcntl is None, reason="this system has no locks: a run at work is called stopped")
def test_at_work_until_the_last_file_is_written(leave):
    folder = leave("run")
    with occupied(folder):
        assert status(folder) == "at work"
    assert status(folder) == "finished"


def test_a_look_keeps_no_run_from_its_folder(leave, monkeypatch):
    """It has the lock for an instant, in which the run asks for it; and a run that stays does not give way."""
    folder, asked = leave("run", done=40), []
    look = os.open(folder, os.O_RDONLY)
    assert fcntl and run.lock(look, fcntl.LOCK_SH)
    monkeypatch.setattr(run.time, "sleep", lambda seconds: asked.append(seconds) or os.close(look))
    with occupied(folder):
        assert len(asked) == 1
        monkeypatch.undo()
        with pytest.raises(ConfigError, match="another process is at work on"), occupied(folder):
            raise AssertionError("not reached")


def test_without_locks_nothing_is_at_work(leave, monkeypatch):
    folder = leave("run", done=40)
    monkeypatch.setattr(run, "fcntl", None)
    with occupied(folder):
        assert status(folder) == "stopped"


def test_weights_before_the_last_step_are_of_a_run_that_was_interrupted(leave):
    folder = leave("run", done=40)
    (folder / "model.safetensors").write_bytes(b"weights")
    assert status(folder) == "stopped"


def test_diverged(leave):
    folder = leave("run", done=40)
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"step": 41, "loss": null}\n')
    assert status(folder) == "diverged" and read_history(folder).standing.loss is None
    (folder / "metrics.jsonl").write_text('{"step": 1, "loss": null}\n')
    assert status(folder) == "diverged"


def test_a_run_that_has_only_begun(leave):
    folder = leave("run", done=0)
    (folder / "metrics.jsonl").unlink()
    (folder / "provenance.json").unlink()
    history = read_history(folder)
    assert history.standing.status == "stopped" and history.standing.step == 0 and history.provenance == {} and history.sample == ""


def test_the_newest_checkpoint(leave):
    folder = leave("run")
    assert read_history(folder).checkpoint is None
    for name in ("9", "100", "100.partial", "latest"):
        (folder / "checkpoints" / name).mkdir(parents=True)
    assert read_history(folder).checkpoint == 100


def test_a_long_sample_is_cut(leave):
    folder = leave("run")
    (folder / "samples.txt").write_bytes(b"x" * 20_000 + b"\xff" * 500)
    sample = read_history(folder).sample
    assert len(sample) < 20_100 and sample.endswith("500 more characters in samples.txt")


def write(name, content):
    return lambda folder: (folder / name).write_bytes(content)


DAMAGE = {
    "config truncated": (lambda f: os.truncate(f / "config.json", 30), "config.json is damaged"),
    "config no object": (write("config.json", b"[]"), "config.json: expected an object; got list"),
    "config of something else": (write("config.json", b'{"model_type": "gpt2"}'), "config.json is not of a run: .* got .*model_type"),
    "config without end": (write("config.json", b'{"preset": "quick", "steps": 1e9}'), "is not of a run"),
    "config too deep": (write("config.json", b"[" * 100_000), "config.json is damaged"),
    "provenance truncated": (lambda f: os.truncate(f / "provenance.json", 30), "provenance.json is damaged"),
    "provenance no object": (write("provenance.json", b"7"), "provenance.json: expected an object; got int"),
    "provenance a folder": (lambda f: ((f / "provenance.json").unlink(), (f / "provenance.json").mkdir()), "provenance.json is a folder"),
    "metrics damaged": (write("metrics.jsonl", b'{"step": 1}\n{"step"\n{"step": 3}\n'), "metrics.jsonl is damaged: line 2"),
    "sample too large": (lambda f: os.truncate(f / "samples.txt", 40 << 20), "samples.txt has 41,943,040 bytes"),
}


@pytest.mark.parametrize("damage, says", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_one_error_that_names_the_file(leave, damage, says):
    folder = leave("run")
    damage(folder)
    with pytest.raises(ConfigError, match=says) as caught:
        read_history(folder)
    assert str(folder) in str(caught.value)


def test_no_run_names_those_that_are_near(leave, tmp_path):
    leave("quick-001")
    leave("other")
    with pytest.raises(ConfigError, match="there is no such folder; did you mean 'quick-001'"):
        read_history(tmp_path / "quick-01")
    with pytest.raises(ConfigError, match="no such folder; `pullback train` makes one"):
        read_history(tmp_path / "quick-001" / "inside")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="empty is no run: there is no config.json in it; known: other, quick-001"):
        read_history(tmp_path / "empty")
    for i in range(20):
        leave(f"{i:03d}" * 5)
    with pytest.raises(ConfigError, match="config.json in it; `pullback runs .*` lists those that there are"):
        read_history(tmp_path / "empty")


def test_flat():
    record = {"a": 1, "b": {"c": "x", "d": [1, 2], "e": {}}, "f": [{"g": None}, 2.5]}
    assert flat(record, "") == {"a": "1", "b.c": "x", "b.d": "[1, 2]", "b.e": "{}", "f.0.g": "null", "f.1": "2.5"}


@pytest.mark.parametrize("record", [{"x": json.loads("[" * 500 + "]" * 500)}, {str(i): 0 for i in range(5_000)}], ids=["deep", "long"])
def test_flat_is_bounded(record):
    with pytest.raises(ConfigError, match="there nests more than 8 deep or has more than 2,000 entries"):
        flat(record, "there")
