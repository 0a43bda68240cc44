"""Our side of `bench tokenizer`: GPT-2's vocabulary is the one that ships with us.

usage: python -m pullback.experiments.bench.ours_tokenizer FOLDER
"""

from ...lib.bpe import BPE
from ...lib.bpe_train import train
from .rivals.text import run

if __name__ == "__main__":
    run(lambda folder: BPE.gpt2(), BPE.encode, train)
