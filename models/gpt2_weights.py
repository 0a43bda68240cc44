"""GPT-2's weights as Hugging Face keeps them: a folder with config.json and model.safetensors, the latter maybe in parts.

There a projection is (in, out) and computes x·W; here it is (out, in) and computes x·Wᵀ. So every projection is turned on its way
in and out, a square one too, and nothing else is.
"""

import math
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..lib import tensors
from ..lib.atomic import write_json
from ..lib.errors import ConfigError
from ..lib.reading import read_json
from ..nn import named_parameters, with_parameters
from .gpt2 import GPT2, GPT2Config

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")

FIELDS = {  # theirs: ours
    "vocab_size": "vocab",
    "n_positions": "context",
    "n_layer": "layers",
    "n_head": "heads",
    "n_embd": "width",
    "layer_norm_epsilon": "eps",
    "tie_word_embeddings": "tied",
}
EXPECTED = {  # what their model can do otherwise and ours cannot, and the values that mean what ours does
    "model_type": ("gpt2",),
    "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "add_cross_attention": (False,),
    "is_encoder_decoder": (False,),
    "pruned_heads": (None, {}),
    "quantization_config": (None,),
}
# These say how a model was trained, is stored, classifies or writes, not what it computes.
ASIDE = re.compile(
    r"architectures|(attn|resid|embd)_pdrop|initializer_range|(bos|eos|pad|sep|decoder_start)_token_id|summary_\w+|use_cache|_\w+"
    r"|(torch_)?dtype|transformers_version|task_specific_params|reorder_and_upcast_attn|gradient_checkpointing|output_\w+|return_dict\w*"
    r"|id2label|label2id|num_labels|problem_type|finetuning_task|is_decoder|chunk_size_feed_forward|prefix|tokenizer_class|torchscript"
    r"|use_bfloat16|cross_attention_hidden_size|tie_encoder_decoder|(min|max)_(new_)?(length|tokens)|do_sample|early_stopping"
    r"|(diversity|repetition|length)_penalty|num_beams|num_beam_groups|temperature|top_k|top_p|typical_p|\w*no_repeat_ngram_size"
    r"|bad_words_ids|num_return_sequences|forced_(bos|eos)_token_id|remove_invalid_values|exponential_decay_length_penalty"
    r"|suppress_tokens|begin_suppress_tokens|tf_legacy_loss"
)

TOP = {"wte.weight": "wte.weight", "wpe.weight": "wpe.weight", "ln.scale": "ln_f.weight", "ln.bias": "ln_f.bias"}
BLOCK = {
    "ln1.scale": "ln_1.weight",
    "ln1.bias": "ln_1.bias",
    "attn.qkv": "attn.c_attn",
    "attn.proj": "attn.c_proj",
    "ln2.scale": "ln_2.weight",
    "ln2.bias": "ln_2.bias",
    "mlp.fc": "mlp.c_fc",
    "mlp.proj": "mlp.c_proj",
}
HEAD = "lm_head.weight"
OLD_BUFFER = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)")  # the mask, which early versions stored


def load(folder: str | Path) -> GPT2:
    """The model of a folder, in float32, with dropout off. Raises ConfigError that names what does not fit."""
    folder = Path(folder)
    config = read_config(folder)
    file = tensors.Tensors(*files_of(folder))
    names = plain_names(file.kinds)
    config.demand_layers(len(names), str(folder))
    template = jax.eval_shape(lambda key: GPT2.init(key, config), jax.random.key(0))
    wanted = {name: like.shape for name, like in named_parameters(template).items()}
    if config.tied and HEAD in names:
        demand_tie(file, names, folder)
    stored = {theirs(name): tensors.Kind("F32", shape[::-1] if is_turned(name) else shape) for name, shape in wanted.items()}
    tensors.demand(stored, {name: file.kinds[there] for name, there in names.items()}, str(folder), tensors.FLOATS)
    largest_first = sorted(wanted, key=lambda name: -math.prod(wanted[name]))  # while it is read it is there three times
    with ThreadPoolExecutor(2) as workers:  # NumPy lets go of the interpreter while it copies
        arrays = workers.map(lambda name: read(file[names[theirs(name)]], is_turned(name)), largest_first)
        return with_parameters(template, dict(zip(largest_first, arrays)))


