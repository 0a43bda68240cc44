"""One tiny run that many tests look at, compiled once; and what tests that kill runs share."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback.experiments import job as jobs
from pullback.experiments import loop
from pullback.experiments.columns import rows_of
from pullback.experiments.config import OptimiserConfig, RunConfig, ScheduleConfig, to_record
from pullback.experiments.job import kept_of
from pullback.experiments.loop import Job, Result, prepare
from pullback.experiments.presets import preset
from pullback.experiments.progress import Silent
from pullback.models.gpt2 import GPT2Config

TEXT = "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs!\n" * 40


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "foxes.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="session")
def tiny(corpus) -> RunConfig:
    """Characters, one layer, 60 steps: a second once it is compiled."""
    return RunConfig(
        preset="quick",
        data=str(corpus),
        tokeniser="characters",
        steps=60,
        batch=8,
        validate_every=25,
        validate_batches=2,
        log_every=10,
        sample_tokens=20,
        seed=3,
        schedule=ScheduleConfig(peak=1e-2, end=1e-3, warmup=10),
        optimiser=OptimiserConfig(b2=0.95),
        model=GPT2Config(layers=1, heads=2, width=16, context=16, vocab=1, bias=False),
    )


@pytest.fixture(scope="session")
def compiled(tiny) -> Job:
    return prepare(tiny, Silent())


@pytest.fixture(scope="session")
def job(compiled) -> Callable[[], Job]:
    """The prepared `tiny`, as often as wanted: a step uses its state up."""
    return lambda: compiled._replace(state=jax.tree.map(jnp.copy, compiled.state))


@pytest.fixture
def prepared(job, monkeypatch) -> None:
    """`train` finds its programs compiled; what it does before and after is the same."""
    monkeypatch.setattr(loop, "prepare", lambda config, show: (j := job())._replace(config=replace(config, model=j.config.model)))


@pytest.fixture(scope="session")
def finished(tiny, job, tmp_path_factory) -> Result:
    """The run of `tiny`, to its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "prepare", lambda config, show: job())
        return loop.train(tiny, tmp_path_factory.mktemp("runs") / "finished")


def once(make: Callable, made: dict) -> Callable:
    """`make`, called once for the same numbers: those of a config, wherever its data are, and of tokens if it is given any."""

    def cached(config: RunConfig, *given):
        key = make.__name__, json.dumps(kept_of(config) | {"data": ""}), *(x.tobytes() for x in given if isinstance(x, np.ndarray))
        if key not in made:
            made[key] = make(config, *given)
        return made[key]

    return cached


@pytest.fixture(scope="session")
def programs() -> dict:
    return {}


@pytest.fixture(scope="module")
def compiled_once(programs):
    """Runs of one config share their programs; all else that a run does is done."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "training_step", once(jobs.training_step, programs))
        patch.setattr(jobs, "validation", once(jobs.validation, programs))
        yield


@pytest.fixture(scope="session")
def shelf(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("programs")


@pytest.fixture
def remembered(shelf, monkeypatch) -> None:
    """Processes that a test starts find what such processes have compiled before, and nothing that this one has: what they are
    compared with, it has compiled itself."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(shelf))


@pytest.fixture(scope="session")
def rows() -> Callable[[Path], list[dict]]:
    """The lines of a run's metrics, without what a clock makes of them."""
    return lambda folder: [{name: x for name, x in row.items() if name != "tokens_per_s"} for row in rows_of(folder / "metrics.jsonl")]


PLAN = {"compile_seconds": 5.2, "peak_bytes": 5_000, "arguments": 3_000, "outputs": 2_500, "aliased": 2_000, "temp": 1_500}
LEDGER = {f"blocks.{i}.{op}": 100 * (i + 1) for i in range(4) for op in ("attn/attention", "mlp/gelu")} | {"head/loss": 7_000}


@pytest.fixture
def leave(tmp_path) -> Callable[..., Path]:
    """`leave("name", steps=100)`: the files of a run of quick as one of so many steps leaves them, without the run."""

    def leave(name: str, steps: int = 100, done: int | None = None, config: dict | None = None, provenance: dict | None = None) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(to_record(replace(preset("quick"), steps=steps)) | (config or {})))
        record = {"parameters": 1_234, "device": "cpu:0", "loss_unit": "nats per token", "step": PLAN | {"residuals": LEDGER}}
        (folder / "provenance.json").write_text(json.dumps(record | (provenance or {})))
        with open(folder / "metrics.jsonl", "w") as file:
            for step in range(1, (steps if done is None else done) + 1):
                look = 3 + 100 / step + step / 100 if step % 25 == 0 else None
                row = dict(step=step, loss=2 + 100 / step, val_loss=look, lr=1e-3, grad_norm=1.0 + step % 7, tokens_per_s=1e4)
                file.write(json.dumps(row) + "\n")
        if done is None:
            (folder / "model.safetensors").write_bytes(b"weights")
            (folder / "samples.txt").write_text("Once upon a time\n")
        return folder

    return leave
