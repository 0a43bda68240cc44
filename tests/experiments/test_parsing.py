import subprocess
import sys

import pytest

from pullback.experiments.commands import Train
from pullback.experiments.generate import Generate
from pullback.experiments.parsing import in_one_line, options

BOXES = {
    "value": (
        """\
╭─ Value error ────────────────────────────────────────────────────────╮
│ Error parsing --steps: invalid literal for int() with base 10: 'ten' │
│ ──────────────────────────────────────────────────────────────────── │
│ Argument helptext:                                                   │
│     --steps INT                                                      │
╰──────────────────────────────────────────────────────────────────────╯""",
        "--steps: 'ten' is no whole number",
    ),
    "choice over two rows": (
        """\
╭─ Invalid choice ───────────────────────────────────────────╮
│ invalid choice \x1b[1m'maybe'\x1b[0m for argument '--arena'. Expected one │
│ of ('on', 'off')                                           │
│ .                                                          │
│ ────────────────────────────────────────────────────────── │
│ For full helptext, run pullback train --help               │
╰────────────────────────────────────────────────────────────╯""",
        "invalid choice 'maybe' for argument '--arena'. Expected one of ('on', 'off')",
    ),
    "missing, on a terminal without lines": (
        """\
 Required options
 --------------------------------------------
  Missing from pullback generate:
      RUN
          The folder of the run. (required)
      --prompt STR
          The text to go on from. (required)
  --------------------------------------------
  For full helptext, run:
      pullback generate --help
""",
        "there is no RUN and no --prompt STR",
    ),
    "no box at all": ("something else", "something else"),
}


@pytest.mark.parametrize("box, line", BOXES.values(), ids=BOXES)
def test_in_one_line(box, line):
    assert in_one_line(box) == line


def test_options_are_what_a_command_takes():
    known = list(options(Train))
    assert {"steps", "model.layers", "schedule.peak", "optimiser.b2", "out", "device", "json", "arena"} <= set(known)
    assert len(known) == len(set(known)) and not {"preset", "config", "machine", "model"} & set(known)
    assert "model" not in options(Generate) and {"prompt", "top_k", "device"} <= set(options(Generate))


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_terminal_that_can_draw_boxes_and_one_that_cannot(encoding):
    """What tyro prints today, in a process whose standard output has this encoding."""
    code = "from pullback.experiments.cli import main; raise SystemExit(main(['generate']))"
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONIOENCODING": encoding}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "pullback: generate: there is no RUN|DIR; see `pullback generate --help`\n"
