"""The small presets: each once at its defaults, and what is said about a run that is wrong or cut short."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

import pullback as pb
from pullback.experiments import commands
from pullback.experiments.cli import main
from pullback.experiments.loop import Result
from pullback.experiments.metrics import Diverged
from pullback.experiments.progress import Silent
from pullback.experiments.run import load_run
from pullback.experiments.small import fruit, regression, spirals
from pullback.experiments.small.config import SMALL, SmallConfig, check
from pullback.experiments.small.drawing import layered, plot_graph
from pullback.experiments.small.job import Examples, generator
from pullback.experiments.small.train import PREPARE, train
from pullback.lib.errors import ConfigError, PullbackError

FIELDS = ["step", "loss", "val_loss", "lr", "grad_norm", "tokens_per_s"]
WRITTEN = {"config.json", "provenance.json", "metrics.jsonl", "loss.png", "model.safetensors", "report.txt"}
PICTURES = {"fruit": set(), "toy-regression": {"fit.png", "neuron.png"}, "spirals": {"boundary.png"}}
EACH = pytest.mark.parametrize("name", SMALL)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Result]:
    folder = tmp_path_factory.mktemp("small")
    return {name: train(config, folder / name) for name, config in SMALL.items()}


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("name, measure, least, most", [("fruit", "accuracy", 0.9, 0.99), ("spirals", "accuracy", 0.98, 1.0)])
def test_classes_are_told_apart(name, measure, least, most, runs):
    """Fruits overlap, so that nobody gets them all; spirals hardly do."""
    assert least <= runs[name].measures[measure] <= most


def test_the_function_is_learnt(runs):
    assert runs["toy-regression"].measures["largest_error"] < 0.15 and runs["toy-regression"].val_loss < 5e-3


@EACH
def test_folder(name, runs):
    result, config = runs[name], SMALL[name]
    assert names(result.folder) == WRITTEN | PICTURES[name]
    for picture in PICTURES[name] | {"loss.png"}:
        assert (result.folder / picture).read_bytes().startswith(b"\x89PNG")
    assert json.loads((result.folder / "config.json").read_text()) == {f.name: getattr(config, f.name) for f in fields(config)}
    record = json.loads((result.folder / "provenance.json").read_text())
    weights = safetensors.numpy.load_file(result.folder / "model.safetensors")
    assert record["parameters"] == sum(x.size for x in weights.values()) and all(x.dtype == np.float32 for x in weights.values())
    assert record["data"]["training"] > record["data"]["validation"] > 0 and record["versions"]["pullback"]
    assert record["loss_unit"] == ("squared error" if name == "toy-regression" else "nats")
    assert (result.folder / "report.txt").read_text() == result.sample + "\n"


@EACH
def test_metrics(name, runs):
    result, config = runs[name], SMALL[name]
    rows = lines(result.folder)
    assert all(list(row) == FIELDS for row in rows)
    assert [row["step"] for row in rows] == [1, *range(config.log_every, config.steps + 1, config.log_every)]
    assert [row["step"] for row in rows if row["val_loss"] is not None] == list(range(100, config.steps + 1, 100))
    assert all(row["lr"] == np.float32(config.rate) and row["grad_norm"] > 0 and row["tokens_per_s"] > 0 for row in rows)
    assert rows[-1]["val_loss"] == result.val_loss < 0.3 * rows[0]["loss"]


@EACH
def test_same_seed_same_bits(name, runs, tmp_path):
    """A shorter run begins as the longer one did."""
    again = lines(train(replace(SMALL[name], steps=20), tmp_path / "run").folder)
    rows = lines(runs[name].folder)[:3]
    for row in (*rows, *again):
        del row["tokens_per_s"], row["val_loss"]
    assert again == rows and len(again) == 3


def test_another_seed_other_data_and_batches():
    for grown in (fruit.grown, lambda rng, n: spirals.wound(rng, n, 1.5, 0.1)):
        first, second, again = (grown(generator(replace(SMALL["fruit"], seed=seed), "training"), 30)[0] for seed in (1, 2, 1))
        assert (first == again).all() and (first != second).all()
    stream, other = (Examples(np.arange(1000), np.arange(1000), 8, seed) for seed in (1, 2))
    assert (stream.at(3)[0] == stream.at(3)[1]).all() and (stream.at(3)[0] == Examples(stream.x, stream.y, 8, 1).at(3)[0]).all()
    assert (stream.at(3)[0] != stream.at(4)[0]).any() and (stream.at(3)[0] != other.at(3)[0]).any()
    purposes = [generator(SMALL["fruit"], purpose).random() for purpose in ("training", "validation", "test")]
    assert len(set(purposes)) == 3


def test_fruits_are_plausible():
    features, labels = fruit.grown(np.random.default_rng(0), 3000)
    hue, diameter, weight = features.T
    assert (0 <= hue).all() and (hue < 360).all() and np.bincount(labels).tolist() == [1000, 1000, 1000]
    density = weight / (np.pi / 6 * diameter**3)
    assert 0.6 < density.min() and density.max() < 1.1
    means = [weight[labels == label].mean() for label in range(3)]
    assert 150 < means[0] < 200 and 160 < means[1] < 210 and 80 < means[2] < 120
    assert (np.abs(fruit.measured(features)).max(0) < 6).all()
    assert np.ptp(fruit.measured(np.array([[359.0, 7.0, 150.0], [1.0, 7.0, 150.0]]))[:, 0]) < 0.1  # an angle


def test_the_table_of_fruits(runs):
    cases = runs["fruit"].measures["cases"]
    rows = (runs["fruit"].folder / "report.txt").read_text().splitlines()
    assert len(cases) == 9 and [case["true"] for case in cases] == list(fruit.FRUITS) * 3
    for case, row in zip(cases, rows[1:]):
        taken = max(case["chances"], key=case["chances"].get)
        assert sum(case["chances"].values()) == pytest.approx(1, abs=1e-6)
        assert row.split()[3:5] == [case["true"], taken] and row.endswith("wrong") == (taken != case["true"])
        assert f"{case['chances']['lemon']:.1%}" in row
    assert "accuracy on 375 fruits" in rows[-1]


def test_spirals_lie_on_their_curves():
    points, labels = spirals.wound(np.random.default_rng(0), 400, turns=1.5, noise=0.0)
    radius, angle = np.hypot(*points.T), np.arctan2(points[:, 1], points[:, 0])
    gap = angle - (2 * np.pi * 1.5 * radius + np.pi * labels)
    np.testing.assert_allclose(np.cos(gap), 1, atol=1e-4)
    assert 0.1 <= radius.min() and radius.max() <= 1 and labels.sum() == 200


def test_the_loss_of_spirals_is_the_negative_log_likelihood():
    logits, labels = np.random.default_rng(0).normal(size=(5, 2)), np.array([0, 1, 1, 0, 1])
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = -np.log(p[np.arange(5), labels]).mean()
    assert float(spirals.loss(jnp.float32(logits), jnp.asarray(labels))) == pytest.approx(expected, rel=1e-5)


def test_a_step_by_hand_is_the_step_of_pb_grad():
    """Single numbers with .backward() move as arrays under pb.grad do."""
    config = regression.RegressionConfig(hidden=3, batch=5)
    job = regression.prepare(config)
    xs, ys = job.stream.at(0)

    def loss(params):
        total = 0.0
        for x, y in zip(xs.tolist(), ys.tolist()):
            h = [jnp.float32(x) * params[f"hidden.{i}.weight"] + params[f"hidden.{i}.bias"] for i in range(3)]
            out = sum((pb.ops.tanh(v) * params[f"out.weights.{i}"] for i, v in enumerate(h)), params["out.bias"])
            total = total + (out - y) ** 2
        return total / len(xs)

    value, grads = pb.value_and_grad(loss)(job.state.params)
    state, measured = job.step(job.state, 0, xs, ys)
    assert float(measured.loss) == pytest.approx(float(value), rel=1e-5)
    assert float(measured.grad_norm) == pytest.approx(np.sqrt(sum(float(g) ** 2 for g in grads.values())), rel=1e-5)
    for name, g in grads.items():
        assert float(state.params[name]) == pytest.approx(float(job.state.params[name]) - 0.1 * float(g), rel=1e-5, abs=1e-6)


def test_the_graph_of_a_neuron(runs, tmp_path):
    text = runs["toy-regression"].sample
    assert "#0 tanh" in text and "#1 add" in text and "#2 mul" in text and text.count("leaf") == 3
    y, named = regression.one_neuron({"hidden.1.weight": jnp.float32(2.0), "hidden.1.bias": jnp.float32(-0.75)}, 1)
    slope = 1 - np.tanh(0.25) ** 2
    got = {name: (float(value), float(value.grad)) for name, value in named.items()}
    expected = {"x": (0.5, 2 * slope), "w": (2, 0.5 * slope), "b": (-0.75, slope), "w·x": (1, slope), "w·x + b": (0.25, slope)}
    for name, pair in {**expected, "y": (np.tanh(0.25), 1.0)}.items():
        assert got[name] == pytest.approx(pair, rel=1e-5), name
    assert [len(layer) for layer in layered(y.node)] == [1, 1, 2, 2]


def test_layers_run_from_left_to_right_whatever_the_graph(tmp_path):
    """A value used twice, at different depths, stands left of all that use it."""
    x, unused = pb.tensor(1.0), {}
    y = x
    for _ in range(4):
        y = y * x + y
    layers = layered(y.node)
    depth = {node: i for i, layer in enumerate(layers) for node in layer}
    assert all(depth[parent[0]] > depth[node] for node in depth for parent in node.parents if parent)
    assert len(depth) == 9 and depth[x.node] == len(layers) - 1
    plot_graph(tmp_path / "graph.png", y, unused, "x twice")
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


TINY = ["--steps", "3", "--hidden", "2"]


@EACH
def test_command(name, here, capsys):
    assert main(["train", name, *TINY, "--seed", "5"]) == 0
    out, err = capsys.readouterr()
    folder = Path(f"runs/{name}-001")
    assert out.endswith(f"\n\n{folder}\n") and err.startswith(f"{name}: ") and os.listdir("runs") == [folder.name]
    assert json.loads((folder / "config.json").read_text())["seed"] == 5
    assert [row["step"] for row in lines(folder) if row["val_loss"] is not None] == [3]


@pytest.mark.parametrize(
    "argv",
    [["fruit", *TINY, "--json"], [*TINY, "--json", "fruit"], ["--json", "fruit", *TINY], [*TINY[:2], "fruit", "--hidden=2", "--json"]],
)
def test_json_is_one_object_wherever_the_name_stands(argv, here, capsys, monkeypatch):
    asked = []

    def small(config, out, show):
        asked.append(config)
        return Result(
            Path("there"), config, {"parameters": 7, "step": {"compile_seconds": None}}, 3, None, 0.5, 1.0, False, "text", {"accuracy": 0.9}
        )

    monkeypatch.setattr(commands, "train_small", small)
    assert main(["train", *argv]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert asked == [replace(SMALL["fruit"], steps=3, hidden=2)]
    assert (answer["run"], answer["preset"], answer["examples"], answer["accuracy"]) == ("there", "fruit", 96, 0.9)
    assert (answer["report"], answer["val_loss"], answer["parameters"], answer["interrupted"]) == ("text", 0.5, 7, False)


def test_json_of_a_real_run(here, capsys):
    assert main(["train", "fruit", *TINY, "--json", "--out", "there"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["run"] == "there" and answer["steps"] == 3 and 0 <= answer["accuracy"] <= 1 and len(answer["cases"]) == 9


BAD = {
    "near name": (["frut"], "no preset 'frut'; did you mean 'fruit'?"),
    "near spirals": (["spiral"], "no preset 'spiral'; did you mean 'spirals'?"),
    "near regression": (["--steps", "3", "toy-regresion"], "no preset 'toy-regresion'; did you mean 'toy-regression'?"),
    "nothing near": (["xyz"], "known: fruit, gpt2-124m, quick, shakespeare-char, spirals, toy-regression"),
    "option": (["fruit", "--hiden", "3"], "train fruit: no option --hiden; did you mean '--hidden'"),
    "option of another preset": (["fruit", "--turns", "3"], "no option --turns"),
    "option of a language model": (["spirals", "--model.layers", "3"], "no option --model.layers"),
    "preset as an option": (["fruit", "--preset", "spirals"], "no option --preset"),
    "two": (["fruit", "spirals"], "nothing takes the word 'spirals'; see `pullback train fruit --help`"),
    "twice": (["fruit", "fruit"], "nothing takes the word 'fruit'"),
    "a name as a value": (["--steps", "fruit"], "'fruit' is no whole number"),
    "steps": (["fruit", "--steps", "0"], "steps is 0; it must be from 1"),
    "rate": (["spirals", "--rate", "-1"], "rate is -1.0; it must be a float32, 0 or more"),
    "rate nan": (["toy-regression", "--rate", "nan"], "rate is nan"),
    "hidden": (["toy-regression", "--hidden", "0"], "hidden is 0; it must be from 1 to 1,024"),
    "hidden of ten digits": (["fruit", "--hidden", "9" * 10], "hidden is 9999999999; it must be from 1 to 1,024"),
    "batch": (["fruit", "--batch", "-2"], "batch is -2"),
    "examples": (["spirals", "--examples", "0"], "examples is 0"),
    "points": (["toy-regression", "--points", "9" * 20], "points is 99999999999999999999; it must be from 1 to 4,096"),
    "seed": (["fruit", "--seed", "-1"], "seed is -1"),
    "log every": (["fruit", "--log-every", "0"], "log_every is 0"),
    "turns": (["spirals", "--turns", "inf"], "turns is inf; it must be above 0, at most 100"),
    "noise": (["spirals", "--noise", "-0.1"], "noise is -0.1; it must be from 0 to 1"),
    "decay": (["spirals", "--weight-decay", "-1"], "weight_decay is -1.0"),
    "activation": (["spirals", "--activation", "tan"], "no activation 'tan'; did you mean 'tanh'?"),
    "function": (["toy-regression", "--function", "sin"], "no function 'sin'; did you mean 'sine'?"),
    "no whole number": (["fruit", "--steps", "ten"], "--steps: 'ten' is no whole number; see `pullback train fruit --help`"),
    "out is a file": (["fruit", "--out", __file__], "is a file; name a new folder"),
    "device": (["fruit", "--device", "abacus"], "no device 'abacus'"),
}


@pytest.mark.parametrize("argv, says", BAD.values(), ids=BAD)
def test_bad_input_is_one_line(argv, says, here, capsys):
    assert main(["train", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("pullback: ") and err.count("\n") == 1 and says in err, err
    assert os.listdir() == []


@EACH
def test_the_presets_themselves_are_valid(name):
    assert isinstance(SMALL[name], SmallConfig) and check(SMALL[name]) is SMALL[name] and name in PREPARE
    with pytest.raises(PullbackError, match="hidden is 0"):
        check(replace(SMALL[name], hidden=0))


@pytest.mark.parametrize("name, option", [("fruit", "--examples"), ("spirals", "--turns"), ("toy-regression", "--function")])
def test_help_says_what_there_is(name, option, capsys):
    assert main(["train", name, "--help"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and option in out and "--hidden" in out and "--model" not in out and f"usage: pullback train {name}" in out
    assert main(["train", "--help"]) == 0
    assert name in capsys.readouterr().out


def test_generate_says_that_it_is_no_language_model(runs, capsys):
    for name, result in runs.items():
        assert main(["generate", str(result.folder), "--prompt", "x"]) == 2
        err = capsys.readouterr().err
        assert f"it is of {name}, which is no language model" in err and err.count("\n") == 1
        with pytest.raises(ConfigError, match="no language model"):
            load_run(result.folder)


def test_a_loss_that_is_no_number_names_the_rate(tmp_path):
    with pytest.raises(Diverged, match="lower rate"):
        train(replace(SMALL["toy-regression"], rate=1e30, hidden=2, steps=9, log_every=1), tmp_path / "run")
    assert lines(tmp_path / "run")[-1]["loss"] is None and (tmp_path / "run" / "loss.png").exists()


class Interrupting(Silent):
    def at(self, done, text=""):
        if done == 20:
            signal.raise_signal(signal.SIGINT)


@EACH
def test_ctrl_c_writes_what_there_is(name, tmp_path):
    result = train(replace(SMALL[name], hidden=2), tmp_path / "run", Interrupting())
    assert result.interrupted and 20 <= result.steps <= 22
    assert names(result.folder) == WRITTEN | PICTURES[name] and lines(result.folder)[-1]["step"] == result.steps


@EACH
def test_weights_that_are_no_numbers_after_the_last_step(name, here, capsys):
    """The last step's loss was fine; what it left was not, and that is told, pictures and all."""
    assert main(["train", name, "--steps", "1", "--hidden", "2", "--rate", "3e38", "--json", "--out", "there"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["loss"] > 0 and answer["val_loss"] is None and set(os.listdir("there")) == WRITTEN | PICTURES[name]


def test_ctrl_c_from_outside_is_130(here, tmp_path):
    argv = ["train", "toy-regression", "--steps", "1000000", "--out", "run", "--json"]
    process = subprocess.Popen([sys.executable, "-m", "pullback", *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "run" / "metrics.jsonl").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    answer = json.loads(out)
    assert process.returncode == 130 and "interrupted after" in err and "Traceback" not in err
    assert answer["interrupted"] and lines(tmp_path / "run")[-1]["step"] == answer["steps"]


@pytest.mark.parametrize("name", ["toy-regression", "spirals"])
def test_without_matplotlib_all_but_the_pictures(name, tmp_path, monkeypatch):
    for module in ("loop", "small.regression", "small.spirals"):
        monkeypatch.setattr(f"pullback.experiments.{module}.can_plot", lambda: False)
    result = train(replace(SMALL[name], steps=1, hidden=1), tmp_path / "run")
    assert names(result.folder) == WRITTEN - {"loss.png"} and result.sample
