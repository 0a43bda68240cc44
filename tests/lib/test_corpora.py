"""Where text comes from, and what is refused."""

import hashlib
import itertools
import os
import subprocess
import sys

import pytest

from pullback.lib import corpora
from pullback.lib.corpora import read_corpus
from pullback.lib.errors import ConfigError


def refusal(name) -> str:
    with pytest.raises(ConfigError) as error:
        read_corpus(name)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_python_docs_are_plain_text_in_one_order():
    name, text, sha256 = corpus = read_corpus("python-docs")
    assert name == "python-docs" and sha256 == hashlib.sha256(text.encode()).hexdigest() and read_corpus("python-docs") == corpus
    assert 300_000 < len(text) < 2_000_000 and text.startswith('The "assert" statement\n*****')
    assert all(c == "\n" or c.isprintable() for c in set(text))
    assert text.index('The "try" statement') < text.index("Yield expressions")
    assert repr(corpus).startswith("<corpus python-docs: ") and len(repr(corpus)) < 100


def test_python_docs_do_not_train_on_their_validation():
    """`help('while')` is printed again inside `help('compound')`; both in the corpus would flatter the loss."""
    text = read_corpus("python-docs").text
    cut = int(0.9 * len(text))
    seen = set(text[:cut].split("\n\n"))
    long = [p for p in text[cut:].split("\n\n") if len(p) > 60]
    assert len(long) > 100 and sum(p in seen for p in long) / len(long) < 0.01
    assert text.count('The "while" statement is used for repeated execution') == 1


def test_python_docs_do_not_depend_on_the_order_of_their_source(monkeypatch):
    topics = {"c": "C\n*\n\nshort\n", "b": "B\n*\n\na long one with\nshort\n", "a": "Other A\n=======\n\nsame\n", "d": "D\n*\n\nsame\n"}
    expected = "Other A\n=======\n\nsame\n\n\nB\n*\n\na long one with\nshort\n"
    for order in itertools.permutations(topics):
        monkeypatch.setattr("pydoc_data.topics.topics", {name: topics[name] for name in order})
        assert read_corpus("python-docs").text == expected


def test_python_docs_missing_from_this_python(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    assert "comes without pydoc_data" in refusal("python-docs")


def test_a_file_is_read_as_it_is(tmp_path):
    data = "naïve \u20ac \U0001f600\r\nlast line without end".encode()
    path = tmp_path / "text.md"
    path.write_bytes(data)
    for spelling in (path, str(path)):
        assert read_corpus(spelling) == (str(path), data.decode(), hashlib.sha256(data).hexdigest())


def test_a_name_wins_over_a_file_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "python-docs").write_text("mine")
    assert read_corpus("python-docs").text != "mine" and read_corpus("./python-docs").text == "mine"


def test_unknown_names_name_the_nearest():
    assert refusal("tinyshakespere") == "no corpus or file 'tinyshakespere'; did you mean 'tinyshakespeare'?"
    assert refusal("pythondocs").endswith("did you mean 'python-docs'?")
    assert "no corpus or file '/no/such/file.txt'; known: python-docs" in refusal("/no/such/file.txt")


def test_what_is_no_text_file(tmp_path):
    (tmp_path / "empty.txt").touch()
    assert refusal(tmp_path / "empty.txt").endswith("is empty")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 noir")
    assert "is not UTF-8: byte 0xe9 at offset 3" in refusal(tmp_path / "latin.txt")
    (tmp_path / "cut.txt").write_bytes("né".encode()[:-1])
    assert "byte 0xc3 at offset 1" in refusal(tmp_path / "cut.txt")
    assert "is a folder" in refusal(tmp_path)
    assert "cannot read" in refusal("x" * 5000)
    assert "no corpus or file" in refusal("a\0b")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes in the file system are POSIX")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "is a pipe or device" in refusal(tmp_path / "pipe")
    assert "is a pipe or device" in refusal("/dev/zero")


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    with open(tmp_path / "huge.txt", "wb") as file:
        file.truncate(corpora.LIMIT + 1)  # a hole: it takes no space on the disk
    assert "has 2,147,483,649 bytes; at most 2,147,483,648" in refusal(tmp_path / "huge.txt")


def test_named_sets_come_from_pullback_data_first(tmp_path, monkeypatch):
    own, cache = tmp_path / "own", tmp_path / "cache" / "pullback"
    monkeypatch.setenv("PULLBACK_DATA", str(own))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = b"a small set"
    named = corpora.Named("small.txt", "http://127.0.0.1:9/none", hashlib.sha256(data).hexdigest(), len(data))
    monkeypatch.setitem(corpora.NAMED, "small", named)
    text = refusal("small")
    assert str(own) in text and str(cache) in text and "`pullback data small`" in text and "small.txt" in text
    cache.mkdir(parents=True)
    (cache / "small.txt").write_bytes(data)
    assert read_corpus("small").text == "a small set" and corpora.fetch("small") == cache / "small.txt"
    own.mkdir()
    (own / "small.txt").write_bytes(b"another set")
    assert f"{own / 'small.txt'} is not the data set 'small'" in refusal("small")
    (own / "small.txt").write_bytes(data)
    assert read_corpus("small").text == "a small set" and corpora.fetch("small") == own / "small.txt"


def test_the_cache_without_a_setting(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert str(corpora.cache_folder()) == "/home/somebody/.cache/pullback"


def test_tiny_shakespeare(data_folder):
    corpus = read_corpus("tinyshakespeare")
    assert len(corpus.text) == 1_115_394 and corpus.text.startswith("First Citizen:\nBefore we proceed")
    assert corpora.fetch("tinyshakespeare") == data_folder / "tinyshakespeare.txt"


def test_the_documentation_is_loaded_only_when_asked_for():
    code = "import sys, pullback.lib.corpora as c; print('pydoc_data.topics' in sys.modules); c.read_corpus('python-docs')"
    code += "; print('pydoc_data.topics' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
