"""docs/runs-that-repeat.md, from an empty folder: every command does what the page says, and prints what it shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "runs-that-repeat.md"
MARK = "--- the next block ---"


def words(line: str) -> list[str]:
    """Without the folder of the package, and without the tensor that is the furthest off, which another machine may see otherwise."""
    return re.findall(r"[A-Za-z]{3,}", re.sub(r"\S*/(?=models/\w+\.py:)|(?<=furthest off )\S+", "", line))


def test_every_command_of_the_page(tmp_path, capsys):
    """A line without a decimal fraction is printed as it stands, of others the words; gaps and losses are a machine's own."""
    blocks = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.S)
    shell = [code for kind, code in blocks if kind == "sh"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    script = "set -e\n" + f"echo '{MARK}'\n".join(shell)
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    printed = done.stdout.split(MARK + "\n")
    assert len(printed) == len(shell) == 7
    for kind, code in blocks:
        if kind == "python":
            exec(code, {"__name__": "notebook"})
            came = capsys.readouterr().out
        elif kind == "sh":
            came = printed[shell.index(code)]
        else:
            shown, lines = code.splitlines(), came.splitlines()
            lines = lines[-len(shown) :]
            for due, line in zip(shown, lines, strict=True):
                assert line == due if not re.search(r"\d\.\d", due) else words(line) == words(due), came
    assert (tmp_path / "report.html").stat().st_size > 10_000
