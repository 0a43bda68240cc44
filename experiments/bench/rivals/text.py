"""What the programs of `bench tokenizer` have in common: one line of JSON on standard output.

encode_mb_s  again_mb_s  MB/s of UTF-8, one thread, at first and the second time      ids      how many, and a hash of them
train_s                  a vocabulary of 2,048 from the first megabyte; null: it has no trainer
load_s                   GPT-2's vocabulary, from a file

The one argument is a folder with corpus.txt and GPT-2's vocab.json, merges.txt and tokenizer.json.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MEGABYTE = 1_000_000


def run(load: Callable[[Path], Any], encode: Callable[[Any, str], Any], train: Callable[[str, int], Any] | None) -> None:
    folder = Path(sys.argv[1])
    text = (folder / "corpus.txt").read_bytes().decode()
    loaded, load_s = timed(lambda: load(folder))
    ids, first_s = timed(lambda: encode(loaded, text))
    _, again_s = timed(lambda: encode(loaded, text))
    train_s = timed(lambda: train(text[:MEGABYTE], 2048))[1] if train else None
    ids, size = np.asarray(ids, "<u4"), len(text.encode()) / MEGABYTE
    figures = {"encode_mb_s": size / first_s, "again_mb_s": size / again_s, "train_s": train_s, "load_s": load_s}
    print(json.dumps(figures | {"ids": f"{len(ids)} {hashlib.sha256(ids.tobytes()).hexdigest()[:16]}"}))


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    return call(), time.perf_counter() - began
