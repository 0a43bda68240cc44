"""Weights in Hugging Face's form: every parameter to its place, whatever the file looks like, and nothing taken that does not fit.

That transformers computes the same from them is a matter of tests/parity.
"""

import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from pullback import nn
from pullback.lib.errors import ConfigError
from pullback.models import gpt2_weights
from pullback.models.gpt2 import GPT2, GPT2Config

SQUARE = GPT2Config(vocab=11, context=5, layers=2, heads=2, width=6)


def drawn(config: GPT2Config) -> GPT2:
    """Every number another one, biases too: a matrix that is turned the wrong way shows, a square one as well."""
    model, rng = GPT2.init(jax.random.key(0), config), np.random.default_rng(1)
    return nn.with_parameters(model, {n: jnp.asarray(rng.normal(size=x.shape), x.dtype) for n, x in nn.named_parameters(model).items()})


def same(a: GPT2, b: GPT2) -> bool:
    left, right = nn.named_parameters(a), nn.named_parameters(b)
    return left.keys() == right.keys() and all((left[name] == right[name]).all() for name in left)


@pytest.fixture
def model():
    return drawn(SQUARE)


@pytest.fixture
def folder(model, tmp_path):
    gpt2_weights.save(model, tmp_path)
    return tmp_path


def weights(folder) -> dict[str, np.ndarray]:
    return safetensors.numpy.load_file(folder / "model.safetensors")


def rewrite(folder, arrays) -> None:
    safetensors.numpy.save_file(
        {name: np.ascontiguousarray(x) for name, x in arrays.items()}, folder / "model.safetensors", {"format": "pt"}
    )


def configure(folder, **fields) -> None:
    record = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**record, **fields}))


CONFIGS = {
    "square": SQUARE,
    "odd": GPT2Config(vocab=7, context=3, layers=1, heads=1, width=5, eps=1e-3),
    "a head of its own": GPT2Config(vocab=7, context=3, layers=1, heads=3, width=9, tied=False),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_round_trip(config, tmp_path):
    model = drawn(config)
    gpt2_weights.save(model, tmp_path)
    came = gpt2_weights.load(tmp_path)
    assert same(came, model) and came.config == config


def test_projections_are_in_by_out_there(model, folder):
    """x·W there is x·Wᵀ here; the third of c_attn that makes the keys is the third of ours that does."""
    there, ours = weights(folder), nn.named_parameters(model)
    for layer, name in (("attn.qkv", "attn.c_attn"), ("attn.proj", "attn.c_proj"), ("mlp.fc", "mlp.c_fc"), ("mlp.proj", "mlp.c_proj")):
        np.testing.assert_array_equal(there[f"transformer.h.1.{name}.weight"], ours[f"blocks.1.{layer}.weight"].T)
    x = np.random.default_rng(0).normal(size=(1, 3, 6)).astype(np.float32)
    c = x @ there["transformer.h.0.attn.c_attn.weight"] + there["transformer.h.0.attn.c_attn.bias"]
    for part, mine in zip(np.split(c, 3, -1), model.blocks[0].attn.heads_of(jnp.asarray(x))):
        np.testing.assert_allclose(part.reshape(1, 3, 2, 3), mine, rtol=1e-5, atol=1e-6)


def test_without_the_prefix_and_with_old_buffers(model, folder):
    there = {name.removeprefix("transformer."): x for name, x in weights(folder).items()}
    buffers = {f"h.{i}.attn.bias": np.ones((1, 1, 5, 5), np.float32) for i in range(2)}
    buffers |= {f"h.{i}.attn.masked_bias": np.float32(-1e4).reshape(()) for i in range(2)}
    rewrite(folder, {**there, **buffers})
    assert same(gpt2_weights.load(folder), model)


def test_a_tied_head_that_is_stored_all_the_same(model, folder):
    there = weights(folder)
    rewrite(folder, {**there, "lm_head.weight": there["transformer.wte.weight"].copy()})
    assert same(gpt2_weights.load(folder), model)
    rewrite(folder, {**there, "lm_head.weight": there["transformer.wte.weight"] + 1})
    with pytest.raises(ConfigError, match="lm_head.weight is not the embedding.*tie_word_embeddings"):
        gpt2_weights.load(folder)
    configure(folder, tie_word_embeddings=False)
    np.testing.assert_array_equal(gpt2_weights.load(folder).reading, model.wte.weight + 1)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_files_are_widened(model, folder, dtype):
    rewrite(folder, {name: x.astype(dtype) for name, x in weights(folder).items()})
    for name, x in nn.named_parameters(gpt2_weights.load(folder)).items():
        assert x.dtype == jnp.float32 and (x == nn.named_parameters(model)[name].astype(dtype)).all()


def sharded(folder, parts: int = 3) -> dict[str, str]:
    there = weights(folder)
    where = {name: f"model-0000{i % parts + 1}-of-0000{parts}.safetensors" for i, name in enumerate(there)}
    for file in set(where.values()):
        safetensors.numpy.save_file({name: there[name] for name in there if where[name] == file}, folder / file)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": where}))
    return where


def test_shards(model, folder):
    sharded(folder)
    assert same(gpt2_weights.load(folder), model)


def test_a_shard_that_is_not_there(folder):
    sharded(folder)
    (folder / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(ConfigError, match="cannot read model-00002-of-00003.safetensors: No such file"):
        gpt2_weights.load(folder)


@pytest.mark.parametrize(
    "file", ["../model.safetensors", "/etc/passwd", "a/b.safetensors", "model.bin", "", "\ud800.safetensors", "\x00.safetensors"]
)
def test_an_index_that_leads_out_of_the_folder(folder, file):
    where = sharded(folder)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {**where, "x": file}}))
    with pytest.raises(ConfigError, match="expected a .safetensors file of the same folder"):
        gpt2_weights.load(folder)


