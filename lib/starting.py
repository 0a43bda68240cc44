"""Ctrl-C before the command line has begun. Its imports take a second, in which nobody is there to catch it, and what is imported
may drop an exception that comes in between, or crash. And one that comes later, which a callback has dropped."""

import os
import signal
import sys


def at_once(number, frame) -> None:
    os._exit(130)


def over() -> None:
    """From now on Ctrl-C is a KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is at_once:
        signal.signal(signal.SIGINT, interrupt)


came = False  # has there been a Ctrl-C?


def interrupt(number, frame) -> None:
    global came
    came = True
    raise KeyboardInterrupt


def heed() -> None:
    """Raise a Ctrl-C that got lost: what is raised while JAX is called back by the garbage collector, Python drops."""
    if came:
        raise KeyboardInterrupt


is_command = os.path.basename(sys.argv[0]) == "pullback" or sys.orig_argv[1:3] == ["-m", "pullback"]  # other programs are not ours
if is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, at_once)
