"""Batches that are on the device before they are asked for, made in a thread of their own."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import jax


class Batches(Protocol):
    def at(self, step: int, /) -> Any: ...


def on_device(batch: Any) -> Any:
    """There, not on its way: the thread waits for that, and the step does not."""
    return jax.block_until_ready(jax.device_put(batch))


class Prefetch:
    """`depth` batches ahead of the step at work, from step `first` on.

        with Prefetch(stream, first=0) as batches:
            inputs, targets, weights = batches.at(step)

    Steps are asked for in order; another one begins anew there. What the loader raises at a step is raised by `at(step)`, with
    its traceback, and not before; asked again, the step is tried again. put: host to device.

    The thread is gone after `close`, and after this object or the program has ended: the batch at work is made to its end.
    """

    def __init__(self, batches: Batches, first: int, put: Callable[[Any], Any] = on_device, depth: int = 2):
        self.batches, self.put, self.depth = batches, put, depth
        self.thread = ThreadPoolExecutor(1, "prefetch")
        self.ahead: deque[Future] = deque()
        # A batch is let go two steps later, before the thread is woken. Whoever frees an array lets other threads run Python: freed
        # by the caller, who is about to begin a step, it would have that step wait until the next batch is made.
        self.taken: deque[Any] = deque(maxlen=2)
        self.begin(first)

    def begin(self, step: int) -> None:
        for future in self.ahead:
            future.cancel()
        self.ahead.clear()
        self.next = step
        for i in range(self.depth):
            self.order(step + i)

    def order(self, step: int) -> None:
        self.ahead.append(self.thread.submit(lambda: self.put(self.batches.at(step))))

    def at(self, step: int) -> Any:
        """What `put` made of the batch of a step."""
        if step != self.next:
            self.begin(step)
        future = self.ahead.popleft()
        self.next += 1
        try:
            self.taken.append(future.result())
        finally:
            self.order(step + self.depth)  # last, see `taken`
        return self.taken[-1]

    def close(self) -> None:
        self.thread.shutdown(cancel_futures=True)

    def __enter__(self) -> "Prefetch":
        return self

    def __exit__(self, *error) -> None:
        self.close()
