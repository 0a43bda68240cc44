"""Training that begins with as much of other weights as fits, and says what did not."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest
import safetensors.numpy

from pullback import nn
from pullback.autograd import MemoryPlan
from pullback.experiments import job
from pullback.experiments.checkpoint import Origin, Saver
from pullback.experiments.cli import main
from pullback.experiments.config import check
from pullback.experiments.init_from import MOST, take
from pullback.experiments.job import prepare
from pullback.experiments.progress import Silent
from pullback.experiments.resume import resume
from pullback.experiments.run import begin, load_run, save_weights
from pullback.experiments.step import first_params, first_state, template_of
from pullback.experiments.verify import verify
from pullback.lib.characters import Characters
from pullback.lib.errors import ConfigError
from pullback.lib.tokenisers import digest
from pullback.models import gpt2_weights
from pullback.models.gpt2 import GPT2


class Notes(Silent):
    def __init__(self):
        self.said = []

    def note(self, line):
        self.said.append(line)


@pytest.fixture(scope="module")
def words(corpus):
    return Characters.of(corpus.read_text())


@pytest.fixture(scope="module")
def config(tiny, words):
    return replace(tiny, steps=4, checkpoint_every=2, checksum_every=2, model=replace(tiny.model, layers=2, vocab=words.vocabulary))


@pytest.fixture(scope="module")
def larger(config):
    """One layer more, and room for more text."""
    return replace(config, seed=9, model=replace(config.model, layers=3, context=32))


@pytest.fixture(scope="module")
def source(larger, words, tmp_path_factory):
    """The folder of a run of `larger`, as it was at its end."""
    folder = tmp_path_factory.mktemp("source")
    begin(folder, larger, words, {})
    save_weights(folder, first_params(larger))
    return folder


def taken(config, place, words) -> tuple[dict, dict, list[str]]:
    """What was taken, its record, and what was said."""
    notes = Notes()
    params, record = take(replace(config, init_from=str(place)), nn.named_parameters(template_of(config)), digest(words), notes)
    return params, record, notes.said


def same(params, expected):
    for name, x in params.items():
        np.testing.assert_array_equal(x, expected[name], name)


def test_a_run(config, larger, source, words):
    params, record, said = taken(config, source, words)
    same(params, first_params(larger))
    assert params.keys() == first_params(config).keys() - {"wpe.weight"} and record["taken"] == len(params)
    assert record["not_taken"] == {
        "wpe.weight": "its shape is (32, 16), the parameter's (16, 16)",
        "blocks.2.*": "no parameter has this name",
    }
    assert record["not_filled"] == ["wpe.weight"] and record["warnings"] == []
    assert said == [
        f"{len(params)} of {len(params) + 1} parameters begin as in {source}",
        "  not taken: blocks.2.* (no parameter has this name)",
        "  not taken: wpe.weight (its shape is (32, 16), the parameter's (16, 16))",
        "  as initialised: wpe.weight",
    ]


def test_what_is_not_filled_is_as_the_seed_has_it(larger, source, monkeypatch):
    deeper, plan = replace(larger, model=replace(larger.model, layers=5)), MemoryPlan(0, 0, 0, 0, 0.0, 1, {}, ())
    monkeypatch.setattr(job, "training_step", lambda *args: SimpleNamespace(plan=lambda *args: plan))
    state = prepare(replace(deeper, init_from=str(source)), Silent()).state
    fresh, theirs = first_params(deeper), first_params(larger)
    for name, x in state.params.items():
        np.testing.assert_array_equal(x, (fresh if name.startswith(("blocks.3", "blocks.4")) else theirs)[name], name)


def test_a_checkpoint_and_a_run_that_has_only_one(config, larger, source, words, tmp_path):
    """Its moments are no weights: nothing is said of them."""
    run = tmp_path / "run"
    run.mkdir()
    begin(run, larger, words, {})
    saver = Saver(run, Origin({"model": {"heads": 2, "eps": 1e-5}}, "", digest(words), []), 2)
    saver.save(7, first_state(larger), None)
    saver.close()
    of_run = taken(config, source, words)
    for place in (run, run / "checkpoints" / "000007", run / "checkpoints" / "000007" / "state.safetensors"):
        params, record, _ = taken(config, place, words)
        same(params, of_run[0])
        assert record["not_taken"] == of_run[1]["not_taken"] and list(record["sha256"]) == ["state.safetensors"]
        assert [text[:15] for text in record["warnings"]] == (["which tokeniser"] if place.is_file() else [])
    with pytest.raises(ConfigError, match="is damaged: its sha256"):
        (run / "checkpoints" / "000007" / "state.safetensors").write_bytes(b"")
        taken(config, run / "checkpoints" / "000007", words)


def test_gpt2s_weights_are_turned_and_widened(config, words, tmp_path):
    """A folder of Hugging Face's form and its file alone, in half precision."""
    model = GPT2.init(jax.random.key(4), replace(config.model, layers=3, vocab=400, bias=True))
    gpt2_weights.save(model, tmp_path)
    arrays = safetensors.numpy.load_file(tmp_path / "model.safetensors")
    safetensors.numpy.save_file({name: x.astype(np.float16) for name, x in arrays.items()}, tmp_path / "model.safetensors")
    with_bias = replace(config, model=replace(config.model, bias=True))
    halves = {name: np.float32(np.float16(x)) for name, x in nn.named_parameters(model).items()}
    for place in (tmp_path, tmp_path / "model.safetensors"):
        params, record, _ = taken(with_bias, place, words)
        same(params, halves)
        assert all(x.dtype == "float32" for x in params.values())
        assert record["not_taken"] == {
            "h.2.*": "no parameter has this name",
            "wte.weight": f"its shape is (400, 16), the parameter's ({words.vocabulary}, 16)",
        }
        assert record["not_filled"] == ["wte.weight"] and "tokeniser" in record["warnings"][0]


