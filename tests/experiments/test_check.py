"""`pullback check`: the table, its JSON, its picture, and files of users."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pullback.experiments import check, checking, op_file, pool
from pullback.experiments.checking import Judged, judge, looks
from pullback.experiments.cli import main
from pullback.experiments.remainder import remainders
from pullback.lib.errors import ConfigError
from pullback.ops.cases import CASES
from pullback.ops.cases.case import telling
from pullback.ops.op import REGISTRY

MINE = '''
import numpy as np
import pullback as pb
from pullback import ops
from pullback.ops.cases.case import Case, normal

@pb.fused(saves=("x",))
def swish_{name}(x):
    """y = x·σ(x)."""
    return x / (1 + pb_exp(-x))

import jax.numpy as jnp
pb_exp = jnp.exp

@swish_{name}.rule
def swish_backward(res, y_bar):
    s = 1 / (1 + jnp.exp(-res.x))
    return (y_bar * ({slope}),)

@swish_{name}.composite
def swish_composite(x):
    return ops.div(x, ops.add(1.0, ops.exp(ops.neg(x))))

CASES = {cases}
'''
RIGHT = "s + res.x * s * (1 - s)"


@pytest.fixture
def mine(tmp_path, registry):
    def write(name: str, slope: str = RIGHT, cases: str | None = None) -> str:
        path = tmp_path / f"{name}.py"
        path.write_text(MINE.format(name=name, slope=slope, cases=cases or f"[Case(swish_{name}, 'row', normal((5,)))]"))
        return f"{path}:swish_{name}"

    return write


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """In this process: the pool has tests of its own."""

    def spread(work, tasks, limit):
        from pullback.experiments.pool import Answer

        for task in tasks:
            for i, value in enumerate(work(task, 0)):
                yield Answer(task, i, value)

    monkeypatch.setattr(check, "spread", spread)


def test_one_op_by_name(capsys):
    assert main(["check", "neg", "--quick"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[1].split()[0] == "neg" and "X" not in out.splitlines()[1]


def test_json_has_the_form_that_scripts_rely_on(capsys):
    assert main(["check", "gelu", "less", "--quick", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["summary"] == {"ops": 2, "exact_rules": 1, "variants": 2, "faces": 0, "order2": 1, "failed": 0, "skipped": 0}
    exact = next(row for row in found["rules"] if row["rule"] == "exact")
    assert exact["op"] == "gelu" and exact["ok"] and exact["checks"]["directions"]["gap"] < exact["checks"]["directions"]["limit"]
    assert {row["contract"] for row in found["rules"]} == {"exact", "surrogate", "constant"}


def test_a_file_of_a_user(mine, capsys):
    assert main(["check", mine("right"), "--details"]) == 0
    assert "swish_right" in capsys.readouterr().out


def test_a_wrong_rule_fails_in_words_and_in_the_exit_code(mine, capsys):
    assert main(["check", mine("wrong", "s + res.x * s * s"), "--quick"]) == 1
    out = capsys.readouterr().out
    assert "FAILED swish_wrong  directions  at 'row'" in out and "measured" in out


def test_what_a_file_prints_is_not_on_standard_output(mine):
    loud = mine("loud", f"print('in the rule') or ({RIGHT})", cases="print('in the file') or [Case(swish_loud, 'row', normal((5,)))]")
    done = subprocess.run([sys.executable, "-m", "pullback", "check", loud, "--quick", "--json"], capture_output=True, text=True)
    assert json.loads(done.stdout)["summary"]["failed"] == 0 == done.returncode
    assert "in the file" in done.stderr and "in the rule" in done.stderr


def test_a_picture(mine, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert main(["check", "neg", mine("drawn", "s"), "--quick", "--plot", str(tmp_path / "grid.png")]) == 1
    assert (tmp_path / "grid.png").read_bytes()[:4] == b"\x89PNG"


def test_the_remainder_of_a_right_rule_falls_with_slope_two_and_of_a_wrong_one_with_one(mine, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    fall = {}
    for name, slope in (("sound", RIGHT), ("unsound", f"1.001 * ({RIGHT})")):
        op, cases = checking.op_and_cases(mine(name, slope))
        (_, steps, off), *_ = remainders(op, "exact", cases)
        near = slice(8, 12)  # steps small enough for two terms, large enough for float64
        fall[name] = np.polyfit(np.log(steps[near]), np.log(off[near]), 1)[0]
    assert abs(fall["sound"] - 2) < 0.1 and fall["unsound"] < 1.5
    assert main(["check", mine("drawn"), "--quick", "--remainder", str(tmp_path / "slope.png")]) == 0
    assert (tmp_path / "slope.png").read_bytes()[:4] == b"\x89PNG"
    assert main(["check", "less", "--remainder", str(tmp_path / "none.png")]) == 2
    assert "name ops that have rules" in capsys.readouterr().err


BAD = {
    "unknown op": (["geluu"], "no op 'geluu'; did you mean 'gelu'"),
    "no such file": (["nothing.py:f"], "nothing.py: no such file"),
    "no name": (["{right}.py"], "name the op too"),
    "no folder for the picture": (["neg", "--plot", "nowhere/grid.png"], "there is no folder nowhere"),
    "no folder for the remainder": (["neg", "--remainder", "nowhere/slope.png"], "there is no folder nowhere"),
    "nameless picture": (["neg", "--plot", ""], "the name of a file to write is empty"),
    "a picture of another kind": (["neg", "--plot", "grid.pdf"], "grid.pdf: expected a name that ends in .png"),
    "a folder that cannot be written into": (["neg", "--plot", "/proc/grid.png"], "cannot write /proc/grid.png"),
    "a folder for a picture": (["neg", "--remainder", "{folder}"], "it is a folder"),
    "unknown option": (["--quik"], "did you mean '--quick'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(name, mine, tmp_path, capsys):
    argv, text = BAD[name]
    mine("right")
    (tmp_path / "folder.png").mkdir()
    known = {"right": tmp_path / "right", "folder": tmp_path / "folder.png"}
    assert main(["check", *(word.format(**known) for word in argv)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and text in err


@pytest.mark.parametrize(
    "target, text",
    [
        (lambda mine: mine("a", cases="[]"), "has no cases"),
        (lambda mine: mine("b").replace(":swish_b", ":swich_b"), "did you mean 'swish_b'"),
        (lambda mine: mine("c", cases="[1/0]"), "ZeroDivisionError"),
        (lambda mine: mine("i", cases="exit(3)"), "cannot be imported: SystemExit: 3"),
        (lambda mine: mine("e", cases="5"), "has no cases"),
        (lambda mine: mine("f", cases="[Case(swish_f, 'r', lambda rng: 1 / 0)]"), "case 'r' raised ZeroDivisionError"),
        (lambda mine: mine("g", cases="[Case(swish_g, 'r', lambda rng: None)]"), "case 'r' makes a NoneType"),
        (lambda mine: mine("h", cases="[Case(swish_h, 'r', normal((2,)), 5)]"), "case 'r' has statics 5"),
        (lambda mine: mine("d", slope="1)) + ((("), "cannot be imported: SyntaxError"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(target, text, mine, capsys):
    assert main(["check", target(mine)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and text in err


@pytest.mark.parametrize("last_line", ["while True: pass", "import os; os._exit(0)"])
def test_a_file_that_never_ends_or_ends_everything_is_one_line(last_line, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(op_file, "IMPORT", 1.0)
    monkeypatch.setattr(pool, "STARTUP", 15.0)
    (tmp_path / "mine.py").write_text(last_line)
    assert main(["check", f"{tmp_path / 'mine.py'}:op"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "mine.py did not come to its end" in err


def test_one_file_by_two_paths_is_one_module_and_two_files_with_one_name_are_told_apart(mine, tmp_path, monkeypatch, registry):
    first = mine("twin")
    path, name = first.rsplit(":", 1)
    monkeypatch.chdir(tmp_path)
    assert op_file.load(first)[0] is op_file.load(f"{Path(path).relative_to(tmp_path)}:{name}")[0]
    other = tmp_path / "other.py"
    other.write_text(Path(path).read_text())
    with pytest.raises(ConfigError, match=f"an op named '{name}' is there already, from {re.escape(path)}"):
        op_file.load(f"{other}:{name}")


def test_the_cases_that_say_most_differ_in_their_statics():
    cases = [case for case in CASES if case.op.name == "attention"]
    ranked = telling(cases)
    assert len({tuple(sorted(case.statics)) for case in ranked[:3]}) == 3
    assert len(ranked) == len(cases) and all(case in ranked for case in cases)


def test_a_part_of_the_work_is_the_same_work():
    assert len(looks("gelu", False)) == len(REGISTRY["gelu"].rules)
    (last,) = judge("quick gelu", len(REGISTRY["gelu"].rules) - 1)
    assert isinstance(last, Judged) and last.rule == list(REGISTRY["gelu"].rules)[-1]


def test_what_hangs_is_a_failure():
    row = checking.hung("some.py:slow")
    assert not row.ok and row.op == "slow" and "no answer" in row.lines["structure"].text
