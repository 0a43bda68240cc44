"""The command line: `pullback COMMAND ...`, also `python -m pullback`.

Whatever is wrong ends in one line on standard error and exit code 2; Ctrl-C in 130. No traceback, unless it is our fault.
"""

import importlib.metadata
import io
import os
import signal
import sys
from collections.abc import Sequence

from ..lib import starting
from ..lib.atomic import reason
from ..lib.errors import PullbackError, UnknownName, near

LONGEST = 1000  # characters of a complaint


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. Without `argv` it is this process' own command line."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # it was closed before Python began
            setattr(sys, name, open(os.devnull, mode))
    code = outcome(sys.argv[1:] if argv is None else argv, own=argv is None)
    if argv is None and code == 130:
        os._exit(code)  # XLA may still be at work in its threads, and crashes where Python ends under them
    return code


def outcome(argv: Sequence[str], own: bool) -> int:
    try:
        return run(argv)
    except PullbackError as error:
        return complain(str(error))
    except KeyboardInterrupt:
        if own:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough
        return complain("interrupted", 130)
    except OSError as error:
        if own:  # if it was about standard output, Python would try again when it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return complain("nobody reads standard output any more; what was not printed is lost, files are not")
        return complain(f"{error.filename or 'the system'}: {reason(error)}")
    except Exception as error:
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            return complain(f"not enough memory: {str(error)[:200]}; take a smaller model, batch or context")
        raise


def run(argv: Sequence[str]) -> int:
    if argv[:1] == ["--version"]:
        print(f"pullback {importlib.metadata.version('pullback')}")
        return 0
    from .commands import COMMANDS  # half a second more of imports

    starting.over()
    if not argv or argv[0] in ("-h", "--help"):
        print("usage: pullback COMMAND [--help]\n")
        for name, command in COMMANDS.items():
            print(f"  {name:<10}{command.does}")
        return 0
    if argv[0] not in COMMANDS:
        raise UnknownName(f"no command {argv[0]!r}" + near(argv[0], COMMANDS))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a model may write what a terminal cannot show
    try:
        code = COMMANDS[argv[0]].run(argv[1:])
    except SystemExit as end:  # --help
        code = end.code if isinstance(end.code, int) else 0
    sys.stdout.flush()  # a closed pipe is to be found here, not when Python ends
    return code


def complain(text: str, code: int = 2) -> int:
    """One line, cut in its middle where a stranger's file made it long: it ends with what was expected."""
    line = " ".join(text.split())
    if len(line) > LONGEST:
        line = f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}"
    print(f"pullback: {line}", file=sys.stderr)
    return code
