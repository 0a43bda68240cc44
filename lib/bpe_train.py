"""A new byte-pair vocabulary from a text: the most frequent pair of neighbours becomes a token, again and again."""

import collections
import heapq
import itertools
from collections.abc import Callable, Sequence

from .bpe import BPE, BYTES, END, from_merges, words_of
from .errors import ConfigError

Pair = tuple[int, int]
NONE = -1  # no token: the end of a word, or what a merge took away


def train(text: str, vocabulary: int, specials: Sequence[str] = (END,), progress: Callable[[int, int], None] | None = None) -> BPE:
    """A vocabulary of so many tokens, fewer where the text has no more pairs. Of equally frequent pairs the lower ids win.

    progress(done, all) is called after each merge. Sennrich et al. 2016, Neural machine translation of rare words with
    subword units.
    """
    wanted = vocabulary - 256 - len(specials)
    if wanted < 0:
        raise ConfigError(f"a vocabulary of {vocabulary}; expected at least {256 + len(specials)}: the bytes and {len(specials)} special")
    ids_of = {byte: i for i, byte in enumerate(BYTES)}
    ids, weights = [], []  # of all words, one after the other
    for word, weight in collections.Counter(itertools.chain.from_iterable(words_of(text))).items():
        ids += [*map(ids_of.__getitem__, word.encode()), NONE]
        weights += [weight] * (len(ids) - len(weights))
    before, after = list(range(-1, len(ids) - 1)), list(range(1, len(ids) + 1))  # a chain of what is left
    tokens = [bytes([byte]) for byte in BYTES]
    known, merges = {token: i for i, token in enumerate(tokens)}, []
    count: dict[Pair, int] = collections.defaultdict(int)
    places: dict[Pair, list[int]] = collections.defaultdict(list)  # of the left one; it may have become another pair since
    for k, (pair, weight) in enumerate(zip(zip(ids, ids[1:]), weights)):
        if NONE not in pair:
            count[pair] += weight
            places[pair].append(k)
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
        changed: set[Pair] = set()
        for k in sorted(places.pop(pair)):  # from the left, which matters where a is b
            j = after[k]
            if ids[k] != a or ids[j] != b:
                continue
            left, right, weight = before[k], after[j], weights[k]
            ids[k], ids[j], after[k], before[right] = made, NONE, right, k
            count[pair] -= weight
            for place, old, new in ((left, (ids[left], a), (ids[left], made)), (k, (b, ids[right]), (made, ids[right]))):
                if NONE not in new:
                    count[old] -= weight
                    count[new] += weight
                    places[new].append(place)
                    changed.add(new)
        for new in changed:
            if count[new]:
                heapq.heappush(heap, (-count[new], new))
        if progress is not None:
            progress(len(tokens) - 256, wanted)
    return from_merges(merges, specials)
