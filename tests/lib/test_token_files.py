"""Token files: whole ones, those of strangers, and memory that does not follow their size."""

import json
import os
import random
import struct
import tracemalloc

import numpy as np
import pytest

from pullback.lib import tensors
from pullback.lib.bpe import BPE
from pullback.lib.characters import Bytes, Characters
from pullback.lib.errors import ConfigError
from pullback.lib.token_files import Source, is_token_file, open_tokens, write_tokens
from pullback.lib.tokenisers import digest

FUZZED = int(os.environ.get("PULLBACK_EXAMPLES", "300"))
SOURCES = [Source("a.txt", "0" * 64, 5, 5), Source("b é.txt", "1" * 64, 3, 3)]
WORDS = Characters("abcdefgh")
TOKENS = np.arange(8)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.tokens"


@pytest.mark.parametrize("ends", [None, np.array([5, 8])])
@pytest.mark.parametrize("words", [Bytes(), WORDS, BPE.gpt2()], ids=["bytes", "characters", "gpt2"])
def test_round_trip(words, ends, path):
    write_tokens(path, words, SOURCES, 8, iter([TOKENS[:3], TOKENS[3:]]), ends)
    file = open_tokens(path)
    assert file.tokens.tolist() == TOKENS.tolist() and file.tokens.dtype == np.uint16 and isinstance(file.tokens, np.memmap)
    assert (file.ends is None) == (ends is None)
    assert file.ends is None or (file.ends.tolist() == [5, 8] and isinstance(file.ends, np.memmap))
    assert file.tokeniser.to_json() == words.to_json() and file.sha256 == digest(words) and file.sources == SOURCES
    assert is_token_file(path) and not is_token_file(path.parent) and not is_token_file(path.parent / "nowhere")
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert set(tensors.Tensors(path).kinds) == ({"tokens"} if ends is None else {"tokens", "ends"})


def test_a_large_vocabulary_takes_four_bytes(path):
    words = Characters("".join(map(chr, [*range(0xD800), *range(0xE000, 0xE000 + 12_000)])))
    assert words.vocabulary > 65_536
    write_tokens(path, words, SOURCES, 2, [np.array([0, words.vocabulary - 1])], np.array([2]))
    assert open_tokens(path).tokens.tolist() == [0, words.vocabulary - 1] and open_tokens(path).tokens.dtype == np.uint32
    write_tokens(path, Characters(words.characters[: 1 << 16]), SOURCES, 1, [np.array([65_535])])
    assert open_tokens(path).tokens.dtype == np.uint16 and open_tokens(path).tokens.tolist() == [65_535]


def test_vocabularies_are_told_apart():
    assert len({digest(words) for words in (Bytes(), WORDS, Characters("abc"), BPE.gpt2())}) == 4
    assert digest(Bytes()) == "1b5ec18e75637aa79a17040f88dbca7b2350d25f5eb340eb20c5ac2015d04072"


def test_memory_does_not_follow_the_file(path):
    chunk = np.zeros(1 << 20, np.uint16)
    tracemalloc.start()
    write_tokens(path, Bytes(), SOURCES, 32 << 20, (chunk for _ in range(32)))
    file = open_tokens(path)
    assert len(file.tokens) == 32 << 20 and file.tokens[-1] == 0
    assert tracemalloc.get_traced_memory()[1] < 8 << 20  # of 64 MiB
    tracemalloc.stop()


@pytest.mark.parametrize("count, says", [(9, "1 tokens are missing"), (7, "1 tokens are too many")])
def test_a_wrong_count_leaves_no_file(count, says, path):
    with pytest.raises(ConfigError, match=says):
        write_tokens(path, WORDS, SOURCES, count, [TOKENS])
    assert list(path.parent.iterdir()) == []


def test_a_failure_leaves_the_file_before(path):
    write_tokens(path, WORDS, SOURCES, 8, [TOKENS])
    before = path.read_bytes()

    def chunks():
        yield TOKENS
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_tokens(path, WORDS, SOURCES, 16, chunks())
    assert path.read_bytes() == before and len(list(path.parent.iterdir())) == 1


