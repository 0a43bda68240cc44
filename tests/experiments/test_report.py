import json
import re
import shutil
import subprocess
import time
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pullback.experiments.cli import main
from pullback.experiments.small.config import SMALL

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
VOID = {"meta", "br", "link", "img", "input"}
HOSTILE = "</pre></script><script>alert('x')</script><img src=x onerror=alert(1)>\x00\u202e"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class Page(HTMLParser):
    """A page that must be balanced: what its tags are, and its text."""

    def __init__(self, path: Path):
        super().__init__()
        self.open, self.tags, self.ids, self.told = [], Counter(), Counter(), ""
        self.source = path.read_text()
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.ids.update(value for name, value in attributes if name == "id")
        assert not [name for name, _ in attributes if name in ("src", "href") or name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] not in (["style"], ["script"]):
            self.told += data


def report(*argv) -> None:
    assert main(["report", *map(str, argv)]) == 0


def parts(page: Page) -> None:
    assert max(page.ids.values()) == 1
    assert page.ids.keys() >= {"figures", "memory", "residuals", "samples", "settings", "provenance"}
    assert page.tags["figure"] >= 4 and page.tags["script"] == 1
    for title in ("Loss", "Learning rate", "Gradient norm", "Speed"):
        assert title in page.told
    assert not re.search(r"https?://|url\(|@import", page.source)


def test_a_run(leave, capsys):
    folder = leave("run", provenance={"git": {"sha": "abc123", "dirty": True}, "novelty": [1, {"deep": "thing"}]})
    report(folder)
    assert capsys.readouterr().out == f"{folder}/report.html\n"
    page = Page(folder / "report.html")
    parts(page)
    for said in (
        "finished",
        "preset quick",
        "1,234",
        "nats per token",
        "Once upon a time",
        "abc123",
        "novelty.1.deep",
        "10,000",
        "4.9 KiB",
    ):
        assert said in page.told, said
    assert "blocks.*.attn/attention" in page.told and "×4" in page.told and "blocks.3.mlp/gelu" in page.told
    assert [page.source.count(f'<path class="{line}"') for line in ("faint c0", "line c0", "points c1")] == [3, 4, 1]
    assert re.search(r"steps\s*100\s*1500", re.sub(r"<[^>]*>", " ", page.source))  # what differs from the preset


def test_again_replaces_and_leaves_nothing_else(leave):
    folder = leave("run")
    before = {path.name for path in folder.iterdir()}
    report(folder)
    first = (folder / "report.html").read_bytes()
    report(folder)
    assert (folder / "report.html").read_bytes() == first and {path.name for path in folder.iterdir()} == before | {"report.html"}


def test_several_runs(leave, capsys):
    another = {"git": {"sha": "def"}, "step": {"compile_seconds": 9.5}}
    folders = leave("a", steps=200), leave("b", config={"seed": 7}), leave("c", provenance=another)
    report(*folders)
    assert capsys.readouterr().out == "runs-report.html\n"
    page = Page(Path("runs-report.html"))
    parts(page)
    [table] = re.findall(r"<section id='differences'>.*?</section>", page.source)
    rows = [re.findall(r"<t[hd][^>]*>([^<]*)<", row) for row in re.findall(r"<tr>(.*?)</tr>", table)]
    assert rows == [
        ["setting", "a", "b", "c"],
        ["steps", "200", "100", "100"],
        ["seed", "0", "7", "0"],
        ["provenance: git.sha", "—", "—", "def"],
    ]
    assert [page.source.count(f'<path class="line c{i}"') for i in range(4)] == [4, 4, 4, 0]


def test_runs_of_one_name_are_told_apart(leave):
    report(leave("x/run"), leave("y/run"))
    assert "x/run" in Page(Path("runs-report.html")).told


def test_sixteen_runs(leave):
    folders = [leave(f"run{i}", steps=60) for i in range(16)]
    report(*folders, "--out", "all.html")
    page = Page(Path("all.html"))
    assert ".c15{" in page.source and page.tags["path"] == 16 * 5


def test_json(leave, capsys):
    report(leave("a"), leave("b", done=10), "--json", "--out", "x.html")
    answer = json.loads(capsys.readouterr().out)
    assert answer["report"] == "x.html" and [(run["status"], run["step"]) for run in answer["runs"]] == [("finished", 100), ("stopped", 10)]


def test_hostile_text_is_text(leave):
    name = "<b>run<script>"
    folder = leave(
        name,
        config={"preset": "<script>alert(2)", "data": HOSTILE, "<i>k": HOSTILE},
        provenance={
            "device": HOSTILE,
            "loss_unit": HOSTILE,
            "step": {"residuals": {HOSTILE: 10}, "arguments": "many"},
            "parameters": 10**400,
            HOSTILE: HOSTILE,
        },
    )
    (folder / "samples.txt").write_text(HOSTILE)
    with open(folder / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"step": 101, "loss": 3.0, HOSTILE: 1.0, "checksum": HOSTILE}) + "\n")
    report(folder, "--out", "one.html")
    report(folder, leave("other"), "--out", "two.html")
    for file in ("one.html", "two.html"):
        page = Page(Path(file))
        parts(page)
        assert page.tags["img"] == page.tags["b"] == 0 and "\x00" not in page.source and "alert('x')" in page.told


