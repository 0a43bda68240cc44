"""`pullback data prepare`: texts into a file of tokens, by many processes, from where it was left."""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from ..lib import bpe_files, bpe_train, tokenisers
from ..lib.atomic import reason, write_json
from ..lib.corpora import read_corpus
from ..lib.errors import ConfigError, UnknownName, near
from ..lib.reading import read_json
from ..lib.token_files import DTYPES, Source, kind_of, write_tokens
from ..lib.tokenisers import KINDS, Tokeniser, digest
from ..models import gpt2_weights
from .output import say
from .parsing import parse
from .pieces import Piece, checked, cut, encode, words_of
from .pool import Answer, cores, spread
from .pretrained import end_of_text, vocabulary_of
from .progress import Progress, progress
from .run import demand_place

PIECE = 4 << 20  # bytes of text that are encoded at a time
LIMIT = 3600.0  # seconds that they may take
LEARNT = 2048  # tokens of a vocabulary that is learnt, unless another number is given


@dataclass(frozen=True)
class Prepare:
    """Make a token file of UTF-8 texts. The last line printed is the file.

    Where the tokeniser has a token for the end of a text, it stands between texts. What is done lies in OUT.parts until all is:
    the same command goes on from there.
    """

    files: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """Texts, each one document."""
    tokenizer: Annotated[str, tyro.conf.arg(metavar="KIND|RUN|DIR")]
    """bytes, characters or bpe (the latter two learnt from the first file), gpt2, or that of a run or of a Hugging Face folder."""
    out: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None
    """What to write; the first file's name with the ending .tokens, in this folder, if not given."""
    documents: tyro.conf.FlagCreatePairsOff[bool] = False
    """Keep where each text ends, so that no window of training crosses it."""
    vocabulary: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Tokens that bpe learns; 2,048 if not given."""
    processes: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """How many work at it; one for each core if not given."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print one JSON object on standard output and nothing else there."""


def main(argv: Sequence[str]) -> int:
    given = parse(Prepare, argv, "data prepare")
    files, out = demand(given)
    parts, show = out.with_name(f"{out.name}.parts"), progress()
    try:
        plan = {"tokenizer": given.tokenizer, "vocabulary": given.vocabulary, "piece": PIECE, "texts": hashed(files, show)}
        begin(parts, plan, given, show)
        pieces = in_pieces(files, parts)
        made(pieces, given.processes or cores(), show)
        answer = joined(out, plan["texts"], pieces, given.documents, show)
    finally:
        show.close()
    shutil.rmtree(parts)
    if given.json:
        say(path=str(out), **answer)
    else:
        print(out)
    return 0


def demand(given: Prepare) -> tuple[list[Path], Path]:
    """The texts, which are there, and the file to write, which is not: asked before the work."""
    if not given.files:
        raise ConfigError("there is no FILE; name one UTF-8 text or several")
    if given.processes is not None and given.processes < 1:
        raise ConfigError(f"processes is {given.processes}; it must be at least 1")
    if given.vocabulary is not None and given.tokenizer != "bpe":
        raise ConfigError(f"--vocabulary is for bpe, which learns one; {given.tokenizer!r} has its own")
    if given.tokenizer not in KINDS and not (given.tokenizer and os.path.exists(given.tokenizer)):
        raise UnknownName(f"no tokenizer {given.tokenizer!r}, nor a folder of that name" + near(given.tokenizer, KINDS))
    for name in given.files:
        try:
            if not Path(name).is_file():
                there = os.path.lexists(name)
                raise ConfigError(f"{name!r} is no file; expected a UTF-8 text" if there else f"there is no file {name!r}")
            if not os.path.getsize(name):
                raise ConfigError(f"{name!r} is empty")
        except OSError as error:
            raise ConfigError(f"cannot read {name!r}: {reason(error)}") from None
    out = given.out if given.out is not None else Path(given.files[0]).with_suffix(".tokens").name
    if os.path.lexists(demand_place(out)):
        raise ConfigError(f"{out} is there already; name another file with --out")
    return [Path(name) for name in given.files], Path(out)


def hashed(files: Sequence[Path], show: Progress) -> list[dict]:
    """Name, hash and size of each text; the plan is made of them, so that parts of other texts are known as such."""
    texts, done = [], 0
    show.start(sum(path.stat().st_size for path in files), "byte read")
    for path in files:
        texts.append({"name": str(path), "sha256": checked(path, lambda n, done=done: show.at(done + n)), "bytes": path.stat().st_size})
        done += path.stat().st_size
    show.close()
    return texts


