"""A model with its tokeniser from wherever it lies: the folder of a run, one as Hugging Face keeps it, or hf:NAME."""

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from ..lib import bpe_files
from ..lib.bpe import BPE, END
from ..lib.errors import ConfigError
from ..lib.reading import read_json
from ..lib.tokenisers import Tokeniser
from ..models import gpt2_weights
from ..models.gpt2 import GPT2
from .machine import demand_memory
from .run import load_run

HUB = "hf:"
FILES = ["config.json", "*.safetensors", "*.safetensors.index.json", "vocab.json", "merges.txt", "tokenizer.json"]


class Pretrained(NamedTuple):
    """precision: the policy that the model was trained under."""

    model: GPT2
    tokeniser: Tokeniser
    precision: str


def load(place: str) -> Pretrained:
    """Raises ConfigError, one line that names the file, where something is missing, damaged, or does not fit the rest."""
    if not place:
        raise ConfigError("the name of the model is empty; expected a run, a folder with config.json and weights, or hf:NAME")
    folder = downloaded(place.removeprefix(HUB)) if place.startswith(HUB) else Path(place)
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"{folder} is no model: there is no config.json in it; `pullback train` makes a run and prints its path, and GPT-2's weights "
            "have one too"
        )
    record = read_json(folder / "config.json")
    if isinstance(record, dict) and "preset" in record:
        config, model, words = load_run(folder)
        return Pretrained(model, words, config.precision)
    config = gpt2_weights.read_config(folder)
    demand_memory(4 * (12 * config.layers * config.width**2 + config.vocab * config.width), f"the model of {folder}")
    words = vocabulary_of(folder, config.vocab)
    return Pretrained(gpt2_weights.load(folder), words, "float32")


def vocabulary_of(folder: Path, size: int) -> BPE:
    """The vocabulary beside the weights; that of GPT-2 where there is none and the model has room for it."""
    try:
        there = any((folder / name).is_file() for name in ("tokenizer.json", "vocab.json"))
        words = bpe_files.load(folder) if there or size < BPE.gpt2().vocabulary else BPE.gpt2()
    except ConfigError as error:
        raise ConfigError(f"cannot load {folder}: {error}") from None
    if words.vocabulary > size:
        raise ConfigError(f"the vocabulary of {folder} has {words.vocabulary:,} tokens and the model {size:,}")
    return words


def end_of_text(words: Tokeniser) -> Collection[int]:
    """The token that begins and ends texts, if there is one."""
    return [words.specials[END]] if isinstance(words, BPE) and END in words.specials else []


def downloaded(name: str) -> Path:
    """The folder of a model of the Hugging Face hub, fetched unless it is there; what is there needs no network."""
    try:
        from huggingface_hub import snapshot_download  # pyright: ignore[reportMissingImports]
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ConfigError(f"{HUB}{name} needs huggingface_hub: pip install 'pullback[hub]'") from None
    try:
        return Path(snapshot_download(name, allow_patterns=FILES))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise ConfigError(f"cannot fetch {HUB}{name}: {str(error).strip().splitlines()[0][:200]}") from None
