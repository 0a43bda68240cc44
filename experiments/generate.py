"""`pullback generate`: write on from prompts."""

import codecs
import dataclasses
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from ..lib.bpe import BPE
from ..lib.errors import ConfigError
from ..lib.precision import precision
from ..lib.reading import decoded, read_text
from ..lib.tokenisers import Tokeniser
from ..models.decoding import Decoder, Token
from ..models.sampling import Sampling
from .machine import Machine, settle
from .output import say, visible
from .parsing import parse
from .pretrained import end_of_text, load
from .progress import progress

TOKENS = 200


@dataclass(frozen=True)
class Generate:
    """Write on from a prompt with the model of a run, or of a folder with GPT-2's weights."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN|DIR")]
    """The folder of a run, one with config.json and model.safetensors as Hugging Face keeps them, or hf:NAME."""
    prompt: Annotated[str | None, tyro.conf.arg(metavar="TEXT")] = None
    """The text to go on from; an empty one begins where texts begin."""
    file: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None
    """Prompts from a file, one on a line, written on together; - is standard input."""
    tokens: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """How many tokens to add; 200, or for how many the model's context has room, if not given."""
    sampling: Annotated[Sampling, tyro.conf.arg(name="")] = field(default_factory=Sampling)
    stop: Annotated[str | None, tyro.conf.arg(metavar="TOKEN")] = None
    """End a text at this token, too; at the token for the end of a text it always ends, if there is one."""
    window: tyro.conf.FlagCreatePairsOff[bool] = False
    """Go on beyond the context: when it is full, the latter half of it is read anew."""
    stream: tyro.conf.FlagCreatePairsOff[bool] = False
    """Show the text as it comes."""
    machine: Annotated[Machine, tyro.conf.arg(name="")] = field(default_factory=Machine)


def main(argv: Sequence[str]) -> int:
    given = parse(Generate, argv, "generate")
    if (given.prompt is None) == (given.file is None):
        raise ConfigError("generate: expected --prompt TEXT or --file FILE, one of the two")
    if given.stream and (given.machine.json or given.file is not None):
        raise ConfigError("generate: --stream shows one text as it comes; leave --json and --file out")
    settle(given.machine)
    model, words, policy = load(given.model)
    texts = [given.prompt] if given.prompt is not None else lines_of(given.file or "")
    prompts = [ids_of(words, text) for text in texts]
    tokens = given.tokens if given.tokens is not None else room(model.config.context, prompts, given.window)
    decoder = Decoder(model, given.sampling, vocabulary=words.vocabulary)
    with precision(policy):
        steps = decoder.stream(prompts, tokens, stop=stops(words, given.stop), window=given.window)
        if given.stream:
            return stream(given.prompt or "", steps, words)
        came, times = collected(steps, tokens)
    written = [written_by(came, row, words, text) for row, text in enumerate(texts)]
    if given.machine.json:
        rate = len(texts) * (len(came) - 2) / (times[-1] - times[2]) if len(came) > 2 else None  # the first two compile
        say(model=given.model, texts=written, tokens_per_s=rate, first_token_s=times[1] - times[0], **dataclasses.asdict(given.sampling))
    else:
        print(*(visible(one["prompt"] + one["text"]) for one in written), sep="\n\n")
    return 0


def collected(steps: Iterator[Token], tokens: int) -> tuple[list[Token], list[float]]:
    """The tokens, and the times before the first and after each."""
    came, times, show = [], [time.perf_counter()], progress()
    show.start(tokens, "token")
    try:
        for token in steps:
            came.append(token)
            times.append(time.perf_counter())
            show.at(len(came))
    finally:
        show.close()
    return came, times


def stream(prompt: str, steps: Iterator[Token], words: Tokeniser) -> int:
    """The text on standard output as it comes, never half a character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    show = lambda text: print(visible(text), end="", flush=True)
    show(prompt)
    for token in steps:
        show(decoder.decode(words.to_bytes(without_end(words, token.ids))))
    show(decoder.decode(b"", final=True) + "\n")
    return 0


def lines_of(file: str) -> list[str]:
    """The prompts of a file, those lines that are not empty. A line ends at \\n or \\r\\n, nowhere else."""
    name = "standard input" if file == "-" else file
    text = decoded(sys.stdin.buffer.read(), name) if file == "-" else read_text(Path(file))
    prompts = [line for line in re.split(r"\r?\n", text.removeprefix("\ufeff")) if line]  # some editors begin a file by that mark
    if not prompts:
        raise ConfigError(f"{name} has no prompt; expected one on a line")
    return prompts


def ids_of(words: Tokeniser, text: str) -> Sequence[int]:
    """The tokens of a prompt. An empty one is the token that begins texts."""
    return words.encode(text) if text else end_of_text(words)  # type: ignore[return-value]


def room(context: int, prompts: Sequence[Sequence[int]], window: bool) -> int:
    return TOKENS if window else max(1, min(TOKENS, context - max(map(len, prompts)) + 1))


def stops(words: Tokeniser, name: str | None) -> list[int]:
    stop = list(end_of_text(words))
    if name is not None:
        ids = words.encode(name, special="token") if isinstance(words, BPE) else words.encode(name)
        if len(ids) != 1:
            raise ConfigError(f"stop is {name!r}, which is {len(ids)} tokens; expected one")
        stop.append(int(ids[0]))
    return stop


def without_end(words: Tokeniser, ids) -> np.ndarray:
    """Tokens to be shown: that for the end of a text is nothing to read."""
    return np.array([i for i in ids if i not in end_of_text(words)], np.int32)


def written_by(came: list[Token], row: int, words: Tokeniser, prompt: str) -> dict[str, Any]:
    """What --json says of one text."""
    tokens = [token for token in came if token.going[row]]
    ids = [int(token.ids[row]) for token in tokens]
    text = words.decode(without_end(words, ids))
    return {"prompt": prompt, "text": text, "ids": ids, "logprobs": [float(token.logprobs[row]) for token in tokens]}
