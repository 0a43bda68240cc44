"""Byte-level byte-pair encoding, as GPT-2 has it: text is cut into words, words into bytes, and bytes grow into tokens by merges.

A merge joins two tokens that stand side by side; of all that fit in a word the one of lowest rank is done first. Ids are the
256 bytes, the merges by rank, then the special tokens, or whatever a loaded vocabulary says.

Radford et al. 2019, Language models are unsupervised multitask learners; Sennrich et al. 2016, Neural machine translation of
rare words with subword units.
"""

import functools
import heapq
import itertools
import lzma
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import regex
from jaxtyping import Int

from .characters import known_ids, utf8
from .errors import ConfigError

# Published with GPT-2: contractions, then letters, numbers or other signs with the space before them, then white space, whose
# last character goes to the word after it.
WORD = regex.compile(r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
# The same for text of ASCII alone, in half the time.
ASCII = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?[A-Za-z]+| ?[0-9]+| ?[^ \t-\rA-Za-z0-9]+|[ \t-\r]+(?![^ \t-\r])|[ \t-\r]+")
END = "<|endoftext|>"
NEVER = 1 << 62  # the rank of a pair that no merge joins
LONG = 256  # tokens of a word from which on the search for the next merge is worth a heap
REMEMBERED = 1 << 24  # characters of words whose ids are kept
CHUNK = 1 << 20  # characters that are cut into words at a time

Special = Literal["ordinary", "token", "error"]


def byte_order() -> list[int]:
    """The bytes by id: those that Latin-1 prints come first, for they stand for themselves in a vocabulary file."""
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    return shown + [byte for byte in range(256) if byte not in shown]


BYTES = byte_order()
TO_TEXT = {byte: chr(byte if i < 188 else 256 + i - 188) for i, byte in enumerate(BYTES)}
TO_BYTE = {shown: byte for byte, shown in TO_TEXT.items()}


def to_text(token: bytes) -> str:
    """A token as vocabulary files have it: one visible character per byte, Ġ for a space."""
    return "".join(map(TO_TEXT.__getitem__, token))


def to_bytes(text: str) -> bytes:
    try:
        return bytes(map(TO_BYTE.__getitem__, text))
    except KeyError as error:
        raise ConfigError(f"the token {text[:40]!r} has {error}, which stands for no byte; expected byte-level tokens") from None


class BPE:
    """A vocabulary of tokens by id and the merges by rank, each a pair of ids and the id that it makes.

    bpe = BPE.gpt2()
    bpe.decode(bpe.encode("The kettle sang.")) == "The kettle sang."
    """

    kind: ClassVar[str] = "bpe"

    def __init__(self, tokens: Sequence[bytes], merges: Sequence[tuple[int, int, int]], specials: dict[str, int]):
        self.tokens, self.merges, self.specials = list(tokens), list(merges), dict(specials)
        special = set(self.specials.values())
        by_token = {token: i for i, token in enumerate(self.tokens) if len(token) == 1 and i not in special}
        self.byte_ids = [by_token[bytes([byte])] for byte in range(256)]
        self.ranks = {(a, b): rank for rank, (a, b, _) in enumerate(self.merges)}
        self.made = [made for _, _, made in self.merges]
        self.known: dict[str, tuple[int, ...]] = {}
        self.remembered = 0
        self.special = regex.compile("|".join(map(regex.escape, sorted(self.specials, key=len, reverse=True)))) if specials else None

    def __repr__(self) -> str:
        return f"<BPE of {self.vocabulary:,} tokens>"

    @property
    def vocabulary(self) -> int:
        return len(self.tokens)

    def encode(self, text: str, special: Special = "ordinary") -> Int[np.ndarray, " N"]:
        """Ids of a text. special: where the text has the name of a special token, take it as ordinary text, as that token, or
        raise ConfigError."""
        if special not in ("ordinary", "token", "error"):
            raise ConfigError(f"special={special!r}; expected 'ordinary', 'token' or 'error'")
        utf8(text)
        if special == "ordinary" or self.special is None:
            return self.ordinary(text)
        pieces, start = [], 0
        for found in self.special.finditer(text):
            if special == "error":
                raise ConfigError(f"the text has the special token {found[0]!r} at position {found.start():,}; see special=")
            pieces += [self.ordinary(text[start : found.start()]), np.array([self.specials[found[0]]], np.int32)]
            start = found.end()
        return np.concatenate([*pieces, self.ordinary(text[start:])])

    def ordinary(self, text: str) -> Int[np.ndarray, " N"]:
        """The ids of a text in which nothing is special."""
        pieces = []
        for words in words_of(text):
            if self.remembered > REMEMBERED:
                self.known.clear()
                self.remembered = 0
            for word in set(words) - self.known.keys():
                self.remembered += len(word)
                self.known[word] = tuple(self.merged(list(map(self.byte_ids.__getitem__, word.encode()))))
            pieces.append(np.array(list(itertools.chain.from_iterable(map(self.known.__getitem__, words))), np.int32))
        return np.concatenate(pieces)

    def merged(self, ids: list[int]) -> list[int]:
        """Do the merge of lowest rank, the leftmost of them, until none fits."""
        if len(ids) >= LONG:
            return self.merged_long(ids)
        rank_of, made = self.ranks.get, self.made
        ranks = list(map(rank_of, zip(ids, ids[1:]), itertools.repeat(NEVER)))
        while ranks:
            rank = min(ranks)
            if rank == NEVER:
                break
            k = ranks.index(rank)
            ids[k : k + 2] = [made[rank]]
            del ranks[k]
            if k:
                ranks[k - 1] = rank_of((ids[k - 1], ids[k]), NEVER)
            if k < len(ranks):
                ranks[k] = rank_of((ids[k], ids[k + 1]), NEVER)
        return ids

    def merged_long(self, ids: list[int]) -> list[int]:
        """The same in a time that grows as n·log n: places by rank, a heap of the ranks, and a chain of what is left."""
        rank_of, n = self.ranks.get, len(ids)
        before, after = list(range(-1, n - 1)), [*range(1, n), -1]
        places: dict[int, list[int]] = {}
        for k, rank in enumerate(map(rank_of, zip(ids, ids[1:]))):
            if rank is not None:
                places.setdefault(rank, []).append(k)
        heap = list(places)
        heapq.heapify(heap)
        while heap:
            rank = heapq.heappop(heap)
            a, b, made = self.merges[rank]
            waiting = sorted(places.pop(rank))
            for at, k in enumerate(waiting):
                j = after[k]
                if ids[k] != a or j < 0 or ids[j] != b:
                    continue  # one of the two was merged before
                ids[k], ids[j], after[k] = made, -1, after[j]
                left, right, least = before[k], after[j], NEVER
                if right >= 0:
                    before[right] = k
                for place, pair in ((left, (ids[left], made)), (k, (made, ids[right]))):
                    if place >= 0 and (place != k or right >= 0):
                        new = rank_of(pair)
                        if new is not None:
                            least = min(least, new)
                            if new in places:
                                places[new].append(place)
                            else:
                                places[new] = [place]
                                heapq.heappush(heap, new)
                if least < rank:  # a lower rank fits now: it comes first
                    if rank in places:
                        places[rank] += waiting[at + 1 :]
                    else:
                        places[rank] = waiting[at + 1 :]
                        heapq.heappush(heap, rank)
                    break
        return [one for one in ids if one >= 0]

    def to_bytes(self, ids) -> bytes:
        """The bytes of ids one after the other, maybe with half a character at an end."""
        return b"".join(map(self.tokens.__getitem__, known_ids(ids, self.vocabulary).tolist()))

    def decode(self, ids, errors: Literal["replace", "strict"] = "replace") -> str:
        """The text of ids. Bytes that are no UTF-8 become U+FFFD, or raise ConfigError under errors="strict"."""
        data = self.to_bytes(ids)
        try:
            return data.decode("utf-8", errors)
        except UnicodeDecodeError as error:
            raise ConfigError(f"the tokens are no UTF-8: byte 0x{data[error.start]:02x} at offset {error.start:,}") from None

    def texts(self) -> tuple[list[str], list[str]]:
        """(tokens by id, merges as "a b") in the alphabet of vocabulary files. Special tokens go by their names."""
        names = {i: name for name, i in self.specials.items()}
        shown = [names.get(i) or to_text(token) for i, token in enumerate(self.tokens)]
        return shown, [f"{shown[a]} {shown[b]}" for a, b, _ in self.merges]

    def to_json(self) -> dict[str, Any]:
        tokens, merges = self.texts()
        return {"kind": self.kind, "tokens": tokens, "merges": merges, "specials": self.specials}

    @classmethod
    @functools.cache
    def gpt2(cls) -> "BPE":
        """The vocabulary of GPT-2: 50,257 tokens. The merges are OpenAI's; see LICENSE-gpt2.txt beside this file."""
        lines = lzma.decompress((Path(__file__).parent / "gpt2_merges.xz").read_bytes()).decode().splitlines()[1:]
        return from_merges([tuple(map(to_bytes, line.split(" "))) for line in lines])  # type: ignore[misc]


def words_of(text: str) -> Iterator[list[str]]:
    """The words of a text, about CHUNK characters at a time."""
    for chunk in chunks(text):
        yield (ASCII if chunk.isascii() else WORD).findall(chunk)


def chunks(text: str) -> Iterator[str]:
    """A text in pieces that cut no word: each but the last ends before a space after something that is none."""
    start = 0
    while len(text) - start > CHUNK:
        cut = text.find(" ", start + CHUNK)
        while cut > 0 and text[cut - 1].isspace():
            cut = text.find(" ", cut + 1)
        if cut < 0:
            break
        yield text[start:cut]
        start = cut
    yield text[start:]


def from_merges(merges: Iterable[tuple[bytes, bytes]], specials: Sequence[str] = (END,)) -> BPE:
    """Ids as GPT-2 has them: bytes, what the merges make, special tokens."""
    tokens = [bytes([byte]) for byte in BYTES]
    ids, triples = {token: i for i, token in enumerate(tokens)}, []
    for rank, (a, b) in enumerate(merges):
        for part in (a, b):
            if part not in ids:
                raise ConfigError(f"merge {rank}: no token {to_text(part)[:40]!r} comes before it")
        made = ids.setdefault(a + b, len(tokens))
        if made == len(tokens):
            tokens.append(a + b)
        triples.append((ids[a], ids[b], made))
    return BPE(tokens + [name.encode() for name in specials], triples, {name: len(tokens) + i for i, name in enumerate(specials)})
