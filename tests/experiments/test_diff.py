"""Two runs that differ: in what settings, from which step on, and in which value of that step."""

import json
import shutil
from dataclasses import replace

import jax.numpy as jnp
import pytest

import pullback as pb
from pullback.experiments import replay as module
from pullback.experiments.cli import main
from pullback.experiments.diff import diff
from pullback.experiments.loop import train

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture(scope="module")
def config(tiny):
    schedule = replace(tiny.schedule, warmup=4, length=20)
    return replace(tiny, steps=10, checkpoint_every=4, checksum_every=1, log_every=1, sample_tokens=0, keep=5, schedule=schedule)


@pytest.fixture(scope="module")
def run(config, compiled_once, tmp_path_factory):
    return train(config, tmp_path_factory.mktemp("diff") / "run").folder


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run, tmp_path / "copy")


def asked(capsys, *argv) -> tuple[int, dict]:
    code = main(["diff", *map(str, argv), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_same_run_twice(config, run, tmp_path, capsys):
    other = train(config, tmp_path / "other").folder
    assert main(["diff", str(run), str(other)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out == [
        "settings: the same",
        "provenance: the same",
        "metrics: the same at all 10 steps that both have a line of",
        "checkpoint of step 10: the same: all 35 tensors, to the bit",
    ]


def test_another_rule(config, run, tmp_path, capsys):
    with pb.rules({"gelu": "erf_slope"}):
        other = train(config, tmp_path / "other").folder
    code, said = asked(capsys, run, other)
    assert code == 1 and said["config"] == [] and "rules is [] and in the second [['gelu', 'erf_slope']]" in said["provenance"]
    assert said["step"] == 1 and {"params", "optimiser"} <= set(said["fields"])
    found = said["found"]
    assert (found["step"], found["name"]) == (1, "blocks.0.mlp/gelu/backward/x") and "models/gpt2.py:" in found["line"]
    assert "ulps, relative" in found["text"] and found["same"] > 20
    assert main(["diff", str(run), str(other)]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(
        f"replayed from the beginning: first different at step 1, after {found['same']} values that are the same, in blocks.0.mlp/"
    )


@pytest.mark.parametrize(
    "part, setting, value, name",
    [("model", "eps", 1e-6, "blocks.0.ln1/layer_norm"), ("optimiser", "b2", 0.96, "optimiser/1/hyper/b2")],
)
def test_one_changed_constant(config, run, tmp_path, part, setting, value, name):
    """Of the model and of the optimiser: where it acts first."""
    other = train(replace(config, **{part: replace(getattr(config, part), **{setting: value})}), tmp_path / "other").folder
    outcome = diff(run, other)
    assert len(outcome.config) == 1 and outcome.config[0].startswith(f"{part}.{setting} is ")
    assert outcome.found and (outcome.found.start, outcome.found.step, outcome.found.name) == (0, 1, name)


def test_a_difference_that_comes_later(config, run, tmp_path):
    """The same warm-up and another way down: repeated from the checkpoint that both have the same."""
    other = train(replace(config, schedule=replace(config.schedule, length=40)), tmp_path / "longer").folder
    outcome = diff(run, other)
    assert outcome.found and (outcome.step, outcome.lines) == (6, 5) and (outcome.found.start, outcome.found.step) == (4, 6)
    assert outcome.found.name == "lr" and "lr" in outcome.fields


def test_other_weights_from_the_start(config, run, tmp_path):
    outcome = diff(run, train(replace(config, seed=4), tmp_path / "other").folder)
    assert outcome.found and (outcome.found.start, outcome.found.step) == (0, 0) and outcome.found.name == "wte.weight"
    assert "begin with other weights, the first wte.weight: 480 of 480 elements differ" in str(outcome.found)


def test_weights_of_another_shape():
    of = lambda *shape: {"a": jnp.ones(3), "b": jnp.ones(shape)}
    assert module.unlike(of(2, 3), of(2, 3)) is None
    assert module.unlike(of(2, 3), of(2, 4)) == ("b", "float32 of shape (2, 3) and float32 of shape (2, 4)")
    assert module.unlike(of(2, 3), {"a": jnp.ones(3)}) == ("b", "only one of them has it")


def test_another_batch(config, run, tmp_path):
    outcome = diff(run, train(replace(config, order="sequential"), tmp_path / "other").folder)
    assert outcome.found and (outcome.found.step, outcome.found.name) == (1, "batch/0")


def test_what_the_settings_do_not_explain(run, copy, capsys):
    """As from another machine or another version of the code."""
    path = copy / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[5]["loss"] += 1e-6
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["diff", str(run), str(copy)]) == 1
    out = capsys.readouterr().out
    assert "metrics: the same at 5 steps, first different at step 6: loss" in out
    assert "replayed after step 4: both do the same here; what sets them apart is not in their settings" in out
    assert main(["diff", str(run), str(copy), "--no-replay"]) == 1 and "replayed" not in capsys.readouterr().out
    record = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(record | {"data": "gone.txt"}))
    assert "cannot repeat them here: " in diff(run, copy).note


def test_checkpoints_and_files(run, config, tmp_path, capsys):
    paths = [run / "checkpoints" / f"{step:06d}" for step in (4, 8)]
    assert main(["diff", str(paths[0]), str(paths[0])]) == 0
    capsys.readouterr()
    code, said = asked(capsys, *paths)
    assert code == 1 and said["config"] == [] and said["tensors"]["differing"] > 20 and said["tensors"]["alone"] == []
    assert said["tensors"]["first"].startswith("optimiser/") and "elements differ, up to" in said["tensors"]["text"]
    assert main(["diff", str(run / "model.safetensors"), str(run / "model.safetensors")]) == 0
    capsys.readouterr()
    code, said = asked(capsys, run / "model.safetensors", paths[0] / "state.safetensors")
    alone = said["tensors"]["alone"]
    assert code == 1 and "params/wte.weight is only in the second" in alone and "wte.weight is only in the first" in alone


@pytest.mark.parametrize(
    "names, says",
    [
        (("run", "nothing"), "is no run and no checkpoint: there is no such folder or file"),
        (("run", "."), "there is neither config.json nor manifest.json in it"),
        (("run", "run/checkpoints/000004"), "name two of a kind"),
        (("run/metrics.jsonl", "run/metrics.jsonl"), "metrics.jsonl is damaged"),
    ],
)
def test_bad_input_is_one_line(run, names, says, capsys):
    assert main(["diff", *(str(run.parent / name) for name in names)]) == 2
    err = capsys.readouterr().err
    assert says in err and len(err.splitlines()) == 1
