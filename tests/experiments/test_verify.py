"""A run that comes out the same is said to be equal, and one that does not is not: by step and by what differs.

Where PULLBACK_KILLS is set, it is killed after each of its steps in turn, each time in a repetition of its own.
"""

import json
import os
import re
import shutil
from dataclasses import replace

import jax
import pytest

from pullback import nn
from pullback.experiments.cli import main
from pullback.experiments.loop import train
from pullback.experiments.machine import Machine
from pullback.experiments.progress import Silent
from pullback.experiments.verify import compared, lives, verify
from pullback.lib.errors import ConfigError

LONG = "PULLBACK_KILLS" in os.environ

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture(scope="module")
def config(tiny):
    """All that a state can hold: dropout, bfloat16, parts of a batch, clipping, a warm-up, and a shuffle that crosses epochs."""
    model = replace(tiny.model, layers=2, dropout=0.1)
    return replace(
        tiny,
        steps=60,
        batch=32,
        accumulate=2,
        order="shuffled",
        precision="bfloat16",
        checksum_every=1,
        log_every=1,
        checkpoint_every=10,
        model=model,
    )


@pytest.fixture(scope="module")
def run(config, compiled_once, tmp_path_factory):
    return train(config, tmp_path_factory.mktemp("verify") / "run").folder


OVERFLOWS = [13, 26, 39, 52]


@pytest.fixture(scope="module")
def overflowing(config, compiled_once, tmp_path_factory):
    """In float16: after twelve good steps the loss scale grows to what no gradient survives, and falls back at the next step."""
    scaling = nn.LossScaling(initial=2.0**10, growth=2.0**40, backoff=2.0**-40, interval=12)
    return train(replace(config, precision="float16", loss_scale=scaling), tmp_path_factory.mktemp("overflowing") / "run").folder


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run, tmp_path / "copy")


def test_equal(run, capsys):
    assert main(["verify", str(run)]) == 0
    assert capsys.readouterr().out == "equal: the same to the bit at all 60 steps that have a checksum\n"


def test_it_crosses_epochs(config, run):
    tokens = json.loads((run / "provenance.json").read_text())["corpus"]["training_tokens"]
    assert tokens < config.steps * config.tokens_per_step / 2


def each(steps: int, *few: int) -> list[str]:
    """What is given to --interrupt: each step in the long form, else a few in one run."""
    return [str(step) for step in range(1, steps + 1)] if LONG else [",".join(map(str, few))]


@pytest.mark.parametrize("kills", each(60, 1, 7, 20, 21, 45, 60))
def test_equal_though_it_was_killed(run, kills, remembered, capsys):
    """Each life is a process of its own, which begins where the one before was killed."""
    killed_and_equal(run, kills, capsys)


def killed_and_equal(run, kills, capsys):
    steps = [int(kill) for kill in kills.split(",")]
    assert main(["verify", str(run), "--interrupt", kills, "--json"]) == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert answer["equal"] and answer["compared"] == 60 and answer["interrupted"] == steps and answer["step"] is None
    found = [(int(kill), int(saved)) for kill, saved in re.findall(r"killed after step (\d+); step (\d+) was saved", err)]
    assert [kill for kill, _ in found] == steps and all(kill - 1 <= saved <= kill for kill, saved in found)


