"""Ctrl-C that lets the step at work end, so that the state is whole when it is written."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interruptible(say: Callable[[str], object]) -> Iterator[Callable[[], bool]]:
    """`with interruptible(print) as interrupted:` the first Ctrl-C makes `interrupted()` true, the second one raises.

    Outside the main thread, where Python has no signals, it is never true.
    """
    count = 0

    def handler(number, frame):
        nonlocal count
        count += 1
        if count > 1:
            raise KeyboardInterrupt
        say("stopping after this step; Ctrl-C again to stop at once")

    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, handler) if main else None
    try:
        yield lambda: count > 0
    finally:
        if main:
            signal.signal(signal.SIGINT, before)
