"""`pullback bench tokenizer`: text to GPT-2's ids, and a new vocabulary from a text, beside tiktoken and tokenizers."""

import importlib.util
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...lib.bpe import BPE
from ...lib.bpe_files import save
from ...lib.corpora import read_corpus
from ..parsing import parse
from .harness import alternating, compared, median, show

RIVALS = ("tiktoken", "tokenizers")
FIGURES = {"encode_mb_s": "encode", "again_mb_s": "again", "train_s": "train", "load_s": "load"}  # figure: name of its ratio


@dataclass(frozen=True)
class Options:
    """One thread in fresh processes that take turns; medians. Encode: the corpus with no word known, and again, in MB/s (a ratio
    wants to be above 1). Train: seconds for 2,048 tokens from its first megabyte. Load: seconds to have GPT-2's vocabulary."""

    data: str = "tinyshakespeare"
    rounds: int = 5
    json: bool = False


def main(argv: Sequence[str]) -> int:
    options = parse(Options, argv, "bench tokenizer")
    corpus, rivals = read_corpus(options.data), Path(__file__).parent / "rivals"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "corpus.txt").write_text(corpus.text, encoding="utf-8", newline="")
        save(BPE.gpt2(), Path(folder))
        programs = {"pullback": (["-m", "pullback.experiments.bench.ours_tokenizer", folder], False)}
        there = [name for name in RIVALS if importlib.util.find_spec(name)]
        programs |= {name: ([str(rivals / f"{name}_text.py"), folder], False) for name in there}
        lines = alternating(programs, options.rounds)
    figures = {name: {key: median(rounds, key) for key in FIGURES} | {"ids": rounds[0]["ids"]} for name, rounds in lines.items()}
    result = compared(figures, {ratio: key for key, ratio in FIGURES.items()})
    columns = {key.replace("_mb_s", " MB/s").replace("_s", " s"): (key, 1.0, ",.3f") for key in FIGURES}
    show(result, f"ids of {options.data}, {len(corpus.text):,} characters", columns, options.json)
    return 0
