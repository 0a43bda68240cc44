"""A disk that is full is said in one line, and costs nothing that was saved.

A limit on the size of files is what everybody may set: the system refuses to write beyond it as it does on a full disk. Where a
user may mount a file system of his own, a small one is filled up too.
"""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pullback.experiments import checkpoint, loop, pieces, prepare, run
from pullback.experiments import resume as resumption
from pullback.experiments.checkpoint import FOLDER, newest, there, unfinished
from pullback.experiments.cli import main
from pullback.experiments.config import to_record
from pullback.experiments.loop import train
from pullback.experiments.metrics import Log

resource = pytest.importorskip("resource", reason="this system has no limits of a process")

pytestmark = pytest.mark.usefixtures("compiled_once")

BYTES = 4  # that still go into the file, so that a line of metrics is cut off


@pytest.fixture(scope="module")
def config(tiny):
    return replace(tiny, steps=40, log_every=10, checksum_every=10, checkpoint_every=10)


@pytest.fixture(scope="module")
def straight(config, compiled_once, tmp_path_factory):
    return train(config, tmp_path_factory.mktemp("straight") / "run")


@pytest.fixture
def disk(monkeypatch):
    """`disk.fills(place, name, call, file)`: it is full when that function is called for this time. `disk.space()`: no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    class Disk:
        def fills(self, place, name: str, call: int = 1, file: Path | None = None) -> None:
            calls, of = iter(range(1, 1000)), getattr(place, name)

            def full(*args, **kwargs):
                if next(calls) == call:
                    there = file.stat().st_size if file and file.exists() else 0
                    resource.setrlimit(resource.RLIMIT_FSIZE, (there + BYTES, hard))
                return of(*args, **kwargs)

            monkeypatch.setattr(place, name, full)

        def space(self) -> None:
            monkeypatch.undo()
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    yield Disk()
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def options(record: dict, before: str = "--") -> list[str]:
    """A config as the command line has it."""
    pairs = [(before + name, value) for name, value in record.items() if name != "preset" and value is not None]
    return [x for name, value in pairs for x in (options(value, f"{name}.") if isinstance(value, dict) else [name, str(value)])]


def complaint(capsys) -> str:
    """The line that a command ended with."""
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err
    [line] = [line for line in err.splitlines() if line.startswith("pullback: ")]
    assert err.endswith(f"{line}\n")
    return line


FULL = [  # what is called when the disk fills up, the which time; what the line names; steps in the last checkpoint
    ((run, "write_json"), 1, "config.json", None),
    ((run, "write_json"), 3, "provenance.json", None),
    ((Log, "append"), 5, "metrics.jsonl", 20),
    ((checkpoint, "write"), 1, f"{FOLDER}/000010/state.safetensors", None),
    ((checkpoint, "write"), 3, f"{FOLDER}/000030/state.safetensors", 20),
    ((checkpoint, "write_json"), 3, f"{FOLDER}/000030/manifest.json", 20),
    ((loop, "save_weights"), 1, "model.safetensors", 40),
    ((loop, "plot_loss"), 1, "loss.png", 40),
    ((loop, "write_text"), 1, "samples.txt", 40),
]


@pytest.mark.parametrize("place, call, file, saved", FULL, ids=[f"{file}-{call}" for _, call, file, _ in FULL])
def test_known_fault_a34_a_full_disk(config, straight, rows, disk, place, call, file, saved, tmp_path, capsys):
    """Known fault A34: disk full: error reported, old file intact. No half file has a final name, what was saved is whole, and
    the run goes on when there is space."""
    folder, samples = tmp_path / "run", file == "samples.txt"
    config = config if samples else replace(config, sample_tokens=0)  # they take longer than the rest
    command = ["train", "quick", *options(to_record(config)), "--out", str(folder)]
    disk.fills(*place, call, folder / file)
    assert main(command) == 2
    disk.space()
    assert complaint(capsys) == f"pullback: cannot write {folder / file}: File too large"
    assert not unfinished(folder / FOLDER) and not list(folder.glob(".*"))
    if file == "metrics.jsonl":
        assert (folder / file).read_text().splitlines()[-1] == '{"st'
    else:
        assert not (folder / file).exists()
    if saved is None:
        assert not there(folder / FOLDER)
        return
    assert newest(folder, pytest.fail).step == saved == max(int(path.name) for path in there(folder / FOLDER))
    assert main(["resume", str(folder)]) == 0
    assert rows(folder) == rows(straight.folder)
    for name in ["model.safetensors", *(["samples.txt"] if samples else [])]:
        assert (folder / name).read_bytes() == (straight.folder / name).read_bytes(), name
    assert (folder / "loss.png").is_file()


@pytest.mark.parametrize("place, file", [((resumption, "write_json"), "config.json"), ((Log, "resume"), "metrics.jsonl")])
def test_a_run_that_has_no_space_to_go_on_stays_as_it_was(straight, disk, place, file, tmp_path, capsys):
    folder = shutil.copytree(straight.folder, tmp_path / "run")
    files = lambda: {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    before = files()
    disk.fills(*place)
    assert main(["resume", str(folder), "--steps", "50"]) == 2
    disk.space()
    assert complaint(capsys) == f"pullback: cannot write {folder / file}: File too large"
    changed = [path.name for path, data in files().items() if data != before[path]]
    assert changed == ([] if file == "config.json" else ["config.json"])


@pytest.mark.parametrize("place, rest", [((pieces, "write_bytes"), False), ((prepare, "write_tokens"), True)])
def test_tokens_are_prepared_from_where_there_was_no_space_left(disk, place, rest, corpus, tmp_path, capsys):
    command = ["data", "prepare", str(corpus), "--tokenizer", "bytes", "--processes", "1", "--out"]
    assert main([*command, str(tmp_path / "right.tokens")]) == 0
    capsys.readouterr()
    out = tmp_path / "foxes.tokens"
    disk.fills(*place)
    assert main([*command, str(out)]) == 2
    disk.space()
    line = complaint(capsys)
    assert f"cannot write {out}" in line and line.endswith(": File too large")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["foxes.tokens.parts", "right.tokens"]
    assert (tmp_path / "foxes.tokens.parts" / "000000-000000").exists() == rest
    assert main([*command, str(out)]) == 0
    assert out.read_bytes() == (tmp_path / "right.tokens").read_bytes()


SMALL = """
mount -t tmpfs -o size={size}k none {disk} || exit 77
cp -r {run} {disk}/run
{python} -m pullback resume {disk}/run --sample-tokens 0
echo code $? with $(ls -A {disk}/run/checkpoints)
mount -o remount,size=64m {disk}
{python} -m pullback resume {disk}/run --sample-tokens 0
echo code $?
cp -r {disk}/run {out}
"""


@pytest.mark.usefixtures("remembered")
def test_a_file_system_without_space(config, straight, rows, tmp_path):
    """Room for all but the next checkpoint."""
    cut, out = shutil.copytree(straight.folder, tmp_path / "cut"), tmp_path / "out"
    for path in (cut / "model.safetensors", cut / "samples.txt", cut / "loss.png"):
        path.unlink()
    shutil.rmtree(cut / FOLDER / "000040")
    (tmp_path / "disk").mkdir()
    size = sum(-(-path.stat().st_size // 4096) * 4 for path in cut.rglob("*")) + 24
    script = SMALL.format(size=size, disk=tmp_path / "disk", run=cut, python=sys.executable, out=out)
    try:
        done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no unshare here, to mount a small file system")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no file system may be mounted here: {done.stderr.strip()}")
    first, *_ = said = done.stdout.splitlines()
    assert first == "code 2 with 000030" and said[-1] == "code 0"
    [line] = [line for line in done.stderr.splitlines() if line.startswith("pullback: ")]
    assert line == f"pullback: cannot write {tmp_path}/disk/run/{FOLDER}/000040/state.safetensors: No space left on device"
    assert "Traceback" not in done.stderr
    assert rows(out) == rows(straight.folder)
    assert (out / "model.safetensors").read_bytes() == (straight.folder / "model.safetensors").read_bytes()
