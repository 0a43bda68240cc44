import json
import math
import signal
import threading
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import nn
from pullback.experiments import checkpoint, loop
from pullback.experiments import job as jobs
from pullback.experiments.checkpoint import Saver
from pullback.experiments.interrupt import interruptible
from pullback.experiments.loop import run, train
from pullback.experiments.metrics import Diverged, Log
from pullback.experiments.progress import Silent
from pullback.experiments.run import load_run
from pullback.experiments.step import first_state, schedule_of, template_of, training_step, validation
from pullback.lib.errors import ConfigError
from pullback.lib.tokens import split, windows

FIELDS = ["step", "loss", "val_loss", "lr", "grad_norm", "tokens_per_s"]
WRITTEN = {"config.json", "metrics.jsonl", "loss.png", "model.safetensors", "tokeniser.json", "provenance.json", "checkpoints"}


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def names(folder):
    return {path.name for path in folder.iterdir()}


def held_back(config, words):
    return split(words.encode(Path(config.data).read_text()), context=config.window)[1]


class At(Silent):
    """Does something when the line of a given step is shown."""

    def __init__(self, step, act):
        self.step, self.act = step, act

    def at(self, done, text=""):
        if done == self.step:
            self.act()


def interrupt():
    raise KeyboardInterrupt


def test_metrics(finished):
    rows = lines(finished.folder)
    assert all(list(row) == FIELDS for row in rows[:-1]) and list(rows[-1]) == [*FIELDS, "checksum"]
    assert [row["step"] for row in rows] == [1, 10, 20, 25, 30, 40, 50, 60]
    assert [row["step"] for row in rows if row["val_loss"] is not None] == [25, 50, 60]
    assert all(row["tokens_per_s"] > 0 and row["grad_norm"] > 0 for row in rows)
    np.testing.assert_allclose([row["lr"] for row in rows], [schedule_of(finished.config)(row["step"] - 1) for row in rows], rtol=1e-6)
    assert rows[-1]["val_loss"] == finished.val_loss and rows[-1]["loss"] == finished.last.loss


def test_the_loss_falls(finished):
    rows = lines(finished.folder)
    assert rows[0]["loss"] == pytest.approx(math.log(30), abs=0.2)  # 30 characters, nothing known
    assert rows[-1]["val_loss"] < 2.5 and rows[-1]["loss"] < 2.5


def test_result_and_record(finished):
    assert finished.steps == 60 and not finished.interrupted
    assert names(finished.folder) == WRITTEN | {"samples.txt"}
    record = json.loads((finished.folder / "provenance.json").read_text())
    assert record == finished.record
    assert record["parameters"] == nn.param_count(template_of(finished.config)) and record["loss_unit"] == "nats per token"
    assert len(finished.sample) == 21 and (finished.folder / "samples.txt").read_text() == finished.sample + "\n"


def test_the_vocabulary_grows_to_the_tokeniser(finished):
    config, _, words = load_run(finished.folder)
    assert config == finished.config and config.model.vocab == words.vocabulary == 30


def test_last_validation_is_the_mean_over_the_whole_split(finished):
    """Consecutive windows of one context, each target once, by plain jax.numpy from the model's logits."""
    config, model, words = load_run(finished.folder)
    tokens, T = held_back(config, words), config.window
    losses = []
    for start in range(0, len(tokens) - 1, T):
        targets = tokens[start + 1 : start + 1 + T]
        ids = np.pad(tokens[start : start + len(targets)], (0, T - len(targets)))
        chance = np.asarray(jax.nn.log_softmax(model(jnp.asarray(ids[None]))[0]))
        losses += [-chance[i, target] for i, target in enumerate(targets)]
    assert len(losses) == len(tokens) - 1
    assert finished.val_loss == pytest.approx(np.mean(losses, dtype=np.float64), rel=1e-5)


def test_a_part_of_the_split_is_spread_over_it(finished):
    config, model, words = load_run(finished.folder)
    config, params, tokens = replace(config, batch=2), nn.named_parameters(model), held_back(config, words)
    evaluate = validation(config, tokens)
    assert evaluate(params) == evaluate(params, 10**6) == pytest.approx(finished.val_loss, rel=1e-6)
    batches = list(windows(tokens, config.window, 2))
    assert len(batches) == 11
    shares = [(float(model.loss(*map(jnp.asarray, batch))), batch.weights.sum()) for batch in batches[::3]]
    expected = sum(loss * weight for loss, weight in shares) / sum(weight for _, weight in shares)
    assert evaluate(params, 3) == pytest.approx(expected, rel=1e-6)


def test_same_seed_same_numbers_one_trace(job, finished, tmp_path):
    """A second run from its seed on gives the same lines and weights to the bit, by a step that was traced once."""
    again = job()
    again = again._replace(state=first_state(again.config))
    state, done, interrupted = run(again, Log(tmp_path, again.config.tokens_per_step, Silent()))
    assert done == 60 and not interrupted and again.step.traces == 1
    rows, first = lines(tmp_path), lines(finished.folder)
    for row in (*rows, *first):
        del row["tokens_per_s"]
    assert rows == first
    for name, x in nn.named_parameters(load_run(finished.folder).model).items():
        np.testing.assert_array_equal(state.params[name], x)