@pytest.mark.parametrize("index", [[], {}, {"weight_map": {}}, {"weight_map": {"a": 3}}, {"weight_map": None}])
def test_an_index_that_is_none(folder, index):
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ConfigError, match="has no weight_map"):
        gpt2_weights.load(folder)


def test_a_padded_vocabulary(folder):
    there = weights(folder)
    rewrite(folder, {**there, "transformer.wte.weight": np.concatenate([there["transformer.wte.weight"], np.zeros((53, 6), np.float32)])})
    configure(folder, vocab_size=64)
    assert gpt2_weights.load(folder).config.vocab == 64


def test_all_that_does_not_fit_is_said_together(folder):
    there = weights(folder)
    del there["transformer.ln_f.bias"], there["transformer.h.0.mlp.c_fc.bias"]
    there["transformer.h.1.attn.c_proj.weight"] = np.zeros((6, 7), np.float32)
    rewrite(folder, {**there, "transformer.h.9.ln_1.weight": np.zeros(6, np.float32), "score.weight": np.zeros(3, np.int32)})
    with pytest.raises(ConfigError) as caught:
        gpt2_weights.load(folder)
    for part in (
        "'h.0.mlp.c_fc.bias'",
        "'ln_f.bias'",
        "'h.9.ln_1.weight'",
        "'score.weight'",
        "h.1.attn.c_proj.weight is F32 of shape (6, 7)",
    ):
        assert part in str(caught.value)


def test_one_tensor_under_both_names(folder):
    there = weights(folder)
    rewrite(folder, {**there, "ln_f.bias": there["transformer.ln_f.bias"].copy()})
    with pytest.raises(ConfigError, match="both '(transformer.)?ln_f.bias' and '(transformer.)?ln_f.bias'"):
        gpt2_weights.load(folder)


