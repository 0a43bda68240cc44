"""Hugging Face tokenizers, kept to one thread.

usage: python tokenizers_text.py FOLDER
"""

# pyright: reportMissingImports=false

import os
from pathlib import Path

os.environ.update(TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1")

from text import run
from tokenizers import Tokenizer, models, pre_tokenizers, trainers


def load(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def train(text: str, vocabulary: int) -> None:
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    theirs.train_from_iterator([text], trainers.BpeTrainer(vocab_size=vocabulary - 1, initial_alphabet=alphabet, show_progress=False))


if __name__ == "__main__":
    run(load, lambda tokenizer, text: tokenizer.encode(text).ids, train)