def test_a_square_matrix_of_theirs_is_turned_too(config, words, tmp_path):
    model = GPT2.init(jax.random.key(4), config.model)
    gpt2_weights.save(model, tmp_path)
    name = "blocks.0.attn.proj.weight"
    assert (taken(config, tmp_path, words)[0][name] == nn.named_parameters(model)[name]).all()


def test_what_shapes_do_not_tell_is_a_warning(config, source, words):
    """Another text's characters, other heads."""
    other = Characters.of("abcdefghijklmnopqrstuvwxyz{}[]")
    params, record, said = taken(replace(config, model=replace(config.model, heads=4, eps=1e-6)), source, other)
    assert "wte.weight" in params and record["warnings"] == [
        "these weights had another tokeniser: the rows of wte belong to other tokens",
        "model.heads is 4; these weights had 2",
        "model.eps is 1e-06; these weights had 1e-05",
    ]
    assert said[-3:] == [f"WARNING: {text}" for text in record["warnings"]]


def test_a_strangers_file_is_listed_in_few_words(config, words, tmp_path):
    tensors = {f"{'x' * i}\n\x1b[2J": np.zeros(1, np.float32) for i in range(200)}
    ours = {"wte.weight": np.zeros((words.vocabulary, 16), np.float32), "wpe.weight": np.zeros((16, 16), np.int32)}
    safetensors.numpy.save_file(tensors | ours, tmp_path / "x.safetensors")
    params, record, said = taken(config, tmp_path / "x.safetensors", words)
    assert list(params) == ["wte.weight"] and len(record["not_taken"]) == MOST + 1 and len(said) < MOST + 10
    assert f"and {201 - MOST} more" in record["not_taken"]
    assert all(line.isprintable() and len(line) < 250 for line in said)


@pytest.mark.parametrize(
    "place, says",
    [
        ("", "the name of what to begin from is empty"),
        ("nowhere", "there is nothing to begin from at nowhere; expected a run"),
        ("empty", "there is nothing to begin from at empty"),
        ("text", "text is damaged"),
        ("begun", "has no whole checkpoint"),
        ("integers", r"nothing of integers has the name and the shape of a parameter: it has wte.weight, the model wte.weight, wpe"),
        ("none", "it has no tensor, the model"),
    ],
)
def test_what_cannot_be_begun_from(config, words, place, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("no tensors")
    (tmp_path / "begun").mkdir()
    begin(tmp_path / "begun", config, words, {})
    safetensors.numpy.save_file({"wte.weight": np.zeros((words.vocabulary, 16), np.int32)}, tmp_path / "integers")
    safetensors.numpy.save_file({}, tmp_path / "none")
    with pytest.raises(ConfigError, match=says):
        taken(config, place, words)


def test_both_doors_at_once(config):
    with pytest.raises(ConfigError, match="init and init_from are both given"):
        check(replace(config, init="a", init_from="b"))


def once(make):
    made = []
    return lambda *args: made[0] if made else made.append(make(*args)) or made[0]


@pytest.fixture
def compiled_once(monkeypatch):
    """One step for a run and its repetitions."""
    for name in ("training_step", "validation"):
        monkeypatch.setattr(job, name, once(getattr(job, name)))


def test_a_run_by_command_resumes_without_its_source_and_is_verified_with_it(larger, source, corpus, tmp_path, capsys, compiled_once):
    place, out = shutil.copytree(source, tmp_path / "place"), tmp_path / "run"
    shape = ["--model.layers", "2", "--model.width", "16", "--model.heads", "2", "--model.context", "16", "--batch", "2"]
    argv = ["train", "--data", str(corpus), "--tokeniser", "characters", "--model.vocab", "1", "--sample-tokens", "2"]
    pace = ["--steps", "2", "--checksum-every", "1", "--out", str(out)]
    assert main([*argv, *shape, *pace, "--init-from", str(place)]) == 0
    assert "  as initialised: wpe.weight\n" in capsys.readouterr().err
    record = json.loads((out / "provenance.json").read_text())["init_from"]
    assert load_run(out).config.init_from == record["source"] == str(place)
    assert verify(out)[1:] == (None, [], [])

    place.rename(tmp_path / "away")
    assert resume(out, steps=3).steps == 3
    assert main(["verify", str(out)]) == 2 and "there is nothing to begin from at" in capsys.readouterr().err
    shutil.copytree(source, place)
    save_weights(place, first_params(replace(larger, seed=10)))
    verdict = verify(out)
    assert verdict.step == 1 and verdict.notes == ["note: what the run began from has changed: model.safetensors is another file now"]