FIELDS = [
    (dict(activation_function="relu"), "activation_function is relu; supported: 'gelu_new' or 'gelu_pytorch_tanh'"),
    (dict(model_type="llama"), "model_type is llama"),
    (dict(scale_attn_weights=False), "scale_attn_weights is False"),
    (dict(scale_attn_weights=1), "scale_attn_weights is 1"),
    (dict(scale_attn_by_inverse_layer_idx=True), "scale_attn_by_inverse_layer_idx is True"),
    (dict(add_cross_attention=True), "add_cross_attention is True"),
    (dict(n_inner=7), "n_inner is 7; supported: None or 24"),
    (dict(n_ctx=9), "n_ctx is 9; supported: 5"),
    (dict(quantization_config={"bits": 4}), "quantization_config is"),
    (dict(rope_theta=1e4), "the field 'rope_theta' is not supported"),
    (dict(n_layer="2"), "n_layer is 2; expected int"),
    (dict(n_layer=True), "n_layer is True; expected int"),
    (dict(n_layer=-1), "layers is -1"),
    (dict(n_layer=10**9), "too few for 1000000000 layers"),
    (dict(n_head=4), "4 heads do not divide the width 6"),
    (dict(vocab_size=None), "vocab_size is None; expected int"),
    (dict(n_layer=1), "has an unknown tensor 'h.1"),
    (dict(n_layer=3), "holds 28 tensors, too few for 3 layers"),
    (dict(n_layer=10**4000), "GPT-2: layers is 10*; expected from 1 to 2147483647"),
    (dict(vocab_size=10**4000), "GPT-2: vocab is 10*; expected from 1 to 2147483647"),
    (dict(n_embd=8 * 10**4299, n_inner=3), "GPT-2: width is 80*; expected from 1"),
    (dict(layer_norm_epsilon="small"), "layer_norm_epsilon is small; expected float"),
    (dict(layer_norm_epsilon=10**400), "GPT-2: eps is 10*; expected a float32, 0 or more"),
    (dict(layer_norm_epsilon=1e39), r"GPT-2: eps is 1e\+39; expected a float32"),
    (dict(layer_norm_epsilon=-1), "GPT-2: eps is -1; expected a float32"),
]


@pytest.mark.parametrize("fields, says", FIELDS, ids=[next(iter(f)) + str(i) for i, (f, _) in enumerate(FIELDS)])
def test_a_config_that_asks_for_what_is_not_there(folder, fields, says):
    configure(folder, **fields)
    with pytest.raises(ConfigError, match=says):
        gpt2_weights.load(folder)


def test_fields_that_do_not_count(folder, model):
    configure(
        folder, n_ctx=5, n_inner=24, attn_pdrop=0.3, torch_dtype="float16", task_specific_params={"x": 1}, eos_token_id=3, _name_or_path="x"
    )
    configure(folder, activation_function="gelu_pytorch_tanh", summary_type="cls_index", use_cache=True, transformers_version="4.0")
    assert same(gpt2_weights.load(folder), model)


def test_no_biases_are_biases_of_0(tmp_path):
    model = drawn(GPT2Config(vocab=11, context=5, layers=2, heads=2, width=6, bias=False))
    gpt2_weights.save(model, tmp_path)
    came, ids = gpt2_weights.load(tmp_path), jnp.arange(5)[None]
    assert came.config.bias and len(nn.named_parameters(came)) == 2 + 12 * 2 + 2
    np.testing.assert_allclose(came(ids), model(ids), rtol=1e-5, atol=1e-5)


def test_a_pickle_is_refused_with_advice(folder):
    os.rename(folder / "model.safetensors", folder / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="has pytorch_model.bin and no model.safetensors: a pickle runs code.*save_pretrained"):
        gpt2_weights.load(folder)


def test_folders_that_are_none(folder, tmp_path_factory):
    with pytest.raises(ConfigError, match="has no config.json"):
        gpt2_weights.load(tmp_path_factory.mktemp("empty"))
    (folder / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match="has no weights: neither model.safetensors nor"):
        gpt2_weights.load(folder)


LOAD = """
import sys, jax, jax.numpy as jnp
from pullback.lib import arena
from pullback.models import gpt2_weights
gpt2_weights.load(sys.argv[1])  # a small one, so that all is imported and made
before = arena.resident()
model = gpt2_weights.load(sys.argv[2])
peak = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmHWM"))
print((peak - before) / sum(x.nbytes for x in jax.tree.leaves(model)))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the system does not say how much memory a process has held")
def test_loading_takes_little_more_memory_than_the_weights(folder, tmp_path_factory):
    """Sixty megabytes in a process of its own; the largest array is a third of them."""
    large = tmp_path_factory.mktemp("large")
    gpt2_weights.save(GPT2.init(jax.random.key(0), GPT2Config(vocab=10_000, context=64, layers=4, heads=8, width=512)), large)
    done = subprocess.run([sys.executable, "-c", LOAD, str(folder), str(large)], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1.3
