"""Texts in pieces: the ids of the pieces are those of the whole, wherever the cuts fall."""

import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullback.experiments.pieces import Piece, checked, cut, encode
from pullback.lib import bpe_train
from pullback.lib.atomic import write_json
from pullback.lib.bpe import BPE
from pullback.lib.corpora import python_docs
from pullback.lib.errors import ConfigError

# What words are cut at, and what only looks like it: spaces that ASCII does not have, line ends, contractions, half words.
SIGNS = [
    "a",
    "b",
    "'s",
    "'",
    "l",
    "1",
    " ",
    "  ",
    "\n",
    "\r\n",
    "\t",
    "\x0b",
    "\x1c",
    "\x85",
    "\xa0",
    "\u2003",
    "\u3000",
    "é",
    "語",
    "。",
    "😀",
    "!",
    "?!",
]
GPT2 = BPE.gpt2()
SEEN = bpe_train.train("".join(random.Random(0).choices(SIGNS, k=20_000)), 2000)  # it joins spaces of every kind


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("texts") / "text.txt"


def pieces_of(file, text: str, size: int) -> list[str]:
    file.write_bytes(data := text.encode())
    spans = cut(file, size)
    assert [begin for begin, _ in spans] == [0, *(end for _, end in spans[:-1])] and spans[-1][1] == len(data)
    assert all(end - begin >= size for begin, end in spans[:-1])
    return [data[begin:end].decode() for begin, end in spans]


@given(st.lists(st.sampled_from(SIGNS), min_size=1, max_size=60).map("".join), st.integers(1, 20))
def test_the_tokens_of_pieces_are_those_of_the_text(file, text, size):
    pieces = pieces_of(file, text, size)
    for known in (GPT2, SEEN):
        assert np.concatenate([known.encode(piece) for piece in pieces]).tolist() == known.encode(text).tolist()


def test_a_cut_elsewhere_changes_tokens():
    """What the test above would see: a cut within a word, after a space, or between two."""
    for text, at in (("kettle", 3), ("a kettle", 2), ("a\n\n\nb", 2), ("it's", 3)):
        assert np.concatenate([GPT2.encode(text[:at]), GPT2.encode(text[at:])]).tolist() != GPT2.encode(text).tolist()


@pytest.mark.parametrize("size", [1, 100, 10_000])
def test_real_text_in_pieces(file, size):
    text = python_docs()[:60_000]
    pieces = pieces_of(file, text, size)
    assert len(pieces) >= 60_000 // size * 0.1
    words = bpe_train.train(text, 400)
    for known in (GPT2, words):
        assert np.concatenate([known.encode(piece) for piece in pieces]).tolist() == known.encode(text).tolist()


def test_text_without_a_place_to_cut_is_one_piece(file):
    assert len(pieces_of(file, "語" * 5000, 100)) == 1
    assert len(pieces_of(file, "\u3000\n" * 5000, 100)) == 1
    assert len(pieces_of(file, "語。\r\n" * 5000, 100)) > 300


@pytest.mark.parametrize("before", [0, 5, (1 << 20) - 1, 1 << 20, (1 << 20) + 7])
@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xe8\xaa", b"\xf0\x9f\x98x"])
def test_where_a_text_is_not_utf8(file, before, bad):
    file.write_bytes(b"x" * before + bad)
    with pytest.raises(ConfigError, match=rf"text.txt is not UTF-8: byte 0x{bad[0]:02x} at offset {before:,}; convert it"):
        checked(file, lambda done: None)


def test_utf8_over_the_edge_of_what_is_read(file):
    file.write_bytes(b"x" * ((1 << 20) - 1) + "語".encode())
    done = []
    assert len(checked(file, done.append)) == 64 and done == [1 << 20, (1 << 20) + 2]


def test_what_is_wrong_with_a_piece_is_said(tmp_path):
    write_json(tmp_path / "words", {"kind": "characters", "characters": "ab"})
    (tmp_path / "text").write_text("ab abc")
    task = lambda begin, end: json.dumps(Piece(str(tmp_path / "text"), begin, end, str(tmp_path / "part"), str(tmp_path / "words")))
    assert list(encode(task(0, 2))) == [""] and np.fromfile(tmp_path / "part", "<u2").tolist() == [0, 1]
    (said,) = encode(task(3, 6))
    assert said.startswith(f"{tmp_path}/text, from byte 3 on: the character 'c' (U+0063) at position 2")
    assert list(encode(task(0, 2), 1)) == []  # nothing comes after it
