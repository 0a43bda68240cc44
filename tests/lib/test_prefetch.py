"""A thread that makes batches ahead: the right ones, their errors where they belong, and gone when nobody wants it."""

import gc
import subprocess
import sys
import threading
import time
import traceback

import jax
import numpy as np
import pytest

from pullback.lib.epochs import Epochs
from pullback.lib.errors import ConfigError
from pullback.lib.prefetch import Prefetch


class Loader:
    """Says what it was asked for; fails at one step, so often."""

    def __init__(self, fails_at: int = -1, times: int = 1):
        self.fails_at, self.times, self.asked, self.threads = fails_at, times, [], set()

    def at(self, step):
        self.asked.append(step)
        self.threads.add(threading.current_thread())
        if step == self.fails_at and self.times:
            self.times -= 1
            try:
                {}["window"]
            except KeyError as cause:
                raise ConfigError(f"step {step} is damaged") from cause
        return np.array([step])


def soon(condition) -> bool:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def threads() -> list:
    return [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert soon(lambda: not threads())


def test_batches_are_those_of_the_loader_on_the_device():
    stream = Epochs(np.arange(100), 4, 3, 1, ends=np.array([30, 100]))
    with Prefetch(stream, 5) as batches:
        for step in range(5, 40):
            came, expected = batches.at(step), stream.at(step)
            assert type(came) is type(expected) and all(isinstance(x, jax.Array) for x in came)
            for one, other in zip(came, expected, strict=True):
                np.testing.assert_array_equal(one, other)


def test_they_are_made_ahead_in_another_thread():
    loader = Loader()
    with Prefetch(loader, 0, lambda x: x, depth=3) as batches:
        assert soon(lambda: loader.asked == [0, 1, 2])
        time.sleep(0.05)
        assert loader.asked == [0, 1, 2]  # and no more than that
        assert batches.at(0).tolist() == [0] and soon(lambda: loader.asked == [0, 1, 2, 3])
    assert len(loader.threads) == 1 and threading.current_thread() not in loader.threads


def test_another_step_begins_anew():
    loader = Loader()
    with Prefetch(loader, 0, lambda x: x) as batches:
        assert [int(batches.at(step)[0]) for step in (0, 1, 7, 8, 2, 2, 3)] == [0, 1, 7, 8, 2, 2, 3]


def test_an_error_comes_at_its_step_with_its_cause():
    with Prefetch(loader := Loader(fails_at=3), 0, lambda x: x) as batches:
        for step in range(3):
            assert batches.at(step).tolist() == [step]
            assert soon(lambda made=step + 3: len(loader.asked) >= made)  # the failure is known at step 1, and not spoken of
        with pytest.raises(ConfigError, match="^step 3 is damaged$") as error:
            batches.at(3)
        assert isinstance(error.value.__cause__, KeyError)
        assert any(frame.name == "at" and frame.filename == __file__ for frame in traceback.extract_tb(error.value.__traceback__))
        assert batches.at(3).tolist() == [3] and batches.at(4).tolist() == [4]  # it may be better the next time


def test_errors_that_nobody_tries_again_leave_the_batches_ahead_in_order():
    class Half(Loader):
        def at(self, step):
            self.fails_at, self.times = step, step % 2
            return super().at(step)

    with Prefetch(loader := Half(), 0, lambda x: x) as batches:
        for step in range(8):
            if step % 2:
                with pytest.raises(ConfigError, match=f"^step {step} is damaged$"):
                    batches.at(step)
            else:
                assert batches.at(step).tolist() == [step]
        assert soon(lambda: loader.asked == list(range(10)))


def test_an_error_of_the_device_is_raised_too():
    def full(batch):
        raise MemoryError("the device is full")

    with Prefetch(Loader(), 0, full) as batches, pytest.raises(MemoryError, match="the device is full"):
        batches.at(0)


def test_close_ends_the_thread_at_once():
    loader = Loader()
    batches = Prefetch(loader, 0)
    assert threads()
    batches.close()
    assert not threads() and len(loader.asked) <= 2
    batches.close()


@pytest.mark.parametrize("slow", [0.0, 0.2])  # the thread waits for work, or is at work
def test_the_thread_ends_with_its_owner(slow):
    batches = Prefetch(Loader(), 0, lambda batch: time.sleep(slow))
    batches.at(0)
    assert threads()
    del batches
    gc.collect()
    assert soon(lambda: not threads())


@pytest.mark.parametrize("end", ["", "raise SystemExit(0)"])
def test_the_program_ends_while_the_thread_is_at_work(end):
    code = f"""
import time
from pullback.lib.prefetch import Prefetch

class Slow:
    def at(self, step):
        time.sleep(0.05)
        return step

batches = Prefetch(Slow(), 0, depth=3)
batches.at(0)
print("done", flush=True)
{end}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
