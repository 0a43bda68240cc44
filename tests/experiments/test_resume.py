"""A run that was stopped, in whatever way, ends as if it had not been."""

import json
import os
import shutil
import signal
from dataclasses import replace

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import pullback as pb
from pullback.experiments.checkpoint import FOLDER, MANIFEST, STATE, Origin, digest, write
from pullback.experiments.job import kept_of, text_of
from pullback.experiments.loop import train
from pullback.experiments.progress import Silent
from pullback.experiments.provenance import provenance, rules
from pullback.experiments.resume import resume
from pullback.experiments.run import begin, load_run, occupied
from pullback.experiments.step import first_state
from pullback.lib import tokenisers
from pullback.lib.errors import ConfigError

pytestmark = pytest.mark.usefixtures("compiled_once")


class Stop(Silent):
    """Sends a signal when the line of a given step is shown."""

    def __init__(self, step: int, number: int = signal.SIGINT):
        self.step, self.number = step, number

    def at(self, done, text=""):
        if done == self.step:
            os.kill(os.getpid(), self.number)


@pytest.fixture(scope="module")
def config(tiny):
    return replace(tiny, steps=40, checksum_every=5, checkpoint_every=10, model=replace(tiny.model, dropout=0.1))


@pytest.fixture(scope="module")
def short(config):
    """Fewer steps of the same schedule, whose programs are the same."""
    return replace(config, steps=10, sample_tokens=0, schedule=replace(config.schedule, length=config.steps))


@pytest.fixture(scope="module")
def straight(config, compiled_once, tmp_path_factory):
    return train(config, tmp_path_factory.mktemp("straight") / "run")


