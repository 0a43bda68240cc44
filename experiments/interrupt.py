"""Ctrl-C and SIGTERM that let the step at work end, so that the state is whole when it is written."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible(say: Callable[[str], object]) -> Iterator[Callable[[], bool]]:
    """`with interruptible(print) as interrupted:` the first Ctrl-C or SIGTERM makes `interrupted()` true, the second one raises.

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
    before = {number: signal.signal(number, handler) for number in SIGNALS} if main else {}
    try:
        yield lambda: count > 0
    finally:
        for number, old in before.items():
            signal.signal(number, old)
