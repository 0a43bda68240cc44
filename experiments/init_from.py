"""`train --init-from`: the weights of another model as far as they fit, and a list of what was not taken.

They may be those of a run (its last ones, or those of its newest checkpoint while there are none), of one checkpoint, of a folder
with GPT-2's weights, or of a safetensors file. A tensor fits where its name and its shape are those of a parameter.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jax import Array

from ..lib import tensors, tokenisers
from ..lib.errors import ConfigError
from ..lib.reading import read_json
from ..models import gpt2_weights
from . import checkpoint
from .config import RunConfig
from .grouping import grouped
from .pretrained import HUB, downloaded, vocabulary_of
from .progress import Progress

PARAMS = "params/"  # their names in a checkpoint
HUGGING_FACE = re.compile(r"h\.\d+\.|ln_f\.|lm_head\.")  # names that only theirs have
SETTINGS = {"heads": "n_head", "eps": "layer_norm_epsilon"}  # that no shape tells and weights depend on; as a folder of theirs has them
MOST, LONGEST = 40, 100  # entries of a list, characters of a name; a stranger's file may have any number
EXPECTED = "expected a run, a checkpoint, a folder with GPT-2's weights, hf:NAME or a safetensors file"


class Source(NamedTuple):
    """Files with weights. tokeniser: the digest of the one that they were trained with; settings: of the model; as far as known."""

    files: list[Path]
    tokeniser: str | None
    settings: Mapping[str, Any]


class Stored(NamedTuple):
    """A tensor: its name in the files, the parameter that has it, if any has its name, and whether rows and columns are exchanged."""

    name: str
    parameter: str | None
    turned: bool


class Taken(NamedTuple):
    """params: those that were filled, in float32. record: what provenance.json says of it."""

    params: dict[str, Array]
    record: dict[str, Any]


def take(config: RunConfig, shapes: Mapping[str, Any], tokeniser: str, show: Progress) -> Taken:
    """What `config.init_from` has of the parameters with these shapes. tokeniser: digest of the one that the run has.

    `show` is told what was not taken. ConfigError where nothing can be read, or nothing fits.
    """
    place = config.init_from or ""
    source = source_of(place, show)
    file = tensors.Tensors(*source.files)
    there = stored(file.kinds, shapes)
    reasons = {name: reason for name, one in there.items() if (reason := misfit(one, file.kinds[one.name], shapes))}
    fitting = {one.parameter: one for name, one in there.items() if one.parameter and name not in reasons}
    if not fitting:
        has, wants = (short(", ".join(grouped(dict.fromkeys(names, ""), names))) for names in (there, shapes))
        raise ConfigError(f"nothing of {place} has the name and the shape of a parameter: it has {has or 'no tensor'}, the model {wants}")
    params = {name: gpt2_weights.read(file[one.name], one.turned) for name, one in fitting.items()}
    left = {name: "" for name in shapes if name not in fitting}
    record = {
        "source": place,
        "sha256": {path.name: checkpoint.digest(path) for path in source.files},
        "taken": len(fitting),
        "not_taken": bounded(grouped(reasons, there)),
        "not_filled": list(bounded(grouped(left, shapes))),
        "warnings": warnings(source, config, tokeniser),
    }
    tell(record, len(shapes), show)
    return Taken(params, record)


def source_of(place: str, show: Progress) -> Source:
    if not place:
        raise ConfigError(f"the name of what to begin from is empty; {EXPECTED}")
    path = downloaded(place.removeprefix(HUB)) if place.startswith(HUB) else Path(place)
    if path.is_file():
        return Source([path], None, {})
    if (path / checkpoint.MANIFEST).is_file():
        return of_checkpoint(checkpoint.read(path))
    if not (path / "config.json").is_file():
        raise ConfigError(f"there is nothing to begin from at {place}; {EXPECTED}")
    record = read_json(path / "config.json")
    record = record if isinstance(record, dict) else {}
    if "preset" not in record:
        return Source(gpt2_weights.files_of(path), digest_beside(path, record), {ours: record.get(name) for ours, name in SETTINGS.items()})
    weights, words = path / "model.safetensors", path / "tokeniser.json"
    if not weights.is_file():
        return of_checkpoint(checkpoint.newest(path, show.note))
    digest = tokenisers.digest(tokenisers.from_json(read_json(words))) if words.is_file() else None
    return Source([weights], digest, settings_of(record))


def of_checkpoint(found: checkpoint.Checkpoint) -> Source:
    return Source([found.path / checkpoint.STATE], found.origin.tokeniser, settings_of(found.origin.config))


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    model = config.get("model")
    return {name: model.get(name) for name in SETTINGS} if isinstance(model, dict) else {}


def digest_beside(folder: Path, record: Mapping[str, Any]) -> str | None:
    """Of the vocabulary beside weights of Hugging Face's form."""
    size = record.get("vocab_size")
    try:
        return tokenisers.digest(vocabulary_of(folder, size)) if type(size) is int else None
    except ConfigError:
        return None