@pytest.fixture
def same(rows, straight):
    def check(folder) -> None:
        assert rows(folder) == rows(straight.folder)
        for name in ("samples.txt", "model.safetensors"):
            assert (folder / name).read_bytes() == (straight.folder / name).read_bytes(), name

    return check


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_resume_goes_on(config, straight, rows, tmp_path, number):
    result = train(config, tmp_path / "run", Stop(15, number))
    assert result.interrupted and result.steps in (15, 16)
    assert (tmp_path / "run" / "checkpoints" / f"{result.steps:06d}").is_dir()
    result = resume(tmp_path / "run", Stop(25))
    assert result.interrupted and result.steps in (25, 26)
    result = resume(tmp_path / "run")
    assert not result.interrupted and result.steps == 40
    lines = [row for row in rows(tmp_path / "run") if row["step"] % 5 == 0 or row["step"] == 1]
    assert lines == rows(straight.folder)  # besides them there are those of the last steps before it stopped
    for name in ("samples.txt", "model.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (straight.folder / name).read_bytes(), name


def test_what_was_done_after_the_checkpoint_is_done_again(config, same, tmp_path):
    """As after a kill: later lines, half a line, no weights."""
    train(config, tmp_path / "run", Stop(25))
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        if int(path.name) > 20:
            path.rename(path.with_name(f".{path.name}.partial-00"))
    (tmp_path / "run" / "model.safetensors").unlink()
    with open(tmp_path / "run" / "metrics.jsonl", "a") as file:
        file.write('{"step": 26, "lo')
    resume(tmp_path / "run")
    same(tmp_path / "run")


def test_what_a_run_should_have_left_at_its_end_is_made_good(short, tmp_path):
    """Killed, or the disk full, after the last checkpoint. Weights of an earlier stop are none of its end."""
    model, sample = (tmp_path / "run" / name for name in ("model.safetensors", "samples.txt"))
    assert train(replace(short, sample_tokens=1), tmp_path / "run", Stop(5)).interrupted
    early = model.read_bytes()
    resume(tmp_path / "run")
    right = {path: path.read_bytes() for path in (model, sample)}
    for lose in (lambda: model.write_bytes(early), sample.unlink):
        lose()
        assert resume(tmp_path / "run").steps == 10
        assert {path: path.read_bytes() for path in (model, sample)} == right
    with pytest.raises(ConfigError, match="has done 10 of its 10 steps"):
        resume(tmp_path / "run")


def test_more_steps_than_it_began_with(config, straight, rows, tmp_path):
    """The learning rate stays planned for the first number, and what there was stays."""
    train(config, tmp_path / "run")
    result = resume(tmp_path / "run", steps=50, log_every=5)
    assert result.steps == 50 and result.config.schedule.length == 40 and load_run(result.folder).config == result.config
    assert rows(result.folder)[: len(rows(straight.folder))] == rows(straight.folder)
    assert [row["step"] for row in rows(result.folder)][-2:] == [45, 50] and rows(result.folder)[-1]["lr"] == pytest.approx(1e-3)
    with pytest.raises(ConfigError, match="has done 50 of its 50 steps; ask for more with --steps"):
        resume(tmp_path / "run")


def changed(file, **changes):
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.fixture(scope="module")
def ten(short, compiled_once, tmp_path_factory):
    """Ten steps, with checkpoints of the fifth and the tenth."""
    return train(replace(short, checkpoint_every=5), tmp_path_factory.mktemp("ten") / "run").folder


@pytest.fixture
def copy(ten, tmp_path):
    return shutil.copytree(ten, tmp_path / "copy")


def refused(folder, **changes) -> str:
    with pytest.raises(ConfigError) as caught:
        resume(folder, **changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_another_config_is_refused(copy):
    changed(copy / "config.json", seed=4, batch=4)
    text = refused(copy, steps=20)
    assert "config.batch is now 4 and was 8" in text and "config.seed is now 4 and was 3" in text


def test_another_rule_set_is_refused(copy):
    with pb.rules({"gelu": "straight_through"}):
        assert "rules is now [['gelu', 'straight_through']] and was []" in refused(copy, steps=20)


def test_a_flipped_bit_is_named_and_the_run_goes_on_from_the_checkpoint_before(ten, copy, rows):
    class Notes(Silent):
        def note(self, line):
            said.append(line)

    path, said = copy / FOLDER / "000010" / STATE, []
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    resume(copy, Notes())
    assert said[0] == f"WARNING: {path} is damaged: its sha256 is not the one in {MANIFEST}; going back to the checkpoint before"
    assert "going on from step 5" in said and rows(copy) == rows(ten) and path.read_bytes() == (ten / path.relative_to(copy)).read_bytes()


def swapped(a: str, b: str):
    return lambda arrays: arrays | {a: arrays[b], b: arrays[a]}


def narrowed(name: str):
    return lambda arrays: arrays | {name: arrays[name].astype(np.float16)}


@pytest.mark.parametrize(
    "change, says",
    [
        (swapped("params/wte.weight", "params/wpe.weight"), ["params/wte.weight is F32 of shape (16, 16), expected F32 of shape (30, 16)"]),
        (narrowed("params/wte.weight"), ["params/wte.weight is F16 of shape", "expected F32 of shape"]),
        (
            lambda arrays: {name.replace("wte", "wxe"): x for name, x in arrays.items()},
            ["lacks tensor 'params/wte.weight'", "unknown tensor 'optimiser/1/mu/wxe.weight'"],
        ),
    ],
)
def test_another_state_under_a_manifest_of_its_own_is_refused(copy, change, says):
    """Somebody has made the sha256 good."""
    folder = copy / FOLDER / "000010"
    save_file(change(load_file(folder / STATE)), folder / STATE)
    changed(folder / MANIFEST, files={STATE: digest(folder / STATE)})
    text = refused(copy, steps=20)
    assert all(part in text for part in says), text


def test_twelve_layers_do_not_go_into_sixteen(short, tmp_path):
    """The folder of a run of twelve; then its config says sixteen, and at last its manifest too."""
    text = text_of(short)
    of = lambda layers: replace(short, model=replace(short.model, layers=layers, vocab=text.words.vocabulary))
    state = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), jax.eval_shape(lambda: first_state(of(12))))
    begin(tmp_path, of(12), text.words, provenance())
    origin = Origin(kept_of(of(12)), text.sha256, tokenisers.digest(text.words), rules())
    write(tmp_path / FOLDER / "000005", 5, state, None, origin)
    begin(tmp_path, of(16), text.words, provenance())
    assert refused(tmp_path).endswith(f"{tmp_path / FOLDER / '000005'}: config.model.layers is now 16 and was 12")
    changed(tmp_path / FOLDER / "000005" / MANIFEST, config=kept_of(of(16)))
    assert "lacks tensor 'params/blocks.12." in refused(tmp_path)


def test_another_text_or_tokeniser_is_refused(short, corpus, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(corpus.read_text())
    train(replace(short, data=str(text)), tmp_path / "run")
    text.write_text(corpus.read_text().replace("!", '"'))
    words = json.loads((tmp_path / "run" / "tokeniser.json").read_text())
    words["characters"] = words["characters"].replace("!", '"')
    (tmp_path / "run" / "tokeniser.json").write_text(json.dumps(words))
    with pytest.raises(ConfigError) as caught:
        resume(tmp_path / "run", steps=20)
    assert "data is now" in str(caught.value) and "tokeniser is now" in str(caught.value)


def test_two_processes_do_not_write_one_run(straight):
    with occupied(straight.folder), pytest.raises(ConfigError, match="another process is at work on"):
        resume(straight.folder, steps=50)


def test_no_checkpoint(short, tmp_path):
    train(replace(short, steps=3, checkpoint_every=0), tmp_path / "run")
    with pytest.raises(ConfigError, match="has no whole checkpoint to go on from"):
        resume(tmp_path / "run", steps=5)
