import json
import os
import time

import pytest

from pullback.experiments.cli import main


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def three(leave):
    """A finished run, one that was killed, one that is damaged; and what is no run."""
    leave("runs/good", steps=400)
    killed = leave("runs/killed", done=30)
    an_hour_ago = time.time() - 3600
    os.utime(killed / "metrics.jsonl", (an_hour_ago, an_hour_ago))
    (leave("runs/wrong") / "config.json").write_text("{")
    (leave("runs/none") / "config.json").unlink()


def test_a_row_for_each_run(three, capsys):
    assert main(["runs"]) == 0
    out, err = capsys.readouterr()
    head, good, killed, wrong = out.splitlines()
    assert err == "" and head.split()[:4] == ["run", "preset", "status", "step"]
    assert good.startswith("good    quick   finished  400 of 400  5 at 100 ") and time.strftime("%Y-%m-%d") in good
    assert killed.startswith("killed  quick   stopped   30 of 100   7.25 at 25")
    assert wrong.startswith("wrong           damaged: runs/wrong/config.json is damaged: ")


def test_json(three, capsys):
    assert main(["runs", "runs", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    good, killed, wrong = answer["runs"]
    assert answer["folder"] == "runs" and good["run"] == "runs/good" and (good["best_val_loss"], good["best_step"]) == (5.0, 100)
    assert (killed["status"], killed["step"], killed["steps"]) == ("stopped", 30, 100)
    assert wrong["status"] == "damaged" and "config.json" in wrong["error"]


def test_none(tmp_path, capsys):
    (tmp_path / "runs").mkdir()
    assert main(["runs"]) == 0 and capsys.readouterr().out == "no runs in runs\n"
    assert main(["runs", "--json"]) == 0 and json.loads(capsys.readouterr().out) == {"folder": "runs", "runs": []}


@pytest.mark.parametrize(
    "argv, says",
    [
        (["elsewhere"], "there is no folder 'elsewhere'"),
        (["runs/good"], "runs/good is a run itself"),
        (["runs", "x"], "nothing takes the word 'x'"),
    ],
)
def test_bad_input_is_one_line(argv, says, three, capsys):
    assert main(["runs", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == "" and says in err and err.count("\n") == 1
