"""Our side of `bench generate`.

usage: python -m pullback.experiments.bench.ours_generate FOLDER
"""

from pathlib import Path
from typing import Any

import numpy as np

from ... import nn
from ...models import gpt2_weights
from ...models.decoding import Decoder
from ...models.sampling import Sampling
from ..rates import read_rate
from .rivals.writing import run


def load(folder: Path) -> Decoder:
    return Decoder(gpt2_weights.load(folder), Sampling(temperature=0))


def write(decoder: Decoder, prompts: np.ndarray, tokens: int) -> np.ndarray:
    return np.stack([text.ids for text in decoder.write(list(prompts), tokens)])


def bound(decoder: Decoder, decode_s: float) -> dict[str, Any]:
    """The share of a token's time that reading the weights once takes, at the best rate of a plain matrix-vector product."""
    rate = read_rate(decoder.model.reading)
    read = sum(x.nbytes for name, x in nn.named_parameters(decoder.model).items() if name != "wpe.weight")
    return {"matvec_gb_s": rate / 1e9, "bandwidth_fraction": read / rate / decode_s}


if __name__ == "__main__":
    run(load, write, bound)
