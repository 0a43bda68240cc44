"""How far is it? A bar with an estimate on a terminal, a line every ten seconds elsewhere; always on standard error."""

import sys
import time
from typing import Protocol

EVERY = 10.0  # seconds between plain lines


class Progress(Protocol):
    def start(self, total: int, unit: str) -> None: ...
    def at(self, done: int, text: str = "") -> None: ...
    def note(self, line: str) -> None: ...
    def close(self) -> None: ...


class Lines:
    """Plain lines, none for what is over at once."""

    def start(self, total: int, unit: str) -> None:
        self.total, self.unit, self.began = total, unit, time.monotonic()
        self.last = self.began

    def at(self, done: int, text: str = "") -> None:
        now = time.monotonic()
        if now - self.last >= EVERY and 0 < done < self.total:
            self.last = now
            left = clock((now - self.began) * (self.total - done) / done)
            self.note(f"{self.unit} {done:,} of {self.total:,}  {text}  {left} left")

    def note(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


class Bar:
    """A bar by rich, gone when it is done."""

    def __init__(self):
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Rich

        columns = TextColumn("{task.description} {task.completed:,} of {task.total:,}"), BarColumn(), TextColumn("{task.fields[text]}")
        self.rich = Rich(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True, refresh_per_second=4)

    def start(self, total: int, unit: str) -> None:
        self.task = self.rich.add_task(unit, total=total, text="")
        self.rich.start()

    def at(self, done: int, text: str = "") -> None:
        self.rich.update(self.task, completed=done, text=text)

    def note(self, line: str) -> None:
        self.rich.console.print(line, markup=False, highlight=False)

    def close(self) -> None:
        self.rich.stop()
        for task in self.rich.task_ids:
            self.rich.remove_task(task)


class Silent:
    def start(self, total: int, unit: str) -> None: ...
    def at(self, done: int, text: str = "") -> None: ...
    def note(self, line: str) -> None: ...
    def close(self) -> None: ...


def progress() -> Progress:
    return Bar() if sys.stderr.isatty() else Lines()


def clock(seconds: float) -> str:
    """1:02, 1:00:05."""
    minutes, seconds = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
