"""Models that transformers made, and the folders that it wrote. `PULLBACK_PARITY=short` takes small ones alone; `WEIGHTS` names a
folder with weights of one's own, which then stand in for the random ones of full size.

What was compared is printed at the end as one line of JSON.
"""

# pyright: reportMissingImports=false

import importlib.util
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from pullback.models import gpt2_weights
from pullback.models.gpt2 import GPT2

MISSING = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
SHORT = os.environ.get("PULLBACK_PARITY") == "short"
FIGURES: dict[str, Any] = {}

ODD = {  # name: what differs from a GPT-2 of two layers, two heads and width 16
    "one head": dict(n_head=1),
    "an odd width": dict(n_embd=21, n_head=3),
    "a context of 8": dict(n_positions=8),
    "one layer": dict(n_layer=1, vocab_size=50304),
    "a head of its own": dict(tie_word_embeddings=False, layer_norm_epsilon=1e-3),
}


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents and MISSING:
            item.add_marker(pytest.mark.skip(reason=f"{' and '.join(MISSING)} not installed: nothing to compare with (make parity)"))


def pytest_unconfigure(config):
    if FIGURES and not hasattr(config, "workerinput"):
        print(json.dumps({name: FIGURES[name] for name in sorted(FIGURES)}))


class Figures:
    """What tests report, by name."""

    def largest(self, name: str, value: float) -> float:
        FIGURES[name] = max(FIGURES.get(name, 0.0), float(value))
        return float(value)

    def smallest(self, name: str, value: float) -> float:
        FIGURES[name] = min(FIGURES.get(name, float("inf")), float(value))
        return float(value)

    def count(self, name: str, value: int) -> None:
        FIGURES[name] = FIGURES.get(name, 0) + int(value)


@pytest.fixture(scope="session")
def figures() -> Figures:
    return Figures()


@pytest.fixture(scope="session")
def short() -> bool:
    return SHORT


class Pair(NamedTuple):
    """One model, theirs and ours, read from one folder."""

    name: str
    theirs: Any
    ours: GPT2
    folder: Path


def paired(name: str, theirs, folder: Path) -> Pair:
    """Their `generate` is not to end at a token of its own, nor to keep one away."""
    theirs.generation_config.eos_token_id = None
    return Pair(name, theirs.eval(), gpt2_weights.load(folder), folder)


def made(name: str, folder: Path, **config) -> Pair:
    """A random model of theirs, saved by them and read by us. Its biases are drawn too, and its matrices are large enough that
    attention is not uniform."""
    import torch
    import transformers

    settings: dict[str, Any] = dict(
        vocab_size=101, n_positions=280, n_layer=2, n_head=2, n_embd=16, attn_pdrop=0, resid_pdrop=0, embd_pdrop=0
    )
    torch.manual_seed(len(name))
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**{**settings, "bos_token_id": 0, "eos_token_id": 0, **config})).eval()
    with torch.no_grad():
        for key, x in model.named_parameters():
            x.add_(torch.randn(x.shape) * (0.1 if "ln" in key or "bias" in key else 0.05 if x.shape[-1] > 400 else 0.2))
    model.save_pretrained(folder)
    return paired(name, model, folder)


@pytest.fixture
def sharded(tmp_path) -> Pair:
    """A model in half the numbers and several files, as they write them."""
    import torch

    pair = made("sharded", tmp_path / "one")
    pair.theirs.to(torch.bfloat16).save_pretrained(tmp_path / "narrow", max_shard_size="8KB")
    return pair._replace(folder=tmp_path / "narrow")


@pytest.fixture(scope="session", params=list(ODD))
def odd(request, tmp_path_factory) -> Pair:
    return made(request.param, tmp_path_factory.mktemp("odd"), **ODD[request.param])


@pytest.fixture(scope="session")
def full(tmp_path_factory) -> Pair:
    """GPT-2 124M: random, or the user's own weights."""
    import transformers

    if SHORT:
        pytest.skip("the short form leaves the full size out")
    given = os.environ.get("WEIGHTS")
    if given:  # make parity WEIGHTS=DIR
        model: Any = transformers.GPT2LMHeadModel.from_pretrained(given)
        return paired(given, model, Path(given))
    size = dict(vocab_size=50257, n_positions=1024, n_layer=12, n_head=12, n_embd=768)
    return made("gpt2-124m, random", tmp_path_factory.mktemp("full"), **size)


@pytest.fixture(scope="session")
def trained(tmp_path_factory, corpus) -> Pair:
    """A small GPT-2 that transformers and torch trained on the bytes of a text: weights that mean something."""
    import torch
    import transformers

    text = np.frombuffer(corpus.encode(), np.uint8)
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=256, n_positions=320, n_layer=3, n_head=4, n_embd=64, attn_pdrop=0, resid_pdrop=0, embd_pdrop=0
    )
    model: Any = transformers.GPT2LMHeadModel(config)
    optimiser, rng = torch.optim.AdamW(model.parameters(), 1e-3), np.random.default_rng(0)
    for _ in range(150 if SHORT else 500):
        rows = torch.from_numpy(np.stack([text[i : i + 320] for i in rng.integers(0, len(text) - 320, 4)]).astype(np.int64))
        optimiser.zero_grad()
        loss = model(rows, labels=rows).loss
        loss.backward()
        optimiser.step()
    assert loss.item() < 3, "it learnt nothing"
    folder = tmp_path_factory.mktemp("trained")
    model.eval().save_pretrained(folder)
    return paired("trained", model, folder)


@pytest.fixture(scope="session")
def corpus() -> str:
    """Tiny Shakespeare where it is, else the documentation inside CPython."""
    from pullback.lib.corpora import read_corpus

    return read_corpus("tinyshakespeare" if os.environ.get("PULLBACK_DATA") else "python-docs").text
