"""Work over processes: every answer arrives once, what hangs or dies is ended, and the rest of its task goes on."""

import importlib
import multiprocessing

import pytest

from pullback.experiments import pool

WORK = """
import os, time

def work(task, start):
    for i in range(start, 3):
        if task == "hangs" and i == 1:
            time.sleep(600)
        if task == "dies" and i == 2:
            os._exit(3)
        yield f"{task} {i}"

def nothing(task, start):
    return iter(())
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "pooled_work.py").write_text(WORK)
    monkeypatch.syspath_prepend(str(tmp_path))
    return importlib.import_module("pooled_work")


def test_every_piece_is_answered_or_said_to_hang(module):
    answers = list(pool.spread(module.work, ["fine", "hangs", "dies"], limit_s=6.0, processes=2))
    assert {(a.task, a.index) for a in answers} == {(task, i) for task in ("fine", "hangs", "dies") for i in range(3)}
    assert len(answers) == 9
    assert {(a.task, a.index) for a in answers if a.hung} == {("hangs", 1), ("dies", 2)}
    assert all(a.value == f"{a.task} {a.index}" for a in answers if not a.hung)


def test_a_task_may_have_no_pieces(module):
    assert list(pool.spread(module.nothing, ["a", "b", "c"], limit_s=6.0, processes=1)) == []
    assert list(pool.spread(module.nothing, [], limit_s=6.0)) == []


def test_workers_end_when_nobody_listens(module):
    answers = pool.spread(module.work, ["fine", "fine too"], limit_s=6.0, processes=2)
    next(answers)
    answers.close()
    assert not multiprocessing.active_children()
