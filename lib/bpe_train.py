"""A new byte-pair vocabulary from a text: the most frequent pair of neighbours becomes a token, again and again."""

import collections
import heapq
import itertools
from collections.abc import Callable, Sequence

from .bpe import BPE, BYTES, END, from_merges, words_of
from .errors import ConfigError

Pair = tuple[int, int]


def train(text: str, vocabulary: int, specials: Sequence[str] = (END,), progress: Callable[[int, int], None] | None = None) -> BPE:
    """A vocabulary of so many tokens, fewer where the text has no more pairs. Of equally frequent pairs the lower ids win.

    progress(done, all) is called after each merge. Sennrich et al. 2016, Neural machine translation of rare words with
    subword units.
    """
    wanted = vocabulary - 256 - len(specials)
    if wanted < 0:
        raise ConfigError(f"a vocabulary of {vocabulary}; expected at least {256 + len(specials)}: the bytes and {len(specials)} special")
    ids_of = {byte: i for i, byte in enumerate(BYTES)}
    counted = collections.Counter(itertools.chain.from_iterable(words_of(text)))
    words, weights = [[ids_of[byte] for byte in word.encode()] for word in counted], list(counted.values())
    tokens = [bytes([byte]) for byte in BYTES]
    known, merges = {token: i for i, token in enumerate(tokens)}, []
    count: collections.Counter[Pair] = collections.Counter()
    places: dict[Pair, set[int]] = collections.defaultdict(set)
    for i, (word, weight) in enumerate(zip(words, weights)):
        for pair in zip(word, word[1:]):
            count[pair] += weight
            places[pair].add(i)
    heap = [(-n, pair) for pair, n in count.items()]
    heapq.heapify(heap)
    while heap and len(tokens) - 256 < wanted:
        n, pair = heapq.heappop(heap)
        if -n != count[pair]:  # it was another number when it was put there
            if count[pair]:
                heapq.heappush(heap, (-count[pair], pair))
            continue
        a, b = pair
        merges.append((tokens[a], tokens[b]))
        made = known.setdefault(tokens[a] + tokens[b], len(tokens))
        if made == len(tokens):
            tokens.append(tokens[a] + tokens[b])
        more: collections.Counter[Pair] = collections.Counter()
        for i in places.pop(pair):
            word = words[i]
            for old in zip(word, word[1:]):
                count[old] -= weights[i]
            word[:] = joined(word, a, b, made)
            for new in zip(word, word[1:]):
                count[new] += weights[i]
                if made in new:
                    more[new] += 1
                    places[new].add(i)
        for new in more:
            heapq.heappush(heap, (-count[new], new))
        if progress is not None:
            progress(len(tokens) - 256, wanted)
    return from_merges(merges, specials)


def joined(word: list[int], a: int, b: int, made: int) -> list[int]:
    """Every a b becomes one token, from the left."""
    out, i = [], 0
    while i < len(word):
        if word[i] == a and i + 1 < len(word) and word[i + 1] == b:
            out.append(made)
            i += 2
        else:
            out.append(word[i])
            i += 1
    return out