def read(there: np.ndarray, turned: bool) -> jax.Array:
    """One array in float32, turned if it is a projection. It is written to where it stays: on a CPU, JAX takes memory that begins at
    a multiple of 64 bytes as it is."""
    there = there.T if turned else there
    memory = np.empty(4 * there.size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    x = memory[start : start + 4 * there.size].view(np.float32).reshape(there.shape)
    x[...] = there
    return jax.device_put(x)


def read_config(folder: Path) -> GPT2Config:
    """config.json, field by field: an unknown field, or one that asks for what GPT-2 here does not do, is an error."""
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{folder} has no config.json; expected the folder of a GPT-2 with config.json and {WEIGHTS}")
    record = read_json(folder / "config.json")
    try:
        return config_of(record)
    except ConfigError as error:
        raise ConfigError(f"{folder / 'config.json'}: {error}") from None


def config_of(record: Any) -> GPT2Config:
    if not isinstance(record, dict):
        raise ConfigError(f"expected an object with the fields of a GPT-2; got {str(record)[:60]}")
    default = GPT2Config()
    given: dict[str, Any] = {ours: record.get(field, getattr(default, ours)) for field, ours in FIELDS.items()}
    for field, ours in FIELDS.items():
        kind = type(getattr(default, ours))
        if type(given[ours]) is not kind and not (kind is float and type(given[ours]) is int):
            raise ConfigError(f"{field} is {str(given[ours])[:60]}; expected {kind.__name__}")
    config = GPT2Config(**given)
    allowed = {**EXPECTED, "n_inner": (None, 4 * config.width), "n_ctx": (config.context,)}
    for field, came in record.items():
        if field in allowed and not any(came is value or type(came) is type(value) and came == value for value in allowed[field]):
            raise ConfigError(f"{field} is {str(came)[:60]}; supported: {' or '.join(map(repr, allowed[field]))}")
        if field not in FIELDS and field not in allowed and not ASIDE.fullmatch(field):
            raise ConfigError(f"the field {field[:60]!r} is not supported")
    return replace(config, eps=float(config.eps))


def files_of(folder: Path) -> list[Path]:
    """The safetensors files that hold the weights."""
    if (folder / INDEX).is_file():
        index = read_json(folder / INDEX)
        where = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(where, dict) or not where or not all(isinstance(part, str) for part in where.values()):
            raise ConfigError(f"{INDEX} has no weight_map from tensors to files")
        parts = sorted(set(where.values()))
        for part in parts:
            if Path(part).name != part or not part.endswith(".safetensors") or not part.isprintable():
                raise ConfigError(f"{INDEX} names the file {part[:60]!r}; expected a .safetensors file of the same folder")
        return [folder / part for part in parts]
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
    if pickles:
        raise ConfigError(
            f"{folder} has {pickles[0]} and no {WEIGHTS}: a pickle runs code as it is read, so it is not; load it where you trust it, "
            "with transformers' save_pretrained(folder, safe_serialization=True), and take that folder"
        )
    raise ConfigError(f"{folder} has no weights: neither {WEIGHTS} nor {INDEX}")


def plain_names(there: Mapping[str, Any]) -> dict[str, str]:
    """{name without `transformer.`: name in the file}, old buffers left out."""
    names: dict[str, str] = {}
    for name in there:
        plain = name.removeprefix("transformer.")
        if OLD_BUFFER.fullmatch(plain):
            continue
        if plain in names:
            raise ConfigError(f"the weights have both {names[plain]!r} and {name!r}")
        names[plain] = name
    return names


def demand_tie(file: tensors.Tensors, names: dict[str, str], folder: Path) -> None:
    """A head that is stored although it is tied has to be the embedding; then it is one tensor too many."""
    head, table = names.pop(HEAD), names.get("wte.weight")
    if table is None or file.kinds[head] != file.kinds[table] or not np.array_equal(file[head], file[table]):
        raise ConfigError(
            f"{folder}: {head} is not the embedding, and config.json says that they are tied; set tie_word_embeddings to false"
        )


def theirs(name: str) -> str:
    """The name that a parameter of ours has there, without `transformer.`."""
    if name == "head.weight":
        return HEAD
    if name in TOP:
        return TOP[name]
    _, i, rest = name.split(".", 2)
    layer, _, part = rest.rpartition(".")
    return f"h.{i}.{BLOCK.get(rest) or f'{BLOCK[layer]}.{part}'}"


def is_turned(name: str) -> bool:
    return name.endswith(("qkv.weight", "proj.weight", "fc.weight"))


def save(model: GPT2, folder: str | Path) -> None:
    """config.json and model.safetensors in a folder that is there, as `GPT2LMHeadModel.from_pretrained` reads them. Their GPT-2
    has every bias: those that ours lacks are written as 0."""
    folder, config = Path(folder), model.config
    record = {field: getattr(config, ours) for field, ours in FIELDS.items()}
    always = {field: values[0] for field, values in EXPECTED.items() if values[0] is not None}
    dropout = {"attn_pdrop": 0.0, "resid_pdrop": config.dropout, "embd_pdrop": config.dropout}
    arrays = {}
    for name, x in named_parameters(model).items():
        there = theirs(name)
        arrays[there if there == HEAD else f"transformer.{there}"] = np.asarray(x.T if is_turned(name) else x)
        if name.endswith((".weight", ".scale")) and not config.bias and there not in (HEAD, "wte.weight", "wpe.weight"):
            arrays[f"transformer.{there.removesuffix('weight')}bias"] = np.zeros(x.shape[0], np.float32)
    tensors.write(folder / WEIGHTS, arrays, "pt")
    write_json(folder / "config.json", {"architectures": ["GPT2LMHeadModel"], **always, **record, **dropout, "n_inner": None})