@pytest.mark.parametrize("name", SMALL)
def test_small_presets(name, leave):
    config = {field: getattr(SMALL[name], field) for field in SMALL[name].__dataclass_fields__}
    folder = leave("run")
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "samples.txt").rename(folder / "report.txt")
    (folder / "provenance.json").write_text('{"loss_unit": "squared miles", "step": {"compile_seconds": null, "peak_bytes": null}}')
    report(folder)
    page = Page(folder / "report.html")
    parts(page)
    for said in (
        "squared miles",
        "examples per second",
        f"All as in the preset {name}",
        "Once upon",
        "no memory plan",
        "no residual ledger",
    ):
        assert said in page.told, said


@pytest.mark.parametrize("done", [0, 1, 2])
def test_a_run_that_has_hardly_begun(done, leave):
    folder = leave("run", done=done)
    (folder / "provenance.json").unlink()
    report(folder)
    page = Page(folder / "report.html")
    parts(page)
    assert "stopped" in page.told and ("no numbers yet" in page.told) == (done == 0) and not re.search(r"\bnan\b", page.source)


def test_a_hundred_thousand_lines(leave):
    folder = leave("run", steps=100_000)
    began = time.monotonic()
    report(folder)
    assert time.monotonic() - began < 20  # two seconds where nothing else runs: what grows faster than the lines is found
    assert (folder / "report.html").stat().st_size < 500_000
    for path in re.findall(r' d="([^"]*)"', (folder / "report.html").read_text()):
        assert path.count("L") < 1_500


BAD = {
    "no run": ([], "there is no RUN"),
    "empty": (["a", ""], "there is no RUN, or its name is empty"),
    "near": (["ab"], "ab is no run: there is no such folder; did you mean 'a'"),
    "twice": (["a", "d.html/../a"], "a run is named twice"),
    "too many": ([str(i) for i in range(17)], "17 runs; one report shows at most 16"),
    "other ending": (["a", "--out", "x.pdf"], "expected a name that ends in .html"),
    "no folder": (["a", "--out", "no/x.html"], "there is no folder no"),
    "out a folder": (["a", "--out", "d.html"], "it is a folder"),
    "damaged": (["bad"], "bad/metrics.jsonl is damaged: line 1 "),
    "too deep": (["deep"], "deep/provenance.json nests more than 8 deep"),
    "option": (["a", "--oat", "x"], "did you mean '--out'"),
}


@pytest.mark.parametrize("argv, says", BAD.values(), ids=BAD)
def test_bad_input_is_one_line(argv, says, leave, tmp_path, capsys):
    leave("a")
    (leave("bad") / "metrics.jsonl").write_text("nothing\n")
    leave("deep", provenance=json.loads('{"a":' * 20 + "1" + "}" * 20))
    (tmp_path / "d.html").mkdir()
    before = sorted(tmp_path.rglob("*"))
    assert main(["report", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == "" and says in err and err.count("\n") == 1 and sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium: neither chromium nor google-chrome is installed")
def test_in_a_browser(leave, tmp_path):
    """It opens from disk without a word on the console, at both widths, and nothing is wider than the window."""
    assert BROWSER
    report(leave("a"), "--out", "one.html")
    report(tmp_path / "a", leave("b", steps=300), "--out", "two.html")
    wide = """<script>onload = () => { document.title = [...document.querySelectorAll("iframe")].map(f => {
        const d = f.contentDocument, plot = d.querySelector(".plot")
        plot.dispatchEvent(new f.contentWindow.PointerEvent("pointermove", {clientX: plot.getBoundingClientRect().right}))
        return `${d.documentElement.scrollWidth <= f.clientWidth} ${d.querySelector(".readout").textContent.split("\\n")[0]}` }).join(",")
    }</script>"""
    frames = "".join(
        f'<iframe src="{file}" width="{width}" height="900"></iframe>' for file in ("one.html", "two.html") for width in (1280, 390)
    )
    Path("frames.html").write_text(f"<!DOCTYPE html><title>none</title>{frames}{wide}")
    options = "--headless --no-sandbox --disable-gpu --allow-file-access-from-files --enable-logging=stderr --v=0 --dump-dom".split()
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    done = subprocess.run([BROWSER, *options, profile, f"file://{tmp_path}/frames.html"], capture_output=True, text=True, timeout=120)
    assert "CONSOLE" not in done.stderr
    assert re.findall("<title>([^<]*)</title>", done.stdout)[0] == "true step 100,true step 100,true step 300,true step 300"
