"""Byte-pair vocabularies as Hugging Face keeps them: vocab.json with merges.txt, or all in one tokenizer.json."""

from pathlib import Path
from typing import Any

from .atomic import write_json, write_text
from .bpe import BPE, END, to_bytes
from .characters import utf8
from .errors import ConfigError
from .reading import read_json, read_text

VERSION = "#version: 0.2"
# Fields of tokenizer.json that change ids where they are anything else.
CUTS = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
STRIPS = ("single_word", "lstrip", "rstrip")
MERGES = {
    "type": "BPE",
    "dropout": None,
    "unk_token": None,
    "continuing_subword_prefix": None,
    "end_of_word_suffix": None,
    "fuse_unk": False,
    "byte_fallback": False,
    "ignore_merges": False,
}


def save(bpe: BPE, folder: Path) -> None:
    """vocab.json, merges.txt and tokenizer.json in a folder that is there."""
    tokens, merges = bpe.texts()
    vocabulary = {token: i for i, token in enumerate(tokens)}
    write_json(folder / "vocab.json", vocabulary)
    write_text(folder / "merges.txt", "\n".join([VERSION, *merges, ""]))
    level, flags = {**CUTS, "trim_offsets": True}, dict.fromkeys((*STRIPS, "normalized"), False)
    record = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": name, **flags, "special": True} for name, i in bpe.specials.items()],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": {**level, "trim_offsets": False},
        "decoder": level,
        "model": {**MERGES, "vocab": vocabulary, "merges": [merge.split(" ") for merge in merges]},
    }
    write_json(folder / "tokenizer.json", record)


def load(place: Path) -> BPE:
    """The vocabulary of a folder, or of a tokenizer.json. Raises ConfigError for what is none, or is not GPT-2's kind."""
    if place.is_file():
        return from_tokenizer(read_json(place))
    if (place / "tokenizer.json").is_file():
        return from_tokenizer(read_json(place / "tokenizer.json"))
    if not (place / "vocab.json").is_file():
        raise ConfigError(f"{place} has no vocabulary: neither tokenizer.json nor vocab.json with merges.txt")
    vocabulary, lines = read_json(place / "vocab.json"), read_text(place / "merges.txt").splitlines()
    known = isinstance(vocabulary, dict) and END in vocabulary
    return from_texts(
        vocabulary, [line for line in lines if line and not line.startswith("#version")], {END: vocabulary[END]} if known else {}
    )


def from_texts(vocabulary: Any, merges: Any, specials: Any) -> BPE:
    """The BPE that these parts of a file describe. They may be anything: what is wrong is a ConfigError."""
    if not isinstance(vocabulary, dict) or not isinstance(specials, dict):
        raise ConfigError("a vocabulary is an object {token: id}")
    ids = {**vocabulary, **specials}
    by_id: dict[int, str] = {i: token for token, i in ids.items() if type(i) is int}
    if len(by_id) < len(ids) or sorted(by_id) != list(range(len(ids))):
        raise ConfigError(f"the ids of {len(ids):,} tokens are not 0 to {len(ids) - 1:,}, each of one token")
    bytes_of = lambda token: utf8(token, f"the token {token[:40]!r}") if token in specials else to_bytes(token)
    tokens = [bytes_of(token) for _, token in sorted(by_id.items())]
    missing = {bytes([byte]) for byte in range(256)} - {token for i, token in enumerate(tokens) if by_id[i] not in specials}
    if missing:
        raise ConfigError(f"the vocabulary lacks {len(missing)} of the 256 bytes, the first {min(missing)!r}; expected a byte-level one")
    if not isinstance(merges, list):
        raise ConfigError(f"merges is {str(merges)[:60]!r}; expected a list")
    triples, seen = [], set()
    for rank, merge in enumerate(merges):
        pair = tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) if isinstance(merge, list) else ()
        if len(pair) != 2 or not all(isinstance(part, str) and part in ids and part not in specials for part in pair):
            raise ConfigError(f"merge {rank} is {str(merge)[:60]!r}; expected two tokens of the vocabulary")
        a, b = pair
        if a + b not in ids or pair in seen:
            what = "comes twice" if pair in seen else "makes no token of the vocabulary"
            raise ConfigError(f"merge {rank}, {str(merge)[:60]!r}, {what}")
        seen.add(pair)
        triples.append((ids[a], ids[b], ids[a + b]))
    return BPE(tokens, triples, specials)


def from_tokenizer(record: Any) -> BPE:
    """Of a tokenizer.json that cuts and merges as GPT-2 does; ConfigError names the field that says otherwise."""
    if not isinstance(record, dict):
        raise ConfigError("tokenizer.json is no object")
    added, model = record.get("added_tokens") or [], record.get("model") or {}
    fields = [("normalizer", record.get("normalizer"), None)]
    for place, part, wanted in (("pre_tokenizer", record.get("pre_tokenizer"), CUTS), ("model", model, MERGES)):
        if not isinstance(part, dict):
            raise ConfigError(f"tokenizer.json: {place} is {str(part)[:60]!r}; expected an object")
        fields += [(f"{place}.{name}", part.get(name, value), value) for name, value in wanted.items()]
    if not isinstance(added, list) or not all(isinstance(one, dict) and isinstance(one.get("content"), str) for one in added):
        raise ConfigError("tokenizer.json: added_tokens is no list of objects with a content each")
    fields += [(f"{name} of {one['content']!r}", one.get(name) or False, False) for one in added for name in STRIPS]
    for name, came, expected in fields:
        if came != expected and not (came == "" and expected is None):
            raise ConfigError(f"tokenizer.json: {name} is {str(came)[:60]!r}; expected {expected!r}, as GPT-2 has it")
    return from_texts(model.get("vocab"), model.get("merges"), {one["content"]: one.get("id") for one in added})


def from_json(record: dict[str, Any]) -> BPE:
    """Of what `BPE.to_json` says."""
    tokens = record.get("tokens")
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ConfigError("a vocabulary's record has a list of tokens")
    return from_texts({token: i for i, token in enumerate(tokens)}, record.get("merges"), record.get("specials"))
