"""A really trained GPT-2 of three layers, with PyTorch's activations: it sorts six digits. (`PULLBACK_DATA`)"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import nn, ops
from pullback.models import gpt2_weights
from pullback.models.decoding import Decoder
from pullback.models.gpt2 import GPT2, GPT2Config
from pullback.models.sampling import Sampling


@pytest.fixture(scope="module")
def ref(data_folder):
    path = data_folder / "nano_sort_gpt.npz"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return dict(np.load(path))


@pytest.fixture(scope="module")
def model(ref):
    """Its projections are (out, in), as ours are."""
    config = GPT2Config(vocab=3, context=11, layers=3, heads=3, width=48, tied=False)
    template = jax.eval_shape(lambda key: GPT2.init(key, config), jax.random.key(0))
    there = lambda name: ref[name if name == "lm_head.weight" else f"transformer.{name}"]
    return nn.with_parameters(template, {name: jnp.asarray(there(gpt2_weights.theirs(name))) for name in nn.named_parameters(template)})


def test_every_activation(ref, model):
    ids, block = jnp.asarray(ref["ref.idx"]), model.blocks[0]
    came = {"tok_emb": model.wte(ids), "pos_emb": model.wpe.rows(11)[None]}
    came["x"] = came["tok_emb"] + came["pos_emb"]
    came["ln1"] = block.ln1(came["x"])
    came["qkv"] = block.attn.qkv(came["ln1"])
    q, k, v = block.attn.heads_of(came["ln1"])
    came |= {name: jnp.swapaxes(x, 1, 2) for name, x in (("q", q), ("k", k), ("v", v))}
    came["y"] = ops.attention(q, k, v, causal=True).reshape(3, 11, 48)
    came["yProj"] = block.attn.proj(came["y"])
    came["attnResid"] = came["x"] + block.attn(came["ln1"])
    came["ln2"] = block.ln2(came["attnResid"])
    came["fc"] = block.mlp.fc(came["ln2"])
    came["gelu"] = ops.gelu(came["fc"])
    came["mlp"] = block.mlp(came["ln2"])
    came["mlpResid"] = came["attnResid"] + came["mlp"]
    h = came["x"]
    for i, one in enumerate(model.blocks):
        came[f"block{i}"] = h = one(h)
    came["ln_f"] = model.features(ids)
    came["lm_head"] = model(ids)
    came["probs"] = ops.softmax(came["lm_head"])
    for name, x in came.items():
        np.testing.assert_allclose(x, ref[f"ref.{name}"], rtol=1e-5, atol=1e-5, err_msg=name)
    assert {f"ref.{name}" for name in came} == {name for name in ref if name.startswith("ref.")} - {"ref.idx", "ref.att", "ref.attSm"}


def test_it_sorts(model):
    """All 729 inputs at once, from the cache."""
    inputs = np.array(list(itertools.product(range(3), repeat=6)), np.int32)
    texts = Decoder(model, Sampling(temperature=0)).write(list(inputs), 6)
    np.testing.assert_array_equal([text.ids for text in texts], np.sort(inputs, 1))
