import re

import pytest

from pullback.experiments.history import read_history
from pullback.experiments.report_memory import LISTED, ledger, memory
from pullback.experiments.report_parts import Run


@pytest.fixture
def run(leave):
    """A run with this said of its compiled step."""
    return lambda name, **step: Run(name, read_history(leave(name, provenance={"step": step})))


def table(page):
    rows = (re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall("<tr>(.*?)</tr>", page))
    return [[re.sub("<[^>]*>", "", cell) for cell in row] for row in rows]


def widths(page):
    return [float(width) for width in re.findall(r' width="([0-9.]*)%"', page)]


def test_a_peak_is_made_of_arguments_outputs_that_are_new_and_temporaries(run):
    page = memory([run("a", arguments=3072, outputs=2048, aliased=1024, temp=4096, residuals={"x/y": 512})])
    assert widths(page) == [37.5, 12.5, 50]
    heads, numbers = table(page)
    assert dict(zip(heads, numbers)) == {
        "peak": "8.0 KiB", "arguments": "3.0 KiB", "outputs": "2.0 KiB", "in donated memory": "1.0 KiB", "temporary": "4.0 KiB",
        "residuals kept": "512 B",
    }  # fmt: skip


def test_runs_share_a_scale(run):
    plan = {"outputs": 0, "aliased": 0, "temp": 0}
    page = memory([run("a", arguments=50, **plan), run("b", arguments=200, **plan), run("without", arguments=5)])
    assert widths(page)[::3] == [25, 100] and [row[0] for row in table(page)] == ["run", "a", "b"]


def test_layers_are_one_bar_and_the_longest_come_first(run):
    kept = {"wte/embedding": 10} | {f"blocks.{i}.mlp/gelu": 20 for i in range(12)} | {f"blocks.{i}.mlp/linear": 30 for i in range(12)}
    page = ledger([run("a", residuals=kept)])
    assert re.findall(r'class="name">([^<]*)<', page) == ["blocks.*.mlp/linear  ×12", "blocks.*.mlp/gelu  ×12", "wte/embedding"]
    assert widths(page) == [100, 66.67, 2.78]
    assert [row[0] for row in table(page)][1:3] == ["blocks.0.mlp/linear", "blocks.1.mlp/linear"] and len(table(page)) == 1 + 25


def test_what_is_beyond_fifteen_is_added_up(run):
    page = ledger([run("a", residuals={f"scope{chr(97 + i)}/op": 100 + i for i in range(20)})])
    names = re.findall(r'class="name">([^<]*)<', page)
    assert len(names) == 16 and names[0] == "scopet/op" and names[-1] == "the other 5"
    assert re.findall("<span>([^<]*)</span>", page)[-1] == f"{100 + 101 + 102 + 103 + 104} B"
    assert "the other" not in ledger([run("b", residuals={f"scope{chr(97 + i)}/op": 1 for i in range(15)})])


def test_runs_beside_each_other(run):
    page = ledger([run("a", residuals={"x/y": 50}), run("b", residuals={"x/y": 100, "b/only": 25})])
    assert widths(page) == [50, 100, 0, 25]
    assert table(page) == [["scope/op", "a", "b"], ["x/y", "50 B", "100 B"], ["b/only", "—", "25 B"]]


def test_what_is_no_number_of_bytes_is_left_out(run):
    page = ledger([run("a", residuals={"good/op": 1, "bad/op": "many", "less/op": -5, "true/op": True, "float/op": 2.5})])
    assert re.findall(r'class="name">([^<]*)<', page) == ["good/op"]
    assert "no residual ledger" in ledger([run("b", residuals=[1, 2])])
    assert "no memory plan" in memory([run("c", arguments=-1, outputs=1, aliased=1, temp=1)])


def test_a_ledger_without_end_is_cut(run):
    page = ledger([run("a", residuals={f"scope{i}/op": 1 for i in range(LISTED + 50)})])
    assert len(table(page)) == LISTED + 2 and "and 50 smaller" in page
