"""Tokenisers, splits and batches."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullback.lib import corpora
from pullback.lib.characters import Bytes, Characters
from pullback.lib.errors import ConfigError, UnknownName
from pullback.lib.tokenisers import from_json, tokeniser
from pullback.lib.tokens import TokenStream, split, windows

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(TEXTS)
def test_bytes_round_trip(text):
    ids = Bytes().encode(text)
    assert ids.dtype == np.int32 and ids.tolist() == list(text.encode()) and Bytes().decode(ids) == text


@given(st.lists(st.integers(0, 255), max_size=40))
def test_bytes_decode_whatever_a_model_writes(ids):
    assert Bytes().decode(ids) == bytes(ids).decode("utf-8", errors="replace")


@given(TEXTS.filter(bool), st.randoms())
def test_characters_round_trip(corpus, random):
    known = tokeniser("characters", corpus, 0)
    assert known.vocabulary == len(set(corpus))
    text = "".join(random.choices(corpus, k=30))
    ids = known.encode(text)
    assert ids.dtype == np.int32 and ids.tolist() == [sorted(set(corpus)).index(c) for c in text]
    assert known.decode(ids) == text == known.decode(ids.tolist())


@given(TEXTS.filter(bool))
def test_a_run_stores_its_tokeniser(corpus):
    for kind in ("bytes", "characters", "bpe"):
        original = tokeniser(kind, corpus, 270)
        again = from_json(json.loads(json.dumps(original.to_json())))
        assert again.to_json() == original.to_json() and again.vocabulary == original.vocabulary
        ids = original.encode(corpus)
        assert (again.encode(corpus) == ids).all() and again.decode(ids) == corpus and again.to_bytes(ids) == corpus.encode()


def test_gpt2_is_there_without_a_corpus():
    known = tokeniser("gpt2", "", 0)
    assert known.vocabulary == 50257 and known.encode("Hello world").tolist() == [15496, 995]
    assert from_json(known.to_json()).encode("Hello world").tolist() == [15496, 995]


def test_empty_texts():
    for known in (Bytes(), Characters("ab")):
        assert known.encode("").shape == (0,) and known.decode([]) == ""


def test_bytes_of_a_command_line_that_were_no_utf8():
    assert Bytes().encode("a\udcff").tolist() == [97, 255]
    with pytest.raises(ConfigError, match="position 2"):
        Bytes().encode("ab\ud800")


@pytest.mark.parametrize("unknown", ["é", "A", "~", "\n", "\U0001f600", "\ud800"])
def test_an_unknown_character_is_named(unknown):
    known = Characters.of("a text of z")
    with pytest.raises(ConfigError) as error:
        known.encode("a fat" + unknown + "!")
    assert f"{unknown!r} (U+{ord(unknown):04X}) at position 5" in str(error.value) and "the 8 of" in str(error.value)


@pytest.mark.parametrize("ids", [[-1], [0, 300], [[1, 2]], [0.5], np.array([2**40])])
def test_ids_that_are_none(ids):
    for known in (Bytes(), Characters("abc")):
        with pytest.raises(ConfigError, match="decode takes|outside this vocabulary"):
            known.decode(ids)


@pytest.mark.parametrize(
    "record", [None, [], "bytes", {}, {"kind": "bpe2"}, {"kind": ["bytes"]}, {"kind": "characters"}]
    + [{"kind": "characters", "characters": c} for c in ("", "ba", "aa", ["a", "b"], 7, None)]
    + [{"kind": "bpe"}, {"kind": "bpe", "tokens": [1]}, {"kind": "bpe", "tokens": ["a"], "merges": [], "specials": {}}]
    + [{"kind": "bpe", "tokens": ["a"], "merges": 3, "specials": None}]
)  # fmt: skip
def test_a_record_that_is_none(record):
    with pytest.raises(ConfigError, match="a tokeniser's record|vocabulary"):
        from_json(record)


def test_an_unknown_kind_names_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'characters'"):
        tokeniser("character", "abc", 0)


def test_the_split_cuts_where_nanogpt_does():
    train, validation = split(np.arange(1_115_394))
    assert len(train) == int(1_115_394 * 0.9) == 1_003_854 and validation[0] == 1_003_854 and validation[-1] == 1_115_393


def test_splits_that_are_too_short():
    assert [len(part) for part in split(np.arange(90), context=8)] == [81, 9]
    with pytest.raises(ConfigError, match="^the validation split has 8 tokens; a context of 8 needs 9"):
        split(np.arange(80), context=8)
    with pytest.raises(ConfigError, match="^the training split has 5 tokens; a context of 8 needs 9"):
        split(np.arange(10), 0.5, context=8)
    with pytest.raises(ConfigError, match="^the corpus has 8 tokens; a context of 8 needs 9"):
        split(np.arange(8), context=8)
    with pytest.raises(ConfigError, match="^the corpus has 1 tokens"):
        split(np.arange(1))


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_fraction_that_is_none(fraction):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        split(np.arange(100), fraction)


@pytest.mark.parametrize(("context", "batch", "text"), [(0, 2, "the context is 0"), (-3, 2, "the context is -3"), (4, 0, "the batch is 0")])
def test_contexts_and_batches_of_nothing(context, batch, text):
    for make in (TokenStream, windows):
        with pytest.raises(ConfigError, match=text):
            make(np.arange(100), context, batch)


def test_streams_and_windows_over_too_little():
    with pytest.raises(ConfigError, match="^the training split has 8 tokens"):
        TokenStream(np.arange(8), 8, 1)
    with pytest.raises(ConfigError, match="^the validation split has 8 tokens"):
        windows(np.arange(8), 8, 1)  # at the call, not at the first window
    inputs, targets = TokenStream(np.arange(9), 8, 3).at(0)
    assert inputs.tolist() == [list(range(8))] * 3 and targets.tolist() == [list(range(1, 9))] * 3


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32])
def test_targets_follow_their_inputs(dtype):
    tokens = np.random.default_rng(0).integers(0, 256, 5000).astype(dtype)
    inputs, targets = TokenStream(tokens, context=16, batch=12, seed=3).at(7)
    assert inputs.shape == targets.shape == (12, 16) and inputs.dtype == targets.dtype == np.int32
    assert inputs.flags.c_contiguous and targets.flags.c_contiguous
    assert (inputs[:, 1:] == targets[:, :-1]).all()
    text = tokens.astype(np.uint8).tobytes()
    for row, target in zip(inputs, targets, strict=True):
        assert row.astype(np.uint8).tobytes() + bytes([target[-1]]) in text


def test_a_batch_is_a_function_of_seed_and_step():
    def starts(seed, step, batch=6):
        return TokenStream(np.arange(10_000), 8, batch, seed).at(step).inputs[:, 0].tolist()

    assert starts(1, 5) == starts(np.int64(1), np.int32(5)) == starts(1, 5)
    assert starts(1, 5, 4) == starts(1, 5, 6)[:4]
    batches = [starts(seed, step) for seed in (-1, 0, 1, 2) for step in (0, 1, 2, 2**40)]
    assert len({tuple(b) for b in batches}) == 16 and len({s for b in batches for s in b}) > 80
    stream = TokenStream(np.arange(10_000), 8, 6, 1)
    later, _ = stream.at(900), stream.at(3)
    assert later.inputs[:, 0].tolist() == stream.at(900).inputs[:, 0].tolist() == starts(1, 900)


def philox(key: int, counter: int) -> list[int]:
    """Philox4x64-10 in plain integers, from the paper (Salmon et al. 2011, section 3.3): four words of 64 bits."""
    word = (1 << 64) - 1
    c = [counter >> 64 * i & word for i in range(4)]
    k = [key & word, key >> 64 & word]
    for _ in range(10):
        a, b = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [b >> 64 ^ c[1] ^ k[0], b & word, a >> 64 ^ c[3] ^ k[1], a & word]
        k = [k[0] + 0x9E3779B97F4A7C15 & word, k[1] + 0xBB67AE8584CAA73B & word]
    return c


def test_the_places_are_philox_words():
    """The recipe of a batch, written again without NumPy: runs of other versions and machines see the same data."""
    stream = TokenStream(np.arange(1000), context=8, batch=6, seed=2026)
    for step in (0, 3, 123_456):
        words = [w for block in (1, 2) for w in philox(2026, block + (step << 192))]
        assert stream.at(step).inputs[:, 0].tolist() == [w % 992 for w in words[:6]]


def test_every_place_is_equally_likely():
    stream = TokenStream(np.arange(18), context=8, batch=1000, seed=0)
    counts = np.bincount(np.concatenate([stream.at(step).inputs[:, 0] for step in range(20)]), minlength=10)
    assert len(counts) == 10 and ((counts - 2000) ** 2 / 2000).sum() < 27.9  # chi-squared, 9 degrees, p = 0.001


@given(st.integers(1, 9), st.integers(1, 5), st.integers(0, 200))
def test_windows_count_each_target_once(context, batch, more):
    tokens = np.arange(1, context + 2 + more)
    parts = list(windows(tokens, context, batch))
    assert len(parts) == -(-(len(tokens) - 1) // (batch * context))
    for part in parts:
        assert part.inputs.shape == part.targets.shape == part.weights.shape == (batch, context)
        assert (part.inputs.dtype, part.targets.dtype, part.weights.dtype) == (np.int32, np.int32, np.float32)
        assert ((part.inputs == 0) == (part.weights == 0)).all() and ((part.targets == 0) == (part.weights == 0)).all()
    weights = np.concatenate([part.weights.ravel() for part in parts])
    inputs = np.concatenate([part.inputs.ravel() for part in parts])
    targets = np.concatenate([part.targets.ravel() for part in parts])
    assert weights.sum() == len(tokens) - 1 and set(weights.tolist()) <= {0.0, 1.0}
    assert inputs[weights == 1].tolist() == tokens[:-1].tolist() and targets[weights == 1].tolist() == tokens[1:].tolist()


def test_windows_are_rows_of_one_context():
    first, second = windows(np.arange(1, 13), context=4, batch=2)
    assert first.inputs.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]] and first.targets.tolist() == [[2, 3, 4, 5], [6, 7, 8, 9]]
    assert second.inputs.tolist() == [[9, 10, 11, 0], [0, 0, 0, 0]] and second.weights.tolist() == [[1, 1, 1, 0], [0, 0, 0, 0]]


def test_tiny_shakespeare_is_65_characters(data_folder):
    text = corpora.read_corpus("tinyshakespeare").text
    known = tokeniser("characters", text, 0)
    tokens = known.encode(text)
    assert known.vocabulary == 65 and known.decode(tokens) == text
    train, validation = split(tokens, context=64)
    assert (len(train), len(validation)) == (1_003_854, 111_540)
    assert sum(part.weights.sum() for part in windows(validation, 64, 12)) == 111_539
