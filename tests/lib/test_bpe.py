"""Byte-pair encoding: GPT-2's own vocabulary, new ones, their files, and what is none."""

import collections
import hashlib
import json
import os
import random
import re
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullback.lib import bpe as machinery
from pullback.lib import bpe_files
from pullback.lib.bpe import ASCII, BPE, END, WORD, from_merges, to_bytes, to_text, words_of
from pullback.lib.bpe_train import train
from pullback.lib.errors import ConfigError

GPT2 = BPE.gpt2()
SMALL = train("the cat sat on the mat, and then the rat that ate the oats sat on the cat; 12 o'clock. " * 20, 280)


def test_the_table_is_openais():
    """The merges as they were published, by their hash."""
    lines = ["#version: 0.2", *(f"{to_text(GPT2.tokens[a])} {to_text(GPT2.tokens[b])}" for a, b, _ in GPT2.merges), ""]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    assert digest == "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
    assert GPT2.vocabulary == 50_257 and GPT2.specials == {END: 50_256} and GPT2.tokens[0] == b"!" and GPT2.tokens[220] == b" "


@pytest.mark.parametrize(
    "text, ids",
    [
        ("", []),
        ("Hello world", [15496, 995]),
        ("  x  ", [220, 2124, 220, 220]),
        ("it's IT'S", [270, 338, 7283, 6, 50]),
        ("a\n\n b", [64, 628, 275]),
        ("12345", [10163, 2231]),
        ("😀", [47249, 222]),
        ("a\x00b", [64, 188, 65]),
        (END, [27, 91, 437, 1659, 5239, 91, 29]),
    ],
)
def test_ids_of_gpt2(text, ids):
    assert GPT2.encode(text).tolist() == ids and GPT2.decode(ids) == text


def test_handed_cases():
    folder = os.environ.get("PULLBACK_CASES")
    if not folder:
        pytest.skip("needs cases of GPT-2's tokenizer: set PULLBACK_CASES to a folder that holds gpt2_bpe.jsonl")
    cases = [json.loads(line) for line in (Path(folder) / "gpt2_bpe.jsonl").read_text().splitlines()]
    assert len(cases) > 200
    for case in cases:
        ids = GPT2.encode(case["text"], special=case["special"]).tolist()
        assert ids == case["ids"] and GPT2.decode(ids) == case["text"], case


def test_tiny_shakespeare(data_folder):
    text = (data_folder / "tinyshakespeare.txt").read_text()
    ids = GPT2.encode(text)
    assert len(ids) == 338_025 and len(GPT2.encode(text[: int(0.9 * len(text))])) == 301_966
    assert hashlib.sha256(ids.astype("<u2").tobytes()).hexdigest() == "25c01b32b32f41897a6359dd222ec114992dc30c357bcafbfe6c56672f76cd31"
    assert GPT2.decode(ids) == text


@given(st.text(), st.sampled_from([GPT2, SMALL]))
def test_any_text_comes_back(text, bpe):
    assert bpe.decode(bpe.encode(text)) == text
    assert bpe.decode(bpe.encode(text, special="token")) == text


@given(st.lists(st.integers(0, 279)))
def test_any_ids_give_text(ids):
    text = SMALL.decode(ids)
    joined = b"".join(SMALL.tokens[i] for i in ids)
    assert text == joined.decode("utf-8", "replace")


def by_definition(bpe: BPE, ids: list[int]) -> list[int]:
    """The lowest rank anywhere, the leftmost of it, again and again."""
    while True:
        found = [(bpe.ranks[pair], k) for k, pair in enumerate(zip(ids, ids[1:])) if pair in bpe.ranks]
        if not found:
            return ids
        rank, k = min(found)
        ids = [*ids[:k], bpe.merges[rank][2], *ids[k + 2 :]]


