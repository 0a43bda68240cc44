"""A run that comes out the same is said to be equal, and one that does not is not: by step and by what differs."""

import json
import re
import shutil
from dataclasses import replace

import pytest

from pullback.experiments import loop, resume
from pullback.experiments.cli import main
from pullback.experiments.loop import train
from pullback.experiments.verify import compared, verify
from pullback.lib.errors import ConfigError


@pytest.fixture(scope="module")
def config(tiny):
    """All that a state can hold: dropout, bfloat16, parts of a batch, clipping, a warm-up, and a shuffle that crosses epochs."""
    model = replace(tiny.model, layers=2, dropout=0.1)
    return replace(
        tiny,
        steps=20,
        batch=32,
        accumulate=2,
        order="shuffled",
        precision="bfloat16",
        checksum_every=1,
        log_every=1,
        checkpoint_every=10,
        model=model,
    )


@pytest.fixture(scope="module", autouse=True)
def compiled_once(config):
    """One step for all repetitions in this process."""
    made = {}

    def prepare(config, show, begun=None, of=resume.prepare):
        job = of(config, show, begun)
        first = made.setdefault(json.dumps(job.origin.config), job)
        return job._replace(step=first.step, evaluate=first.evaluate)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "prepare", prepare)
        patch.setattr(resume, "prepare", prepare)
        yield


@pytest.fixture(scope="module")
def run(config, tmp_path_factory):
    return train(config, tmp_path_factory.mktemp("verify") / "run").folder


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run, tmp_path / "copy")


def test_equal(run, capsys):
    assert main(["verify", str(run)]) == 0
    assert capsys.readouterr().out == "equal: the same to the bit at all 20 steps that have a checksum\n"


def test_equal_though_it_was_killed(run, capsys):
    """Twice, each time in a process of its own."""
    assert main(["verify", str(run), "--interrupt", "1,12", "--json"]) == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert answer["equal"] and answer["compared"] == 20 and answer["interrupted"] == [1, 12] and answer["step"] is None
    kills = re.findall(r"killed after step (\d+); step (\d+) was saved", err)
    assert [int(kill) for kill, _ in kills] == [1, 12] and all(int(saved) <= int(kill) for kill, saved in kills)
    assert int(kills[1][1]) > 0


def test_a_part_from_a_checkpoint_on(run):
    assert verify(run, start=10, to=17)[:2] == (7, None)


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
        (["--interrupt", "20"], "interrupt is 20; the repetition goes from step 0 to 20"),
        (["--from", "11"], "has no checkpoint of step 11; there are"),
        (["--from", "20"], "has no checksum from step 21 to 20"),
    ],
)
def test_bad_input_is_one_line(run, options, says, capsys):
    assert main(["verify", str(run), *options]) == 2
    err = capsys.readouterr().err
    assert says in err.splitlines()[-1]


def test_a_run_without_checksums(config, tmp_path):
    folder = train(replace(config, steps=2, checksum_every=0), tmp_path / "run").folder
    with pytest.raises(ConfigError, match="its checksum_every is 0"):
        verify(folder)
