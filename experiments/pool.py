"""Work spread over processes: each task is named, answers come as they are ready, and what hangs is ended.

A worker is a fresh Python that imports one function and calls it per task. The function yields its answers; an answer that
does not come within the limit ends the worker, and the task goes on in a new one after what was being worked at.
"""

import functools
import importlib
import multiprocessing
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What came of the index-th piece of a task. hung: nothing came in time, and `value` is None."""

    task: str
    index: int
    value: Any
    hung: bool = False


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(
    work: Callable[[str, int], Iterator[Any]],
    tasks: Sequence[str],
    limit_s: float,
    processes: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Generator[Answer, None, None]:
    """Answers of work(task, start) for every task, in the order in which they come.

    work: a module's function; it yields one answer per piece, from piece `start` on. limit_s: how long a piece may take.
    environment: variables that the workers have besides.
    """
    new = functools.partial(Worker, work, dict(environment or {}))
    waiting = [(task, 0) for task in tasks]
    workers: list[Worker] = []
    try:
        for _ in range(min(processes or cores(), len(tasks))):
            workers.append(new())
        while waiting or any(worker.task for worker in workers):
            for worker in workers:
                if not worker.task and waiting:
                    worker.start(*waiting.pop(0))
            busy = [worker for worker in workers if worker.task]
            soonest = min(worker.deadline(limit_s) for worker in busy)
            ready = wait([worker.pipe for worker in busy], max(0.0, soonest - time.monotonic()))
            for worker in busy:
                task, index = worker.task, worker.index
                if worker.pipe in ready:
                    message = worker.receive()
                    if message is not None:
                        yield Answer(task, index, message)
                        continue
                    if worker.alive:
                        continue
                elif time.monotonic() < worker.deadline(limit_s):
                    continue
                yield Answer(task, index, None, hung=True)  # it hangs, or it took its process with it
                worker.end()
                workers[workers.index(worker)] = new()
                waiting.insert(0, (task, index + 1))
    finally:
        for worker in workers:
            worker.end()


class Worker:
    """A process and the task that it is at; "" when it has none."""

    def __init__(self, work: Callable, environment: dict[str, str]):
        context = multiprocessing.get_context("spawn")  # JAX has threads, which a fork would lose
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, work.__module__, work.__qualname__), daemon=True)
        before = dict(os.environ)
        os.environ.update(environment)  # a process begins with what is there; JAX reads it when it is imported
        try:
            self.process.start()
        finally:
            os.environ.clear()
            os.environ.update(before)
        theirs.close()
        self.task, self.index, self.since, self.fresh, self.alive = "", 0, 0.0, True, True

    def start(self, task: str, index: int) -> None:
        self.task, self.index, self.since = task, index, time.monotonic()
        self.pipe.send((task, index))

    def deadline(self, limit_s: float) -> float:
        return self.since + limit_s + (STARTUP if self.fresh else 0.0)

    def receive(self) -> Any:
        """The next answer; `None` at the end of the task, and where the process has ended (`alive` tells)."""
        try:
            more, value = self.pipe.recv()
        except (EOFError, OSError):
            self.alive = False
            return None
        self.since, self.fresh = time.monotonic(), False
        if not more:
            self.task = ""
            return None
        self.index += 1
        return value

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


STARTUP = 60.0  # seconds that a worker may take to import JAX


def serve(pipe: Connection, module: str, name: str) -> None:
    """The worker's loop. What it prints goes to standard error: the other is the report's."""
    os.dup2(2, 1)
    work = getattr(importlib.import_module(module), name)
    try:
        while True:
            task, start = pipe.recv()
            for value in work(task, start):
                pipe.send((True, value))
            pipe.send((False, None))
    except (EOFError, KeyboardInterrupt, BrokenPipeError):
        return