@pytest.mark.parametrize("alphabet", ["a", "ab", "=-", "etaoin shrdlu", "0123456789", "".join(map(chr, range(32, 127)))])
def test_long_and_short_words_merge_as_defined(alphabet, monkeypatch):
    rng = random.Random(0)
    for n in (1, 2, 3, 7, 40, 150):
        ids = [GPT2.byte_ids[ord(rng.choice(alphabet))] for _ in range(n)]
        right = by_definition(GPT2, ids)
        for longest in (1 << 30, 2):
            monkeypatch.setattr(machinery, "LONG", longest)
            assert GPT2.merged(list(ids)) == right


@pytest.mark.parametrize("longest", [1 << 30, 2])
def test_a_lower_rank_that_a_merge_makes_possible_comes_first(longest, monkeypatch):
    """`aab` is made in two ways; by the later one it stands before pairs that are waiting."""
    odd = from_merges([(b"a", b"a"), (b"aa", b"b"), (b"aab", b"c"), (b"c", b"a"), (b"a", b"b"), (b"a", b"ab")])
    monkeypatch.setattr(machinery, "LONG", longest)
    for text in ("aabc", "aabcaabc", "abcabcab", "caabcaaab", "babababcab"):
        ids = [odd.byte_ids[ord(c)] for c in text]
        assert odd.merged(list(ids)) == by_definition(odd, ids)


def test_a_long_text_is_cut_where_no_word_is(monkeypatch):
    text = "a  b c\n d " + "longer words here, it's  so   far\t x " * 50 + " " * 40 + "y" * 60
    whole = WORD.findall(text)
    for size in (1, 7, 30, 1000):
        monkeypatch.setattr(machinery, "CHUNK", size)
        assert [word for words in words_of(text) for word in words] == whole
        assert [word for words in words_of(text + "é") for word in words] == [*whole[:-1], whole[-1] + "é"]


@given(st.text(st.characters(codec="ascii")) | st.text("'sdmtlvreLV 0\n\t\x1c\x0b.-"))
def test_words_of_ascii_are_those_of_any_text(text):
    assert ASCII.findall(text) == WORD.findall(text)


def test_words_are_remembered_but_not_without_end(monkeypatch):
    bpe = from_merges([])
    monkeypatch.setattr(machinery, "REMEMBERED", 30)
    for start in range(100, 150):
        bpe.encode(f"{start} {start + 1} {start + 2}")
        assert sum(map(len, bpe.known)) == bpe.remembered <= 41