def test_nothing_is_compiled_once_the_steps_have_begun(tiny, job, tmp_path, monkeypatch):
    """But what looks at the validation split."""
    for program in (loop.sums, checkpoint.copied):
        program.clear_cache()  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setattr(jobs, "training_step", lambda *args: job().step)
    ready = jobs.prepare(replace(tiny, steps=12, checksum_every=4, checkpoint_every=3), Silent())
    compiled = []

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if "backend_compile" in event:
            compiled.append(kwargs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        saver = Saver(tmp_path, ready.origin, 2)
        run(ready._replace(evaluate=lambda params, batches: 1.0), Log(tmp_path, 1, Silent()), saver)
        saver.close()
        assert compiled == [] and "checksum" in lines(tmp_path)[-1] and len(list((tmp_path / "checkpoints").iterdir())) > 1
        jax.jit(lambda x: x + len(compiled))(1.0)
        assert len(compiled) == 1  # the listener hears
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_another_seed_is_another_run(job):
    config, state = job().config, job().state
    assert job().stream.seed == config.seed == 3  # batches follow it too
    other = first_state(replace(config, seed=config.seed + 1)).params
    assert all((other[name] != x).any() for name, x in state.params.items() if x.ndim > 1)
    assert all((other[name] == x).all() for name, x in state.params.items() if x.ndim == 1)


def test_a_step_drops_out_by_its_number(job):
    config = replace(job().config, model=replace(job().config.model, dropout=0.5))
    state, (inputs, targets) = job().state, map(jnp.asarray, job().stream.at(0))
    step = training_step(config)
    losses = [float(step(jax.tree.map(jnp.copy, state), number, inputs, targets)[1].loss) for number in (4, 4, 5)]
    kept = float(nn.with_parameters(template_of(config), state.params).loss(inputs, targets))
    assert losses[0] == losses[1] and len({kept, *losses}) == 3


def test_one_step_without_a_sample(tiny, tmp_path, prepared):
    result = train(replace(tiny, steps=1, sample_tokens=0), tmp_path / "run")
    assert result.sample == "" and names(result.folder) == WRITTEN
    assert [(row["step"], row["val_loss"]) for row in lines(result.folder)] == [(1, result.val_loss)]
    assert result.val_loss == pytest.approx(math.log(30), abs=0.2)


def test_a_raised_interrupt_writes_what_there_is(tiny, tmp_path, prepared):
    result = train(tiny, tmp_path / "run", At(30, interrupt))
    assert result.interrupted and 30 <= result.steps < 40 and result.sample == ""
    assert names(result.folder) == WRITTEN and lines(result.folder)[-1]["step"] == 30
    assert load_run(result.folder).config.steps == 60


def test_an_interrupt_in_the_last_validation(tiny, job, tmp_path, monkeypatch):
    def evaluate(params, batches):
        return 3.0 if batches else interrupt()

    monkeypatch.setattr(loop, "prepare", lambda config, show: job()._replace(evaluate=evaluate))
    result = train(tiny, tmp_path / "run")
    assert result.interrupted and (result.steps, result.val_loss, result.sample) == (60, 3.0, "")
    assert names(result.folder) == WRITTEN


def test_ctrl_c_lets_the_step_end(tiny, tmp_path, prepared):
    before = signal.getsignal(signal.SIGINT)
    result = train(tiny, tmp_path / "run", At(10, lambda: signal.raise_signal(signal.SIGINT)))
    assert signal.getsignal(signal.SIGINT) is before
    assert result.interrupted and result.steps in (10, 11)
    assert names(result.folder) == WRITTEN and lines(result.folder)[-1]["step"] == result.steps


def test_weights_that_a_step_has_used_up_are_not_written(tiny, job, tmp_path, monkeypatch):
    """A second Ctrl-C may hit after the step took its state and before its answer has a name."""

    def step(state, *rest):
        job_step(state, *rest)
        raise KeyboardInterrupt

    job_step = job().step
    monkeypatch.setattr(loop, "prepare", lambda config, show: job()._replace(step=step))
    result = train(tiny, tmp_path / "run")
    assert result.interrupted and names(result.folder) == {"config.json", "tokeniser.json", "provenance.json"}


def test_a_second_ctrl_c_stops_at_once():
    said = []
    with pytest.raises(KeyboardInterrupt), interruptible(said.append) as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGINT)
        assert interrupted() and said == ["stopping after this step; Ctrl-C again to stop at once"]
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("not reached")


def test_other_threads_have_no_ctrl_c():
    seen = []

    def work():
        with interruptible(print) as interrupted:
            seen.append(interrupted())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


def test_a_loss_that_is_no_number_ends_the_run(tiny, job, tmp_path, monkeypatch):
    def step(state, number, *batch):
        state, measured = job().step(state, number, *batch)
        return jax.tree.map(lambda x: x * 1e30, state) if number == 5 else state, measured

    monkeypatch.setattr(loop, "prepare", lambda config, show: job()._replace(step=step))
    with pytest.raises(Diverged, match="at step 10: lower schedule.peak"):
        train(tiny, tmp_path / "run")
    assert lines(tmp_path / "run")[-1]["loss"] is None
    assert names(tmp_path / "run") == WRITTEN - {"model.safetensors", "checkpoints"}


def test_too_large_for_the_machine(tiny, tmp_path):
    for changes in (dict(model=replace(tiny.model, width=1 << 22)), dict(batch=1 << 30)):
        with pytest.raises(ConfigError, match="GiB and this machine has"):
            train(replace(tiny, **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("text, says", [("", "is empty"), ("too short", "needs"), (None, "no corpus or file")])
def test_a_corpus_that_will_not_do(tiny, tmp_path, text, says):
    path = tmp_path / "text.txt"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=says):
        train(replace(tiny, data=str(path)), tmp_path / "run")
    assert not (tmp_path / "run").exists()
