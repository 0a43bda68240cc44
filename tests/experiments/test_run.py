import json
import os
import shutil
import time

import numpy as np
import pytest
import safetensors.numpy

from pullback import nn
from pullback.experiments.config import RunConfig
from pullback.experiments.metrics import Log, Metrics
from pullback.experiments.plot import plot_loss, smoothed
from pullback.experiments.progress import Silent
from pullback.experiments.run import begin, demand_free, load_run, make_folder, save_weights
from pullback.experiments.step import first_state
from pullback.lib.characters import Bytes
from pullback.lib.errors import ConfigError
from pullback.models.gpt2 import GPT2Config

CONFIG = RunConfig(model=GPT2Config(layers=2, heads=2, width=8, context=8, vocab=300, bias=True))


@pytest.fixture(scope="module")
def params():
    return first_state(CONFIG).params


@pytest.fixture(scope="module")
def whole(params, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    begin(folder, CONFIG, Bytes(), {"parameters": 1})
    save_weights(folder, params)
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    """A whole run to be damaged."""
    return shutil.copytree(whole, tmp_path / "run")


def test_round_trip(whole, params):
    config, model, words = load_run(whole)
    assert config == CONFIG and words == Bytes()
    loaded = nn.named_parameters(model)
    assert loaded.keys() == params.keys()
    for name, x in params.items():
        np.testing.assert_array_equal(loaded[name], x)
    assert model.wte.weight is loaded["wte.weight"] and model.config == CONFIG.model


def test_weights_may_be_read_by_others_like_any_file(whole):
    assert (whole / "model.safetensors").stat().st_mode == (whole / "config.json").stat().st_mode


def edit_json(name, change):
    def damage(folder):
        record = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(change(record) or record))

    return damage


def edit_weights(change):
    def damage(folder):
        weights = safetensors.numpy.load_file(folder / "model.safetensors")
        change(weights)
        safetensors.numpy.save_file(weights, folder / "model.safetensors")

    return damage


def truncate(name, size):
    return lambda folder: os.truncate(folder / name, size)


DAMAGE = {
    "config gone": (lambda f: (f / "config.json").unlink(), "no run: there is no config.json"),
    "config truncated": (truncate("config.json", 40), "config.json is damaged"),
    "config empty": (truncate("config.json", 0), "config.json is damaged"),
    "config not UTF-8": (lambda f: (f / "config.json").write_bytes(b'{"preset": "\xff"}'), "config.json is damaged"),
    "config too deep": (lambda f: (f / "config.json").write_text("[" * 100_000), "config.json is damaged"),
    "config too large": (lambda f: os.truncate(f / "config.json", 40 << 20), "config.json has 41,943,040 bytes; at most"),
    "config with NaN": (lambda f: (f / "config.json").write_text('{"steps": NaN}'), "NaN is no JSON"),
    "config with a field twice": (lambda f: (f / "config.json").write_text('{"steps": 1, "steps": 2}'), "a field twice"),
    "config with an unknown field": (edit_json("config.json", lambda r: r.update(stepz=1)), "no field"),
    "config of another type": (edit_json("config.json", lambda r: [r]), "expected an object"),
    "config out of range": (edit_json("config.json", lambda r: r.update(batch=0)), "batch is 0"),
    "heads that do not divide": (edit_json("config.json", lambda r: r["model"].update(heads=3)), "heads do not divide"),
    "a million layers": (edit_json("config.json", lambda r: r["model"].update(layers=10**9)), "too few for 1000000000 layers"),
    "a huge width": (edit_json("config.json", lambda r: r["model"].update(width=10**9)), "is F32 of shape"),
    "a width beyond any": (edit_json("config.json", lambda r: r["model"].update(width=10**4000)), "width is 10*; expected from 1 to"),
    "more layers": (edit_json("config.json", lambda r: r["model"].update(layers=3)), "holds 28 tensors, too few for 3 layers"),
    "more layers than there are tensors of them": (
        edit_weights(lambda w: [w.pop(name) for name in [*w] if "1.ln1" in name] and w.update({f"x{i}": w["ln.bias"] for i in range(2)})),
        "lacks tensor 'blocks.1.ln1",
    ),
    "fewer layers": (edit_json("config.json", lambda r: r["model"].update(layers=1)), "has an unknown tensor 'blocks.1"),
    "tokeniser gone": (lambda f: (f / "tokeniser.json").unlink(), "tokeniser.json: No such file"),
    "tokeniser of no kind": (edit_json("tokeniser.json", lambda r: {"kind": "bpx"}), "a tokeniser's record has a kind"),
    "tokeniser larger than the model": (
        edit_json("tokeniser.json", lambda r: {"kind": "characters", "characters": "".join(map(chr, range(300, 700)))}),
        "tokeniser.json has 400 tokens and the model 300",
    ),
    "weights gone": (lambda f: (f / "model.safetensors").unlink(), "cannot read model.safetensors"),
    "weights empty": (truncate("model.safetensors", 0), "model.safetensors is damaged"),
    "weights truncated": (truncate("model.safetensors", 5_000), "model.safetensors is damaged"),
    "weights with a huge header": (lambda f: (f / "model.safetensors").write_bytes(b"\xff" * 64), "model.safetensors is damaged"),
    "a tensor gone": (edit_weights(lambda w: w.pop("ln.bias")), "lacks tensor 'ln.bias'"),
    "a tensor too many": (edit_weights(lambda w: w.update(extra=np.zeros(3, np.float32))), "has an unknown tensor 'extra'"),
    "a tensor of another shape": (
        edit_weights(lambda w: w.update({"ln.bias": np.zeros((2, 4), np.float32)})),
        r"ln.bias is F32 of shape \(2, 4\), expected F32 of shape \(8,\)",
    ),
    "a tensor of another dtype": (
        edit_weights(lambda w: w.update({"ln.bias": np.zeros(8, np.float16)})),
        r"ln.bias is F16 of shape \(8,\), expected F32",
    ),
}