def test_special_tokens():
    text = f"one{END}two"
    assert GPT2.encode(text, special="token").tolist() == [505, 50256, 11545]
    with pytest.raises(ConfigError, match="the special token '<|endoftext|>' at position 3".replace("|", r"\|")):
        GPT2.encode(text, special="error")
    assert GPT2.encode("one two", special="error").tolist() == GPT2.encode("one two").tolist()
    two = from_merges([], specials=("<a>", "<a>b"))
    assert two.encode("<a><a>b", special="token").tolist() == [256, 257], "the longer name wins"


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: GPT2.encode("a\ud800b"), "half a surrogate pair at position 1"),
        (lambda: GPT2.encode("a", special=cast(Any, "yes")), "special='yes'; expected 'ordinary', 'token' or 'error'"),
        (lambda: GPT2.decode([50_257]), "the id 50257 is outside"),
        (lambda: GPT2.decode([-1]), "the id -1 is outside"),
        (lambda: GPT2.decode([0.5]), "one row of integers"),
        (lambda: GPT2.decode([47249], errors="strict"), "no UTF-8: byte 0xf0 at offset 0"),
        (lambda: from_merges([(b"ab", b"c")]), "merge 0: no token 'ab' comes before it"),
        (lambda: train("text", 200), "a vocabulary of 200; expected at least 257"),
    ],
)
def test_what_cannot_be_is_one_line(call, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        call()


# A new vocabulary


def slowly_trained(text: str, count: int) -> list[tuple[bytes, bytes]]:
    """Count all pairs, join the most frequent, count again."""
    words = [[bytes([byte]) for byte in word.encode()] for word in WORD.findall(text)]
    tokens, merges = [to_bytes(c) for c in machinery.TO_TEXT.values()], []
    order = {token: i for i, token in enumerate(from_merges([]).tokens[:256])}
    while len(order) < 256 + count:
        pairs = collections.Counter(pair for word in words for pair in zip(word, word[1:]))
        if not pairs:
            break
        a, b = min(pairs, key=lambda pair: (-pairs[pair], order[pair[0]], order[pair[1]]))
        merges.append((a, b))
        order.setdefault(a + b, len(order))
        for word in words:
            k = 0
            while k + 1 < len(word):
                if (word[k], word[k + 1]) == (a, b):
                    word[k : k + 2] = [a + b]
                k += 1
    assert tokens
    return merges


TEXTS = ["the cat sat on the mat " * 9, "aaaa aaab aaabb aaaaaaa " * 5, "été 漢字 été 😀😀 " * 4, "x"]
ONE_WORD = ["".join(random.Random(n).choices("acgt"[:n], k=250)) for n in (1, 2, 4)]


@pytest.mark.parametrize("text", [*TEXTS, *ONE_WORD])
def test_training_joins_the_most_frequent_pair(text):
    bpe = train(text, 256 + 25 + 1)
    assert [(bpe.tokens[a], bpe.tokens[b]) for a, b, _ in bpe.merges] == slowly_trained(text, 25)
    assert bpe.decode(bpe.encode(text)) == text and bpe.specials == {END: bpe.vocabulary - 1}


def test_training_on_one_long_word_takes_no_square_of_its_length():
    began = time.monotonic()
    assert train("".join(random.Random(1).choices("ACGT", k=200_000)), 2048).vocabulary == 2048
    assert time.monotonic() - began < 20  # it takes one; at a walk through the word for each merge, minutes


def test_training_ends_where_the_text_does_and_tells_how_far_it_is():
    seen = []
    bpe = train("ab ab", 1000, specials=(), progress=lambda done, all: seen.append((done, all)))
    assert bpe.vocabulary == 258 and seen == [(1, 744), (2, 744)]


# Files


def same(a: BPE, b: BPE) -> bool:
    return (a.tokens, a.merges, a.specials) == (b.tokens, b.merges, b.specials)


@pytest.mark.parametrize("bpe", [SMALL, GPT2, from_merges([], specials=())], ids=["small", "gpt2", "bytes"])
def test_files_come_back(bpe, tmp_path):
    bpe_files.save(bpe, tmp_path)
    assert same(bpe_files.load(tmp_path), bpe) and same(bpe_files.load(tmp_path / "tokenizer.json"), bpe)
    (tmp_path / "tokenizer.json").unlink()
    assert same(bpe_files.load(tmp_path), bpe)


def test_another_order_of_ids_is_taken_as_it_is(tmp_path):
    """A special token in front, as other trainers put it."""
    tokens, merges = SMALL.texts()
    moved = {token: (i + 1) % len(tokens) for i, token in enumerate(tokens)}
    (tmp_path / "vocab.json").write_text(json.dumps(moved))
    (tmp_path / "merges.txt").write_text("\n".join(merges))
    bpe = bpe_files.load(tmp_path)
    assert bpe.specials == {END: 0}
    np.testing.assert_array_equal(bpe.encode("the cat"), SMALL.encode("the cat") + 1)


def changed(**fields):
    """A tokenizer.json with other values at the places `a__b`."""

    def write(folder: Path) -> None:
        record = json.loads((folder / "tokenizer.json").read_text())
        for name, value in fields.items():
            *path, last = name.split("__")
            place = record
            for step in path:
                place = place[step]
            place[last] = value
        (folder / "tokenizer.json").write_text(json.dumps(record))

    return write


def without_tokenizer(name: str, text: str):
    def write(folder: Path) -> None:
        (folder / "tokenizer.json").unlink()
        (folder / name).write_text(text)

    return write


BAD = {
    "no files": (lambda folder: [file.unlink() for file in folder.iterdir()], "has no vocabulary: neither tokenizer.json nor"),
    "no merges": (lambda folder: [(folder / name).unlink() for name in ("tokenizer.json", "merges.txt")], "merges.txt: No such file"),
    "a list": (lambda folder: (folder / "tokenizer.json").write_text("[]"), "tokenizer.json is no object"),
    "another model": (changed(model__type="Unigram"), "model.type is 'Unigram'; expected 'BPE'"),
    "no model": (changed(model=5), "model is '5'; expected an object"),
    "a space in front": (changed(pre_tokenizer__add_prefix_space=True), "pre_tokenizer.add_prefix_space is 'True'; expected False"),
    "lower case": (changed(normalizer={"type": "Lowercase"}), "normalizer is"),
    "unknown token": (changed(model__unk_token="?"), "model.unk_token is '?'; expected None"),
    "no list of added tokens": (changed(added_tokens=[5]), "added_tokens is no list of objects"),
    "a token that strips": (changed(added_tokens=[{"content": "<x>", "id": 280, "lstrip": True}]), "lstrip of '<x>' is 'True'"),
    "a token that is half a surrogate": (
        changed(added_tokens=[{"content": "\ud800", "id": 280}]),
        "the token '\\ud800' has half a surrogate pair at position 0",
    ),
    "a gap": (changed(added_tokens=[{"content": "<x>", "id": 999}]), "the ids of 281 tokens are not 0 to 280"),
    "an id of another kind": (changed(added_tokens=[{"content": "<x>", "id": "280"}]), "the ids of 281 tokens"),
    "no vocabulary": (changed(model__vocab=[]), "a vocabulary is an object"),
    "a merge of three": (changed(model__merges=["a b c"]), "merge 0 is 'a b c'; expected two tokens"),
    "a merge of numbers": (changed(model__merges=[[1, 2]]), "expected two tokens"),
    "a merge into nothing": (changed(model__merges=["q q"]), "makes no token of the vocabulary"),
    "a merge twice": (changed(model__merges=["a t", "a t"]), "comes twice"),
    "merges of another kind": (changed(model__merges=5), "merges is '5'"),
    "too few bytes": (without_tokenizer("vocab.json", '{"a": 0, "b": 1}'), "lacks 254 of the 256 bytes"),
    "no bytes": (without_tokenizer("vocab.json", '{"\\u4f60": 0}'), "stands for no byte"),
    "no JSON": (without_tokenizer("vocab.json", "{"), "vocab.json is damaged"),
    "not UTF-8": (lambda folder: [(folder / "tokenizer.json").unlink(), (folder / "merges.txt").write_bytes(b"\xff")], "is not UTF-8"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_none_is_one_line(name, tmp_path):
    bpe_files.save(SMALL, tmp_path)
    change, said = BAD[name]
    change(tmp_path)
    with pytest.raises(ConfigError, match=re.escape(said)) as error:
        bpe_files.load(tmp_path)
    assert "\n" not in str(error.value)


def test_the_tokenizers_library_agrees(tmp_path):
    """It loads our files and encodes alike."""
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed: it does not read our files")
    text = "The kettle sang; it's 12 o'clock. été 漢字 😀\n\n  def f(x):\n\treturn x\n" * 3
    for bpe in (SMALL, GPT2):
        bpe_files.save(bpe, tmp_path)
        theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        assert theirs.encode(text).ids == bpe.encode(text).tolist()
        assert theirs.encode(f"a{END}b").ids == bpe.encode(f"a{END}b", special="token").tolist()
        assert theirs.decode(bpe.encode(text).tolist()) == text


def test_the_tokenizers_library_finds_the_same_vocabulary():
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed: vocabularies are not compared with its trainer's")
    models, pre_tokenizers, trainers = tokenizers.models, tokenizers.pre_tokenizers, tokenizers.trainers
    text = (Path(machinery.__file__).parent / "LICENSE-gpt2.txt").read_text() + Path(machinery.__file__).read_text()
    theirs = tokenizers.Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    theirs.train_from_iterator([text], trainers.BpeTrainer(vocab_size=699, initial_alphabet=alphabet, show_progress=False))
    merges = json.loads(theirs.to_str())["model"]["merges"]
    assert [" ".join(merge) for merge in merges] == train(text, 700).texts()[1]
