"""tiktoken with GPT-2's table. It has no trainer.

usage: python tiktoken_text.py FOLDER
"""

# pyright: reportMissingImports=false

from pathlib import Path

from text import run
from tiktoken import Encoding
from tiktoken.load import data_gym_to_mergeable_bpe_ranks

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""  # tiktoken's own form of GPT-2's


def load(folder: Path) -> Encoding:
    ranks = data_gym_to_mergeable_bpe_ranks(str(folder / "merges.txt"), str(folder / "vocab.json"))
    return Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})


if __name__ == "__main__":
    run(load, Encoding.encode_ordinary, None)