@pytest.mark.parametrize("damage, says", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_one_error_that_names_the_file(folder, damage, says):
    damage(folder)
    began = time.monotonic()
    with pytest.raises(ConfigError, match=says) as caught:
        load_run(folder)
    assert str(folder) in str(caught.value)
    assert time.monotonic() - began < 20  # what a hostile size costs is not built


def test_no_run_at_all(tmp_path):
    with pytest.raises(ConfigError, match="is no run"):
        load_run(tmp_path / "nowhere")


def test_new_folders_are_numbered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [str(make_folder(None, "quick")) for _ in range(2)] == ["runs/quick-001", "runs/quick-002"]
    (tmp_path / "runs" / "quick-041").mkdir()
    (tmp_path / "runs" / "quick-old").mkdir()
    assert str(make_folder(None, "quick")) == "runs/quick-042"
    assert str(make_folder(None, "other")) == "runs/other-001"


def test_out_may_be_absent_or_empty(tmp_path):
    assert make_folder(tmp_path / "a" / "b", "quick").is_dir()
    assert make_folder(tmp_path / "a" / "b", "quick") == tmp_path / "a" / "b"


def test_out_must_not_be_taken(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for path, says in ((tmp_path, "is not empty"), (tmp_path / "file", "is a file"), (tmp_path / "link", "is a file")):
        with pytest.raises(ConfigError, match=says):
            demand_free(path)
    with pytest.raises(ConfigError, match="cannot make the output folder .* is a file"):
        make_folder(tmp_path / "file" / "run", "quick")


def test_a_place_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # whoever runs this may be allowed everything
    with pytest.raises(ConfigError, match="run: no permission to write into"):
        demand_free(tmp_path / "run")


def test_metrics_have_every_field_and_no_nan(tmp_path):
    log = Log(tmp_path, 10, Silent())
    log.append(Metrics(1, float("nan"), None, 1e-3, float("inf"), 5.0))
    log.append(Metrics(2, 3.0, 3.5, 1e-3, 1.0, 5.0))
    first, second = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert first == dict(step=1, loss=None, val_loss=None, lr=1e-3, grad_norm=None, tokens_per_s=5.0)
    assert second["val_loss"] == 3.5 and log.val_loss == 3.5


def test_picture_of_any_metrics(tmp_path):
    log = Log(tmp_path, 10, Silent())
    log.append(Metrics(1, float("nan"), None, 1e-3, 1.0, 5.0))
    plot_loss(tmp_path, "nothing to see")
    log.append(Metrics(2, 3.0, 3.5, 1e-3, 1.0, 5.0))
    plot_loss(tmp_path, "one point")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["loss.png", "metrics.jsonl"]


def test_smoothing_keeps_a_constant_and_follows_a_step():
    np.testing.assert_allclose(smoothed([2.0] * 50), 2.0)
    curve = smoothed([1.0] * 100 + [0.0] * 100)
    assert curve[99] == pytest.approx(1.0) and curve[-1] < 1e-3 and 0.7 < curve[100] < 0.8