def begin(parts: Path, plan: dict, given: Prepare, show: Progress) -> None:
    """The folder of the parts, with the plan and the tokeniser that all of them follow."""
    words_of.cache_clear()  # what it remembers of this place may be of another file
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        there = list(parts.iterdir())
        if there and (not (parts / "plan.json").is_file() or read_json(parts / "plan.json") != plan):
            raise ConfigError(f"{parts} holds parts of other texts or settings; remove it, or name another file with --out")
    if not (parts / "tokeniser.json").is_file():
        words = tokeniser_of(given, show)
        try:
            parts.mkdir(exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot make {parts}: {reason(error)}") from None
        write_json(parts / "plan.json", plan)
        write_json(parts / "tokeniser.json", words.to_json())


def tokeniser_of(given: Prepare, show: Progress) -> Tokeniser:
    """The tokeniser that was asked for: of a kind, learnt if need be, or from a folder, of which nothing else is read."""
    name, folder = given.tokenizer, Path(given.tokenizer)
    first = Path(given.files[0]).absolute()  # whole, for a data set may have its name
    if name == "bpe":
        text, size = read_corpus(first).text, LEARNT if given.vocabulary is None else given.vocabulary
        show.start(size, "token learnt")
        words = bpe_train.train(text, size, progress=lambda done, _: show.at(done))
        show.close()
        return words
    if name in KINDS:
        return tokenisers.tokeniser(name, read_corpus(first).text if name == "characters" else "", 0)
    if (folder / "tokeniser.json").is_file():
        return tokenisers.from_json(read_json(folder / "tokeniser.json"))
    if (folder / "config.json").is_file():
        return vocabulary_of(folder, gpt2_weights.read_config(folder).vocab)
    return bpe_files.load(folder)


def in_pieces(files: Sequence[Path], parts: Path) -> list[list[Piece]]:
    """Of each text. The same texts are always cut alike."""
    return [
        [Piece(str(path), *span, str(parts / f"{i:06}-{j:06}"), str(parts / "tokeniser.json")) for j, span in enumerate(cut(path, PIECE))]
        for i, path in enumerate(files)
    ]


def made(pieces: Sequence[Sequence[Piece]], processes: int, show: Progress) -> None:
    """All the parts that are not there yet. A part is there whole or not at all."""
    sizes = {json.dumps(piece): piece.end - piece.begin for text in pieces for piece in text}
    tasks = [json.dumps(piece) for text in pieces for piece in text if not Path(piece.part).exists()]
    whole, left = sum(sizes.values()), sum(sizes[task] for task in tasks)
    done = whole - left
    if done:
        show.note(f"going on from {done:,} of {whole:,} bytes, whose tokens are there")
    show.start(whole, "byte")
    alone = processes == 1 or left <= PIECE
    with contextlib.closing(one_by_one(tasks) if alone else spread(encode, tasks, LIMIT, processes)) as answers:
        for answer in answers:
            if answer.hung:
                raise ConfigError(f"a process died or hung at {json.loads(answer.task)[0]}; try fewer --processes, what is done is kept")
            if answer.value:
                raise ConfigError(answer.value)
            done += sizes[answer.task]
            show.at(done)
    show.close()


def one_by_one(tasks: Sequence[str]):
    """`spread` without processes, which take longer to start than a piece takes."""
    return (Answer(task, 0, value) for task in tasks for value in encode(task))


def joined(out: Path, texts: Sequence[dict], pieces: Sequence[Sequence[Piece]], documents: bool, show: Progress) -> dict:
    """The token file of all parts, and what there is to say of it."""
    words = words_of(pieces[0][0].words)
    dtype, mark = DTYPES[kind_of(words.vocabulary)], list(end_of_text(words))
    counts = [sum(os.path.getsize(piece.part) for piece in text) // dtype.itemsize for text in pieces]
    sources = [Source(**text, tokens=count) for text, count in zip(texts, counts)]
    ends = np.cumsum([count + len(mark) * (i < len(counts)) for i, count in enumerate(counts, 1)])

    def chunks() -> Iterator[np.ndarray]:
        done = 0
        for i, text in enumerate(pieces):
            for chunk in [*([np.array(mark, dtype)] if i else []), *text]:
                tokens = np.fromfile(chunk.part, dtype) if isinstance(chunk, Piece) else chunk
                yield tokens
                show.at(done := done + len(tokens))

    show.start(int(ends[-1]), "token written")
    write_tokens(out, words, sources, int(ends[-1]), chunks(), ends if documents else None)
    return {
        "tokens": int(ends[-1]),
        "documents": len(ends) if documents else None,
        "vocabulary": words.vocabulary,
        "tokeniser_sha256": digest(words),
        "sources": [source._asdict() for source in sources],
    }
