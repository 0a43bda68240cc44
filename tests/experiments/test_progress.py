import pytest

from pullback.experiments import progress
from pullback.experiments.progress import Bar, Lines, clock


@pytest.mark.parametrize("seconds, text", [(0, "0:00"), (59.6, "1:00"), (62, "1:02"), (3605, "1:00:05")])
def test_clock(seconds, text):
    assert clock(seconds) == text


def test_lines_say_how_long_it_takes(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    show = Lines()
    show.start(200, "step")
    for done in range(1, 201):
        now[0] += 0.5
        show.at(done, f"loss {done}")
    show.close()
    out, err = capsys.readouterr()
    assert out == "" and err.splitlines()[0] == "step 20 of 200  loss 20  1:30 left"
    assert len(err.splitlines()) == 9  # every ten seconds, and nothing at the end


def test_what_is_over_at_once_needs_no_line(capsys):
    show = Lines()
    show.start(2, "step")
    show.at(1)
    show.at(2)
    assert capsys.readouterr() == ("", "")


def test_a_bar_keeps_notes_and_leaves_standard_output_alone(capsys):
    show = Bar()
    show.start(3, "step")
    show.at(2, "loss 1.5")
    show.note("step 2 [loss] of 3")
    show.close()
    show.start(5, "token")  # again, without the first
    show.close()
    out, err = capsys.readouterr()
    assert out == "" and "step 2 [loss] of 3" in err
