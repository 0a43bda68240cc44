import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pullback.experiments import commands
from pullback.experiments.cli import main
from pullback.experiments.loop import Result, train
from pullback.experiments.metrics import Metrics
from pullback.experiments.output import visible
from pullback.experiments.presets import preset
from pullback.experiments.run import load_run
from pullback.lib import starting
from pullback.lib.corpora import NAMED


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Commands run in an empty folder, so that what they leave behind can be seen."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def trained(monkeypatch):
    """`train` that only says what it was asked to do."""
    asked = []

    def train(config, out, show):
        asked.append((config, out))
        record = {"parameters": 7, "step": {"compile_seconds": 1.5}}
        return Result(Path("runs/x"), config, record, 5, LAST, 2.5, 3.0, config.seed == STOPPED, "Once upon")

    monkeypatch.setattr(commands, "train_run", train)
    return asked


STOPPED = 130  # the seed of a run that ends by Ctrl-C
LAST = Metrics(5, 2.0, 2.5, 1e-3, 1.0, 100.0)


def refused(argv, capsys) -> str:
    """The one line that a command ends in when it is given what it cannot use."""
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("pullback: ") and err.count("\n") == 1, err
    assert os.listdir() == []
    return err.removeprefix("pullback: ")


BAD = {
    "command": (["trian"], "no command 'trian'; did you mean 'train'?"),
    "preset": (["train", "quik"], "no preset 'quik'; did you mean 'quick'?"),
    "preset after options": (["train", "--steps", "3", "quik"], "no preset 'quik'; did you mean 'quick'?"),
    "two presets": (["train", "quick", "gpt2-124m"], "nothing takes the word 'gpt2-124m'"),
    "option": (["train", "--stepz", "3"], "no option --stepz; did you mean '--steps'"),
    "nested option": (["train", "--model.layer", "3"], "no option --model.layer; did you mean '--model.layers'"),
    "option of another command": (["data", "tinyshakespeare", "--steps", "3"], "no option --steps"),
    "no value": (["train", "--steps"], "--steps was given without its value"),
    "no whole number": (["train", "--steps", "ten"], "--steps: 'ten' is no whole number"),
    "no number": (["train", "--schedule.peak", "high"], "--schedule.peak: 'high' is no number"),
    "no yes or no": (["train", "--model.bias", "perhaps"], "invalid choice 'perhaps' for argument '--model.bias'"),
    "arena": (["train", "--arena", "maybe"], "invalid choice 'maybe' for argument '--arena'"),
    "steps": (["train", "--steps", "0"], "steps is 0; it must be from 1"),
    "batch": (["train", "--batch", "-4"], "batch is -4"),
    "context": (["train", "--context", "0"], "context is 0"),
    "long context": (["train", "--context", "65"], "context is 65; it must be at most model.context, which is 64"),
    "heads": (["train", "--model.heads", "3"], "3 heads do not divide the width 128"),
    "layers": (["train", "--model.layers", "9" * 9], "training 999,999,999 layers of width 128 takes"),
    "layers beyond any": (["train", "--model.layers", "9" * 20], "layers is 99999999999999999999; expected from 1 to 2147483647"),
    "eps": (["train", "--model.eps", "-1"], "eps is -1.0; expected a float32, 0 or more"),
    "no whole number and not none": (["train", "--model.chunk", "x"], "--model.chunk: 'x' is no whole number"),
    "rate beyond float32": (["train", "--schedule.peak", "1e300"], "schedule.peak is 1e+300; it must be a float32, 0 or more"),
    "empty out": (["train", "--out", ""], "the name of the output folder is empty"),
    "empty corpus name": (["train", "--data", ""], "the name of the corpus is empty; expected a UTF-8 file or one of python-docs"),
    "rate": (["train", "--schedule.peak", "nan"], "schedule.peak is nan"),
    "negative rate": (["train", "--schedule.end=-1"], "schedule.end is -1.0"),
    "precision": (["train", "--precision", "float23"], "no precision 'float23'; did you mean 'float32'"),
    "tokeniser": (["train", "--tokeniser", "bpy"], "no tokeniser 'bpy'; did you mean 'bpe'"),
    "device": (["train", "--device", "abacus"], "no device 'abacus'; write cpu, gpu or tpu"),
    "device that is not there": (["train", "--device", "cpu:99"], "no device 'cpu:99' on this machine"),
    "threads": (["train", "--threads", "0"], "threads is 0"),
    "corpus": (["train", "--data", "nowhere.txt"], "no corpus or file 'nowhere.txt'"),
    "out is a file": (["train", "--out", __file__], "is a file; name a new folder"),
    "out is not empty": (["train", "--out", os.path.dirname(__file__)], "is not empty; name a new one"),
    "out cannot be made": (["train", "--out", os.path.join(__file__, "run")], "test_cli.py is a file"),
    "generate without a run": (["generate", "--prompt", "x"], "there is no RUN|DIR"),
    "data set": (["data", "tinyshakespear"], "no data set 'tinyshakespear'; did you mean 'tinyshakespeare'?"),
    "no data set": (["data"], "there is no NAME"),
    "bench": (["bench", "gpt3-step"], "no bench 'gpt3-step'"),
    "a bench of no rounds": (["bench", "run-overhead", "--rounds", "0"], "rounds 0; expected at least 1"),
    "time beyond the context": (["bench", "gpt2-step", "--time", "5000"], "time is 5000; the context of gpt2-124m is 1024"),
}


