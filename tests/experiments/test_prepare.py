"""`pullback data prepare`: the tokens of the texts, whatever was done before and by how many."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pullback.experiments import prepare
from pullback.experiments.cli import main
from pullback.experiments.pool import Answer
from pullback.experiments.run import begin
from pullback.lib import bpe_files, bpe_train
from pullback.lib.bpe import END
from pullback.lib.characters import Characters
from pullback.lib.corpora import python_docs
from pullback.lib.token_files import open_tokens
from pullback.lib.tokenisers import digest

ONE, TWO = "The kettle sang.\n" * 40, "été, 語。\n\tand more " * 9
WORDS = bpe_train.train(ONE + TWO, 300)


@pytest.fixture(autouse=True)
def texts(tmp_path, monkeypatch):
    """An empty folder with two texts, and one with a vocabulary that is read sooner than that of GPT-2."""
    monkeypatch.chdir(tmp_path)
    os.mkdir("hub")
    bpe_files.save(WORDS, Path("hub"))
    Path("one.txt").write_text(ONE, newline="")
    Path("two.txt").write_text(TWO, newline="")


def run(*argv: str) -> int:
    return main(["data", "prepare", *argv])


def left() -> list[str]:
    return sorted(set(os.listdir()) - {"one.txt", "two.txt", "hub"})


@pytest.mark.parametrize("kind", ["gpt2", "bytes", "characters", "bpe"])
def test_a_text(kind, capsys):
    assert run("one.txt", "--tokenizer", kind) == 0
    assert capsys.readouterr().out == "one.tokens\n" and left() == ["one.tokens"]
    file = open_tokens(Path("one.tokens"))
    assert file.tokens.tolist() == file.tokeniser.encode(ONE).tolist() and file.ends is None
    assert file.tokeniser.decode(file.tokens) == ONE
    (source,) = file.sources
    assert (source.name, source.bytes, source.tokens) == ("one.txt", len(ONE.encode()), len(file.tokens))


@pytest.mark.parametrize("size", [50, 1 << 20])
def test_texts_with_their_ends(size, capsys, monkeypatch):
    monkeypatch.setattr(prepare, "PIECE", size)
    assert run("one.txt", "two.txt", "one.txt", "--processes", "1", "--tokenizer", "hub", "--documents", "--json", "--out", "some") == 0
    end, one, two = [WORDS.specials[END]], WORDS.encode(ONE).tolist(), WORDS.encode(TWO).tolist()
    file = open_tokens(Path("some"))
    assert file.ends is not None
    assert file.tokens.tolist() == one + end + two + end + one
    assert file.ends.tolist() == [len(one) + 1, len(one) + len(two) + 2, len(file.tokens)]
    answer = json.loads(capsys.readouterr().out)
    assert (answer["path"], answer["tokens"], answer["documents"], answer["vocabulary"]) == ("some", len(file.tokens), 3, WORDS.vocabulary)
    assert answer["tokeniser_sha256"] == file.sha256 and [s["tokens"] for s in answer["sources"]] == [len(one), len(two), len(one)]


def test_no_token_stands_between_where_there_is_none(capsys):
    assert run("one.txt", "two.txt", "--tokenizer", "bytes", "--out", "some") == 0
    assert open_tokens(Path("some")).tokens.astype(np.uint8).tobytes() == (ONE + TWO).encode()


def test_bpe_learns_as_many_as_are_asked_for_from_the_first(capsys):
    assert run("one.txt", "two.txt", "--tokenizer", "bpe", "--vocabulary", "270") == 0
    assert open_tokens(Path("one.tokens")).tokeniser.to_json() == bpe_train.train(ONE, 270).to_json()


def test_processes_change_nothing(capsys, monkeypatch):
    Path("docs.txt").write_text(python_docs()[:50_000], newline="")
    monkeypatch.setattr(prepare, "PIECE", 9000)
    assert run("docs.txt", "two.txt", "--tokenizer", "hub", "--processes", "2") == 0
    monkeypatch.setattr(prepare, "PIECE", 1 << 20)
    assert run("docs.txt", "two.txt", "--tokenizer", "hub", "--processes", "1", "--out", "alone") == 0
    assert Path("docs.tokens").read_bytes() == Path("alone").read_bytes()
    os.remove("docs.txt")
    assert left() == ["alone", "docs.tokens"]


def test_the_tokeniser_of_a_run(tiny, capsys):
    os.mkdir("run")
    begin(Path("run"), tiny, Characters.of("the lazy dog"), {})
    Path("one.txt").write_text("the dog")
    assert run("one.txt", "--tokenizer", "run") == 0
    file = open_tokens(Path("one.tokens"))
    assert file.tokeniser.to_json() == Characters.of("the lazy dog").to_json() and file.tokeniser.decode(file.tokens) == "the dog"
    assert run("two.txt", "--tokenizer", "run") == 2
    assert "two.txt, from byte 0 on: the character 'é' (U+00E9) at position 0" in capsys.readouterr().err


def test_the_tokeniser_of_a_folder(capsys):
    assert run("one.txt", "--tokenizer", "hub") == 0
    file = open_tokens(Path("one.tokens"))
    assert file.tokens.tolist() == WORDS.encode(ONE).tolist() and file.sha256 == digest(WORDS)


KILLED = """
import sys, time
from pullback.experiments import prepare
from pullback.experiments.cli import main

prepare.PIECE, whole = 60, prepare.encode