def stored(kinds: Mapping[str, Any], shapes: Mapping[str, Any]) -> dict[str, Stored]:
    """The weights of a file by the names that an error or a list calls them. Of a checkpoint they are the parameters."""
    state = any(name.startswith(PARAMS) for name in kinds)
    plain = {name.removeprefix(PARAMS): name for name in kinds if name.startswith(PARAMS)} if state else gpt2_weights.plain_names(kinds)
    if not any(HUGGING_FACE.match(name) for name in plain):
        return {name: Stored(there, name if name in shapes else None, False) for name, there in plain.items()}
    ours = {gpt2_weights.theirs(name): name for name in shapes}
    return {name: Stored(there, of := ours.get(name), bool(of) and gpt2_weights.is_turned(of)) for name, there in plain.items()}


def misfit(one: Stored, kind: tensors.Kind, shapes: Mapping[str, Any]) -> str | None:
    """Why a tensor is not taken."""
    if one.parameter is None:
        return "no parameter has this name"
    shape = kind.shape[::-1] if one.turned else kind.shape
    if shape != shapes[one.parameter].shape:
        return f"its shape is {shape}, the parameter's {shapes[one.parameter].shape}"
    return None if kind.dtype in tensors.FLOATS else f"it is {kind.dtype}, expected {' or '.join(tensors.FLOATS)}"


def warnings(source: Source, config: RunConfig, tokeniser: str) -> list[str]:
    """What fits by its shape and may mean something else."""
    found = []
    if source.tokeniser is None:
        found.append("which tokeniser these weights had is not known: the rows of wte may belong to other tokens")
    elif source.tokeniser != tokeniser:
        found.append("these weights had another tokeniser: the rows of wte belong to other tokens")
    for name, there in source.settings.items():
        here = getattr(config.model, name)
        if type(there) in (int, float) and abs(there) < 2**53 and there != here:
            found.append(f"model.{name} is {here}; these weights had {there}")
    return found


def bounded(reasons: dict[str, str]) -> dict[str, str]:
    """The first entries by name, and how many more there were."""
    first = {short(name): reason for name, reason in sorted(reasons.items())[:MOST]}
    return first | ({f"and {len(reasons) - MOST:,} more": ""} if len(reasons) > MOST else {})


def short(name: str) -> str:
    """A stranger's name on one line."""
    name = name if name.isprintable() else repr(name)[1:-1]
    return name if len(name) <= LONGEST else name[: LONGEST - 3] + "..."


def tell(record: Mapping[str, Any], parameters: int, show: Progress) -> None:
    show.note(f"{record['taken']} of {parameters} parameters begin as in {record['source']}")
    for name, reason in record["not_taken"].items():
        show.note(f"  not taken: {name}" + (f" ({reason})" if reason else ""))
    if record["not_filled"]:
        show.note(f"  as initialised: {', '.join(record['not_filled'])}")
    for text in record["warnings"]:
        show.note(f"WARNING: {text}")