def changed(path, change, data: bytes | None = None) -> None:
    """The file with a header that somebody made up."""
    whole = path.read_bytes()
    length = struct.unpack("<Q", whole[:8])[0]
    header = json.loads(whole[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + (whole[8 + length :] if data is None else data))


def put(place: str, value):
    def change(header):
        *way, last = place.split(".")
        for name in way:
            header = header[name]
        header[last] = value

    return change


def ends(*values):
    return np.array(values, "<i8").tobytes() + TOKENS.astype("<u2").tobytes()


HOSTILE = {
    "another format": (put("__metadata__.format", "pt"), None, "is no token file: its format is 'pt'"),
    "no metadata": (lambda h: h.pop("__metadata__"), None, "is no token file: its format is None"),
    "a metadatum that is no text": (put("__metadata__.vocabulary", 8), None, "is damaged: "),
    "no tokens": (lambda h: h.update(token=h.pop("tokens")), None, "is no token file"),
    "a tensor besides": (lambda h: h.update(more=h.pop("ends")), None, "its tensor 'more' is I64 of shape"),
    "tokens of the wrong dtype": (put("tokens.dtype", "I16"), None, "its tensor 'tokens' is I16"),
    "tokens of another width": (lambda h: h["tokens"].update(dtype="U32", shape=[4]), None, "its tensor 'tokens' is U32"),
    "tokens in a square": (put("tokens.shape", [2, 4]), None, "its tensor 'tokens' is U16 of shape (2, 4)"),
    "ends of the wrong dtype": (put("ends.dtype", "F64"), None, "its tensor 'ends' is F64"),
    "ends that fall": (lambda h: None, ends(9, 8), "no ascending numbers from 1 to 8"),
    "ends below 1": (lambda h: None, ends(-1, 8), "no ascending numbers"),
    "ends before the end": (lambda h: None, ends(3, 7), "no ascending numbers"),
    "ends beyond the end": (lambda h: None, ends(3, 2**62), "no ascending numbers"),
    "cut short": (lambda h: None, ends(5, 8)[:-1], "is damaged: "),
    "too long": (lambda h: None, ends(5, 8) + b"\0\0", "is damaged: "),
    "beyond the file": (put("tokens.data_offsets", [16, 2**40]), None, "is damaged: "),
    "no tokeniser": (lambda h: h["__metadata__"].pop("tokeniser"), None, "its tokeniser cannot be read"),
    "a tokeniser of a deep nest": (put("__metadata__.tokeniser", "[" * 100_000), None, "its tokeniser cannot be read"),
    "another tokeniser": (put("__metadata__.tokeniser", '{"kind":"bytes"}'), None, "its tokeniser is not the one"),
    "a tokeniser of no kind": (put("__metadata__.tokeniser", '{"kind":"x"}'), None, "a tokeniser's record has a kind"),
    "another vocabulary": (put("__metadata__.vocabulary", "9"), None, "its tokeniser is not the one"),
    "another hash": (put("__metadata__.tokeniser_sha256", "0" * 64), None, "its tokeniser is not the one"),
    "no sources": (put("__metadata__.sources", "[{}]"), None, "a source has name, sha256, bytes, tokens"),
    "sources that are no list": (put("__metadata__.sources", "7"), None, "its sources are no list"),
    "NaN": (put("__metadata__.sources", "[NaN]"), None, "NaN is no JSON"),
}


@pytest.mark.parametrize("change, data, says", HOSTILE.values(), ids=HOSTILE)
def test_a_file_of_a_stranger(change, data, says, path):
    write_tokens(path, WORDS, SOURCES, 8, [TOKENS], np.array([5, 8]))
    changed(path, lambda header: None)
    assert open_tokens(path).tokens.tolist() == TOKENS.tolist()  # the change alone is what is wrong
    changed(path, change, data)
    with pytest.raises(ConfigError) as error:
        open_tokens(path)
    assert says in str(error.value) and "\n" not in str(error.value) and len(str(error.value)) < 400


def test_tensors_in_another_order(path):
    write_tokens(path, WORDS, SOURCES, 8, [TOKENS], np.array([5, 8]))
    turned = lambda header: (put("tokens.data_offsets", [0, 16])(header), put("ends.data_offsets", [16, 32])(header))
    changed(path, turned, TOKENS.astype("<u2").tobytes() + np.array([2, 8], "<i8").tobytes())
    file = open_tokens(path)
    assert file.tokens.tolist() == TOKENS.tolist() and file.ends is not None and file.ends.tolist() == [2, 8]


def test_what_is_no_token_file(path):
    tensors.write(path, {"tokens": np.arange(3, dtype=np.uint16)}, "pt")
    assert not is_token_file(path)
    with pytest.raises(ConfigError, match="is no token file: its format is 'pt'; `pullback data prepare` makes one"):
        open_tokens(path)
    path.write_text("a text")
    assert not is_token_file(path)
    with pytest.raises(ConfigError, match="some.tokens is damaged: "):
        open_tokens(path)
    with pytest.raises(ConfigError, match="cannot read nowhere: No such file"):
        open_tokens(path.parent / "nowhere")


def test_bytes_that_chance_has_changed(path):
    """A clean error, or tokens that lie in the file."""
    write_tokens(path, WORDS, SOURCES, 8, [TOKENS], np.array([5, 8]))
    good, rng, refused = path.read_bytes(), random.Random(0), 0
    for _ in range(FUZZED):
        data = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            at, byte = rng.randrange(len(data)), bytes([rng.randrange(256)])
            data[at : at + rng.randint(0, 1)] = rng.choice([byte, b""])
        path.write_bytes(data)
        try:
            file = open_tokens(path)
        except ConfigError as error:
            refused += 1
            assert "\n" not in str(error)
        else:
            assert file.tokens.nbytes <= len(data) and len(file.tokens) == 8
    assert refused > FUZZED // 2