def test_float16_skips_the_steps_that_overflow(overflowing):
    lines = [json.loads(line) for line in (overflowing / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in lines if row["grad_norm"] is None] == OVERFLOWS  # infinite or no number, which JSON lacks
    assert {row["step"]: row["loss_scale"] for row in lines} == {i: 2.0 ** (50 if i in OVERFLOWS else 10) for i in range(1, 61)}
    sums = {row["step"]: row["checksum"] for row in lines}
    for step in range(2, 61):
        assert (sums[step]["params"] == sums[step - 1]["params"]) == (step in OVERFLOWS)


@pytest.mark.parametrize("kills", each(60, 13, 27))
def test_float16_is_equal_though_it_was_killed(overflowing, kills, remembered, capsys):
    """The first goes on before a step that overflows, the second after one."""
    killed_and_equal(overflowing, kills, capsys)


def test_lives_run_on_what_was_given(config, remembered, tmp_path):
    short = replace(config, steps=2, schedule=replace(config.schedule, length=60), sample_tokens=0)
    lives(short, tmp_path / "run", tmp_path, [], Silent(), Machine(device=jax.default_backend(), threads=1, arena="off"))
    record = json.loads((tmp_path / "run" / "provenance.json").read_text())
    assert (record["threads"], record["arena"]) == (1, "off") and jax.default_backend() in record["device"].lower()


def test_a_part_from_a_checkpoint_on(run):
    assert verify(run, start=50, to=57)[:2] == (7, None)


def changed_line(folder, step, **changes):
    path = folder / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        if row["step"] == step:
            row.update(changes)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_part_that_differs_is_named(copy, capsys):
    rows = [json.loads(line) for line in (copy / "metrics.jsonl").read_text().splitlines()]
    changed_line(copy, 7, checksum=rows[6]["checksum"] | {"optimiser": "0" * 16})
    changed_line(copy, 9, loss=1.0)
    assert main(["verify", str(copy)]) == 1
    assert capsys.readouterr().out == "DIFFERENT: first at step 7, in optimiser\n"


def test_another_seed_differs_at_once(copy):
    record = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(record | {"seed": record["seed"] + 1}))
    verdict = verify(copy)
    assert verdict.step == 1 and {"loss", "params", "optimiser", "batch"} <= set(verdict.what)


def test_another_machine_is_noted(copy):
    path = copy / "provenance.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"xla_flags": "--xla_other"}))
    assert verify(copy).notes == ["note: xla_flags is now '' and was '--xla_other'"]


ROW = {"step": 5, "loss": 1.0, "val_loss": None, "tokens_per_s": 3.0, "checksum": {"params": "a", "batch": "b"}}


@pytest.mark.parametrize(
    "other, what",
    [
        ({**ROW, "tokens_per_s": 9.0, "val_loss": 2.0}, None),
        ({**ROW, "checksum": {"params": "a", "batch": "c"}}, ["batch"]),
        ({**ROW, "checksum": {"params": "a"}}, ["batch"]),
        ({**ROW, "loss": 1.0000001}, ["loss"]),
        ({name: value for name, value in ROW.items() if name != "checksum"}, ["params", "batch"]),
    ],
)
def test_what_is_compared(other, what):
    verdict = compared({5: ROW}, {5: other}, [])
    assert (verdict.step, verdict.what) == ((None, []) if what is None else (5, what))
    assert compared({5: ROW}, {}, []).step == 5  # a line that did not come


@pytest.mark.parametrize(
    "options, says",
    [
        (["--interrupt", "3,x"], "expected steps, as in 3,17"),
        (["--interrupt", "7,3"], "expected ascending steps"),
        (["--interrupt", "0"], "expected ascending steps"),
        (["--interrupt", "61"], "interrupt is 61; the repetition goes from step 0 to 60"),
        (["--interrupt", "3,10", "--from", "10"], "interrupt is 3,10; the repetition goes from step 10 to 60"),
        (["--from", "11"], "has no checkpoint of step 11; there are 50, 60"),
        (["--from", "60"], "has no checksum from step 61 to 60"),
    ],
)
def test_bad_input_is_one_line(run, options, says, capsys):
    assert main(["verify", str(run), *options]) == 2
    err = capsys.readouterr().err
    assert says in err.splitlines()[-1]


def test_a_run_without_checksums(config, tmp_path):
    folder = train(replace(config, steps=2, checksum_every=0, schedule=replace(config.schedule, length=60)), tmp_path / "run").folder
    with pytest.raises(ConfigError, match="its checksum_every is 0"):
        verify(folder)
