"""Training that begins with weights that are there, of all parameters or of some."""

import json
import shutil
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import nn
from pullback.experiments.cli import main
from pullback.experiments.config import check
from pullback.experiments.loop import prepare, train
from pullback.experiments.presets import preset
from pullback.experiments.pretrained import load
from pullback.experiments.progress import Silent
from pullback.experiments.resume import resume
from pullback.experiments.run import load_run
from pullback.lib import bpe_files, bpe_train
from pullback.lib.errors import ConfigError, UnknownName
from pullback.models import gpt2_weights
from pullback.models.gpt2 import GPT2, GPT2Config


@pytest.fixture(scope="module")
def folder(corpus, tmp_path_factory):
    words = bpe_train.train(corpus.read_text(), 300)
    folder = tmp_path_factory.mktemp("weights")
    gpt2_weights.save(GPT2.init(jax.random.key(1), GPT2Config(vocab=words.vocabulary, context=32, layers=2, heads=2, width=16)), folder)
    bpe_files.save(words, folder)
    return folder


@pytest.fixture
def config(tiny, folder):
    """The settings of `tiny` on other weights, with the model of a preset that asks for nothing."""
    return replace(tiny, preset="gpt2-124m", model=preset("gpt2-124m").model, context=16, steps=40, init=str(folder), tokeniser="gpt2")


def test_all_parameters(config, folder, tmp_path):
    result = train(config, tmp_path / "run")
    began, ended = (nn.named_parameters(model) for model in (gpt2_weights.load(folder), load_run(tmp_path / "run").model))
    assert all((began[name] != ended[name]).any() for name in began)
    assert result.config.model == GPT2Config(vocab=300, context=32, layers=2, heads=2, width=16)
    first = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    assert first["val_loss"] is None or first["val_loss"] > result.val_loss
    assert first["loss"] == pytest.approx(np.log(300), abs=0.3) and result.val_loss < 0.7 * first["loss"]
    assert load_run(tmp_path / "run").tokeniser.to_json() == load(str(folder)).tokeniser.to_json()


def test_some_parameters(config, folder, tmp_path):
    """The others are what they were, to the bit, and no gradient of theirs is in the program."""
    some = replace(config, trainable="blocks.1.*, ln.*")
    result = train(some, tmp_path / "run")
    began, ended = (nn.named_parameters(model) for model in (gpt2_weights.load(folder), load_run(tmp_path / "run").model))
    for name in began:
        assert (began[name] == ended[name]).all() != name.startswith(("blocks.1.", "ln.")), name
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert result.val_loss < rows[0]["loss"]

    every, part = prepare(config, Silent()), prepare(some, Silent())
    kept = lambda job: job.step.plan(job.state, 0, *job.stream.at(0)).ledger
    assert not [label for label in kept(part) if label.startswith(("blocks.0", "wte", "wpe"))]
    assert [label for label in kept(every) if label.startswith("blocks.0")]


def test_a_run_goes_on_from_a_run(config, folder, tmp_path):
    train(replace(config, steps=3), tmp_path / "first")
    job = prepare(replace(config, init=str(tmp_path / "first")), Silent())
    for name, x in nn.named_parameters(load_run(tmp_path / "first").model).items():
        np.testing.assert_array_equal(x, job.state.params[name])


def test_what_is_free_beside_the_weights_is_the_configs(config):
    job = prepare(replace(config, model=replace(config.model, dropout=0.1, checkpoint=True)), Silent())
    assert (job.config.model.dropout, job.config.model.checkpoint, job.config.model.layers) == (0.1, True, 2)


def test_the_tokeniser_that_came_is_the_one_that_is_recorded_and_resumed(config, tmp_path):
    result = train(replace(config, steps=2), tmp_path / "run")
    written = load_run(result.folder)
    assert written.config.tokeniser == written.tokeniser.kind == "bpe"
    assert resume(result.folder, steps=3).steps == 3


def test_a_window_that_only_the_weights_have_room_for(config, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "long")
    gpt2_weights.save(GPT2.init(jax.random.key(1), GPT2Config(vocab=300, context=96, layers=1, heads=2, width=16)), tmp_path / "long")
    asked = replace(config, preset="quick", model=preset("quick").model, tokeniser="bpe", context=80, init=str(tmp_path / "long"))
    assert prepare(check(asked), Silent()).config.window == 80
    with pytest.raises(ConfigError, match="context is 80; it must be at most model.context, which is 64"):
        check(replace(asked, init=None))


def test_the_window_of_a_preset_is_cut_to_what_the_weights_have_room_for(config):
    job = prepare(replace(config, context=preset("gpt2-124m").context), Silent())
    assert (preset("gpt2-124m").context, job.config.context) == (64, 32)


@pytest.mark.parametrize(
    "change, error, says",
    [
        (dict(model=GPT2Config(layers=3)), ConfigError, "model.layers is 3; the weights of .* have 2"),
        (dict(context=33), ConfigError, "context is 33; it must be at most model.context, which is 32"),
        (dict(tokeniser="characters"), ConfigError, "tokeniser is characters; the weights of .* have bpe"),
        (dict(trainable="block.*"), UnknownName, r"trainable: no parameter matches 'block\.\*'; did you mean"),
        (dict(trainable=""), UnknownName, "trainable: no parameter matches ''"),
        (dict(init="nowhere"), ConfigError, "nowhere is no model"),
        (dict(init=""), ConfigError, "the name of the model is empty"),
    ],
)
def test_what_does_not_fit(config, change, error, says):
    with pytest.raises(error, match=says):
        prepare(replace(config, **change), Silent())


def test_by_command(folder, corpus, tmp_path, capsys):
    argv = ["train", "gpt2-124m", "--init", str(folder), "--data", str(corpus), "--steps", "2", "--context", "8", "--sample-tokens", "3"]
    assert main([*argv, "--trainable", "blocks.[01].mlp.*", "--out", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out.endswith(f"{tmp_path / 'run'}\n")
    assert main(["generate", str(tmp_path / "run"), "--prompt", "the", "--tokens", "3"]) == 0
    assert capsys.readouterr().out.startswith("the")


def test_the_hub_from_its_cache(folder, tmp_path, monkeypatch):
    """No network: a cache as huggingface_hub keeps it."""
    constants = pytest.importorskip("huggingface_hub.constants", reason="huggingface_hub is not installed: hf: names are not tried")
    snapshot = tmp_path / "hub" / "models--someone--small" / "snapshots" / "0123456789abcdef"
    snapshot.mkdir(parents=True)
    for path in folder.iterdir():
        (snapshot / path.name).write_bytes(path.read_bytes())
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0123456789abcdef")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    came = load("hf:someone/small")
    assert jnp.array_equal(came.model.wte.weight, gpt2_weights.load(folder).wte.weight) and came.tokeniser.vocabulary == 300
    with pytest.raises(ConfigError, match="cannot fetch hf:someone/else"):
        load("hf:someone/else")
    with pytest.raises(ConfigError, match="cannot fetch hf:../x"):
        load("hf:../x")


def test_the_hub_where_it_is_not_installed(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match=r"hf:gpt2 needs huggingface_hub: pip install 'pullback\[hub\]'"):
        load("hf:gpt2")