@pytest.mark.parametrize("argv, says", BAD.values(), ids=BAD)
def test_bad_input_is_one_line(argv, says, capsys):
    assert says in refused(argv, capsys)


@pytest.mark.parametrize(
    "content, says",
    [
        (b"", "is empty"),
        (b"\xff\xfe\x00", "is not UTF-8"),
        (b"a short text", "a context of 64 needs 65"),
        (b"x" * 200, "the validation split has 20 tokens; a context of 64 needs 65"),
    ],
)
def test_a_corpus_that_will_not_do(content, says, capsys, tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    path.write_bytes(content)
    assert says in refused(["train", "--data", str(path), "--tokeniser", "bytes"], capsys)


def test_a_long_complaint_is_cut_in_its_middle(capsys):
    said = refused(["train", "--seed", "9" * 3000], capsys)
    assert said.startswith("seed is 999") and said.endswith("; it must be from 0 to 2147483647\n")
    assert "999 ... 999" in said and len(said) < 1100


def test_a_prompt_that_the_tokeniser_does_not_know(finished, capsys):
    assert "the character '%' (U+0025) at position 4" in refused(["generate", str(finished.folder), "--prompt", "fox %"], capsys)


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"]])
def test_help_lists_the_commands(argv, capsys):
    assert main(argv) == 0
    out, err = capsys.readouterr()
    assert err == "" and all(f"\n  {name} " in out for name in ("train", "generate", "data", "bench"))


@pytest.mark.parametrize("command, option", [("train", "--model.layers"), ("generate", "--top-k"), ("data", "--json"), ("bench", "NAME")])
def test_help_of_a_command(command, option, capsys):
    assert main([command, "--help"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and option in out and f"usage: pullback {command}" in out


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("pullback ")


def test_train_takes_a_preset_and_differences(trained, capsys):
    assert (
        main(["train", "shakespeare-char", "--steps", "5", "--model.layers=2", "--optimiser.b2", "0.9", "--data", "x", "--out", "there"])
        == 0
    )
    expected = preset("shakespeare-char")
    expected = replace(expected, steps=5, data="x", model=replace(expected.model, layers=2), optimiser=replace(expected.optimiser, b2=0.9))
    assert trained == [(expected, "there")]


@pytest.mark.parametrize(
    "argv, expected",
    [
        ([], preset("quick")),
        (["--seed", "4"], replace(preset("quick"), seed=4)),
        (["--model.layers", "12", "gpt2-124m"], preset("gpt2-124m")),
        (["gpt2-124m", "--validate_every", "7", "--context", "9"], replace(preset("gpt2-124m"), validate_every=7, context=9)),
        (["--model.bias", "True"], replace(preset("quick"), model=replace(preset("quick").model, bias=True))),
    ],
)
def test_train_settings(argv, expected, trained):
    assert main(["train", *argv]) == 0
    assert trained == [(expected, None)]


def test_the_run_is_the_last_line(trained, capsys):
    assert main(["train", "--steps", "5"]) == 0
    assert capsys.readouterr().out == "Once upon\n\nruns/x\n"


def test_json_is_one_object(trained, capsys):
    assert main(["train", "--steps", "5", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["run"] == "runs/x" and answer["preset"] == "quick" and answer["steps"] == 5 and not answer["interrupted"]
    assert answer["tokens"] == 5 * preset("quick").tokens_per_step and answer["parameters"] == 7
    assert (answer["loss"], answer["val_loss"], answer["sample"]) == (2.0, 2.5, "Once upon")


def test_interrupted_is_130(trained, capsys):
    assert main(["train", "--seed", str(STOPPED)]) == 130
    out, err = capsys.readouterr()
    assert out.endswith("runs/x\n") and "interrupted after 5 of 1,500 steps" in err


def test_without_matplotlib_the_last_word_is_how_to_get_it(trained, capsys, monkeypatch):
    monkeypatch.setattr(commands, "can_plot", lambda: False)
    assert main(["train", "--steps", "5"]) == 0
    out, err = capsys.readouterr()
    assert out.endswith("runs/x\n") and err.splitlines()[-1].endswith("pip install 'pullback[plots]'")


@pytest.mark.parametrize(
    "error, code, says",
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError("no"), 2, "not enough memory"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 12 bytes."), 2, "not enough memory"),
        (PermissionError(13, "Permission denied", "there"), 2, "there: Permission denied"),
        (BrokenPipeError(), 2, "nobody reads standard output"),
    ],
)
def test_errors_of_the_system(error, code, says, monkeypatch, capsys):
    def fail(*args):
        raise error

    monkeypatch.setattr(commands, "train_run", fail)
    assert main(["train"]) == code
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1


def test_our_own_faults_keep_their_traceback(monkeypatch):
    def fail(*args):
        raise ZeroDivisionError

    monkeypatch.setattr(commands, "train_run", fail)
    with pytest.raises(ZeroDivisionError):
        main(["train"])


def test_generate(finished, capsys):
    argv = ["generate", str(finished.folder), "--prompt", "the ", "--tokens", "9", "--seed", "2"]
    assert main(argv) == 0
    text = capsys.readouterr().out
    assert text.startswith("the ") and len(text) == 4 + 9 + 1
    assert main([*argv, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    [written] = answer["texts"]
    assert written["prompt"] + written["text"] + "\n" == text
    assert len(written["ids"]) == 9 and answer["seed"] == 2 and answer["model"] == str(finished.folder)


def test_generate_from_nothing_where_no_token_begins_a_text(finished, capsys):
    assert "the prompt is empty" in refused(["generate", str(finished.folder), "--prompt", ""], capsys)
    assert "tokens is 0" in refused(["generate", str(finished.folder), "--prompt", "the", "--tokens", "0"], capsys)
    assert "it must be from 1 to 2147483647" in refused(
        ["generate", str(finished.folder), "--prompt", "the", "--tokens", "9" * 20, "--window"], capsys
    )


def test_a_terminal_gets_no_control_characters(capsys, monkeypatch):
    text = "a\x1b[2Jb\tc\nd\x9b"
    assert visible(text) == text
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert visible(text) == "a\ufffd[2Jb\tc\nd\ufffd"


def test_data(tmp_path, capsys, monkeypatch, request):
    folder = request.getfixturevalue("data_folder")
    monkeypatch.setenv("PULLBACK_DATA", str(folder))
    assert main(["data", "tinyshakespeare"]) == 0
    assert capsys.readouterr().out == f"{folder / 'tinyshakespeare.txt'}\n"
    assert main(["data", "tinyshakespeare", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sha256"] == NAMED["tinyshakespeare"].sha256


def pullback(*argv, **options):
    return subprocess.Popen([sys.executable, "-m", "pullback", *argv], stderr=subprocess.PIPE, text=True, **options)


def test_a_closed_pipe_is_no_traceback():
    read, write = os.pipe()
    os.close(read)
    process = pullback("--help", stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2 and err.startswith("pullback: nobody reads standard output") and err.count("\n") == 1


@pytest.mark.parametrize(
    "argv, closed, code",
    [
        (["generate", "RUN", "--prompt", "the", "--tokens", "2"], "0<&- 1>&-", 0),
        (["generate", "RUN", "--file", "-"], "0<&-", 2),
        (["train", "fruit", "--steps", "2", "--out", "run"], "1>&- 2>&-", 0),
        (["eval", "RUN", "nowhere.txt"], "2>&-", 2),
    ],
)
def test_closed_streams_are_as_nobody_reading(argv, closed, code, finished):
    words = [str(finished.folder) if word == "RUN" else word for word in argv]
    command = shlex.join([sys.executable, "-m", "pullback", *words])
    done = subprocess.run(["sh", "-c", f"{command} {closed}"], capture_output=True, text=True, timeout=120)
    assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
    assert os.listdir() == (["run"] if "train" in argv else [])


@pytest.mark.parametrize("by", ["a script", "-m"])
def test_ctrl_c_while_importing(by, tmp_path, monkeypatch):
    """The signal comes out of the first import that takes long."""
    (tmp_path / "pullback").write_text("from pullback.experiments.cli import main\nraise SystemExit(main())\n")
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "jax.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "early"), *sys.path]))
    command = [sys.executable, *(["-m"] if by == "-m" else []), "pullback", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path if by != "-m" else "/", timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_is_an_exception_again_once_all_is_imported():
    before = signal.signal(signal.SIGINT, starting.at_once)
    try:
        assert main(["--help"]) == 0 and signal.getsignal(signal.SIGINT) is starting.interrupt
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_in_another_program_is_not_ours():
    code = "import signal, pullback; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


@pytest.mark.parametrize("later", [0.3, 1.5])
def test_ctrl_c_while_compiling(later, tmp_path):
    """XLA's threads are at work when the process ends."""
    process = pullback("train", "quick", "--out", "run")
    try:
        assert process.stderr and process.stderr.readline().endswith("compiling\n")
        time.sleep(later)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, err) == (130, "pullback: interrupted\n") and os.listdir() == []


def test_a_ctrl_c_that_was_dropped_ends_the_preparation(tiny, tmp_path, monkeypatch):
    """As Python drops one in a callback of the garbage collector: it is seen before anything is written."""
    monkeypatch.setattr(starting, "came", False)
    with contextlib.suppress(KeyboardInterrupt):
        starting.interrupt(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt):
        train(tiny, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_train_from_outside_until_ctrl_c(tiny, corpus, tmp_path):
    """The whole command in a process of its own, ended by a signal: what there is is written, and it is a run."""
    shape = ["--model.layers", "1", "--model.width", "16", "--model.heads", "2", "--model.context", "16", "--batch", "2"]
    process = pullback("train", "--json", "--data", str(corpus), "--out", "run", "--steps", "1000000", *shape, stdout=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 240
        while not (tmp_path / "run" / "metrics.jsonl").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130 and "Traceback" not in err
    answer = json.loads(out)
    assert answer["run"] == "run" and answer["interrupted"] and 0 < answer["steps"] < 1_000_000
    assert load_run(tmp_path / "run").config.steps == 1_000_000
    assert json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])["step"] == answer["steps"]
    assert (tmp_path / "run" / "loss.png").exists()