def slow(task):
    time.sleep(0.05)
    yield from whole(task)

prepare.encode = slow
sys.exit(main(["data", "prepare", "one.txt", "two.txt", "--tokenizer", "hub", "--processes", "1"]))
"""


def test_a_run_that_was_killed_goes_on(monkeypatch, capsys):
    process = subprocess.Popen([sys.executable, "-c", KILLED], stderr=subprocess.DEVNULL)
    deadline, parts = time.monotonic() + 60, Path("one.tokens.parts")
    try:
        while len(list(parts.glob("00*"))) < 4:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    there = {path.name for path in parts.glob("00*")}
    assert left() == ["one.tokens.parts"]
    asked, whole = [], prepare.encode
    monkeypatch.setattr(prepare, "PIECE", 60)
    monkeypatch.setattr(prepare, "encode", lambda task: asked.append(Path(json.loads(task)[3]).name) or whole(task))

    assert run("two.txt", "one.txt", "--tokenizer", "hub", "--out", "one.tokens") == 2
    assert "one.tokens.parts holds parts of other texts or settings; remove it" in capsys.readouterr().err
    assert {path.name for path in parts.glob("00*")} == there and asked == []
    assert run("one.txt", "two.txt", "--tokenizer", "hub", "--processes", "1") == 0
    assert asked and not there & set(asked) and "going on from" in capsys.readouterr().err
    assert left() == ["one.tokens"]
    assert open_tokens(Path("one.tokens")).tokens.tolist() == [*WORDS.encode(ONE), WORDS.specials[END], *WORDS.encode(TWO)]


def test_a_folder_that_is_not_ours_is_left_alone(capsys):
    os.mkdir("one.tokens.parts")
    Path("one.tokens.parts/thesis.tex").touch()
    assert run("one.txt", "--tokenizer", "bytes") == 2
    assert "holds parts of other texts or settings" in capsys.readouterr().err
    assert os.listdir("one.tokens.parts") == ["thesis.tex"] and left() == ["one.tokens.parts"]


BAD = {
    "nothing": (["--tokenizer", "bytes"], "there is no FILE"),
    "no tokenizer": (["one.txt"], "there is no --tokenizer"),
    "missing": (["one.txt", "nowhere.txt", "--tokenizer", "bytes"], "there is no file 'nowhere.txt'"),
    "folder": ([".", "--tokenizer", "bytes"], "'.' is no file; expected a UTF-8 text"),
    "device": (["/dev/zero", "--tokenizer", "bytes"], "'/dev/zero' is no file"),
    "empty": (["/dev/null", "--tokenizer", "bytes"], "'/dev/null' is no file"),
    "out": (["one.txt", "--tokenizer", "bytes", "--out", "two.txt"], "two.txt is there already; name another"),
    "out is a folder": (["one.txt", "--tokenizer", "bytes", "--out", "."], "cannot write .: it is a folder"),
    "out is nowhere": (["one.txt", "--tokenizer", "bytes", "--out", "no/where"], "there is no folder no"),
    "empty out": (["one.txt", "--tokenizer", "bytes", "--out", ""], "the name of a file to write is empty"),
    "tokenizer": (["one.txt", "--tokenizer", "gtp2"], "no tokenizer 'gtp2', nor a folder of that name; did you mean 'gpt2'?"),
    "empty tokenizer": (["one.txt", "--tokenizer", ""], "no tokenizer ''"),
    "folder without a tokenizer": (["one.txt", "--tokenizer", "."], "has no vocabulary: neither tokenizer.json nor vocab.json"),
    "processes": (["one.txt", "--tokenizer", "bytes", "--processes", "0"], "processes is 0; it must be at least 1"),
    "small vocabulary": (["one.txt", "--tokenizer", "bpe", "--vocabulary", "9"], "a vocabulary of 9; expected at least 257"),
    "no vocabulary": (["one.txt", "--tokenizer", "bpe", "--vocabulary", "0"], "a vocabulary of 0; expected at least 257"),
    "vocabulary of another": (["one.txt", "--tokenizer", "gpt2", "--vocabulary", "300"], "--vocabulary is for bpe"),
    "option": (["one.txt", "--tokeniser", "gpt2"], "--tokeni"),
}


@pytest.mark.parametrize("argv, says", BAD.values(), ids=BAD)
def test_bad_input_is_one_line(argv, says, capsys):
    assert run(*argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("pullback: ") and err.count("\n") == 1 and says in err
    assert left() == []


@pytest.mark.parametrize("content, says", [(b"", "'bad' is empty"), (b"text \xff", "bad is not UTF-8: byte 0xff at offset 5")])
@pytest.mark.parametrize("kind", ["bytes", "bpe"])
def test_a_text_that_will_not_do(content, says, kind, capsys):
    Path("bad").write_bytes(content)
    assert run("bad", "--tokenizer", kind) == 2
    assert says in capsys.readouterr().err and left() == ["bad"]


def test_a_process_that_dies_is_said(monkeypatch, capsys):
    def spread(work, tasks, limit_s, processes):
        yield Answer(tasks[0], 0, None, hung=True)

    monkeypatch.setattr(prepare, "PIECE", 300)
    monkeypatch.setattr(prepare, "spread", spread)
    assert run("one.txt", "--tokenizer", "bytes", "--processes", "2") == 2
    assert "a process died or hung at one.txt; try fewer --processes, what is done is kept" in capsys.readouterr().err
    assert left() == ["one.tokens.parts"]
