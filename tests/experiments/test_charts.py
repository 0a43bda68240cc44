import re

import numpy as np
import pytest

from pullback.experiments.charts import MOST, SIDE, Line, Scale, bars, chart, short, size, span, stack, text, thin, ticks


def line(values, kind="line", steps=None, colour=0, name="a"):
    values = np.asarray(values, float)
    return Line(name, colour, np.arange(1, len(values) + 1) if steps is None else np.asarray(steps), values, kind)


def drawn(page):
    """The points of each path, as numbers again: by the scale that the chart states."""
    [scale] = re.findall(r'data-scale="([^"]*)"', page)
    last, low, high, log = map(float, scale.split())
    for path in re.findall(r' d="M([^"]*)"', page):
        across, down = np.array([point.split() for point in path.split("L")], float).T / SIDE
        yield across * last, low * (high / low) ** (1 - down) if log else high - (high - low) * down


def test_a_path_is_the_numbers():
    values = np.random.default_rng(0).normal(5, 1, 300)
    [(steps, found)] = drawn(chart("Loss", "nats", [line(values)]))
    np.testing.assert_allclose(steps, np.arange(1, 301), atol=300 / SIDE)
    np.testing.assert_allclose(found, values, atol=np.ptp(values) / SIDE * 1.2)


def test_a_path_by_logarithms_is_the_numbers_too():
    values = np.geomspace(10, 1e-3, 50)
    page = chart("Loss", "nats", [line(values)])
    [(_, found)] = drawn(page)
    assert "nats, log scale" in page
    np.testing.assert_allclose(found, values, rtol=2e-3)


def test_thinning_keeps_spikes_and_ends():
    values = np.zeros(100_000)
    values[12_345], values[54_321], values[-3:] = 9, -9, (5, -5, 1)
    steps, kept = thin(np.arange(100_000) * 10, values)
    assert len(kept) <= MOST and np.all(np.diff(steps) > 0)
    assert (kept.max(), kept.min(), kept[-1], steps[-1]) == (9, -9, 1, 999_990)
    assert {123_450, 543_210} <= set(steps.tolist())


def test_few_points_are_left_alone():
    steps, kept = thin(np.arange(MOST), np.ones(MOST))
    assert len(kept) == MOST


@pytest.mark.parametrize("low, high", [(0, 1), (2.9, 7.7), (-3, 1e5), (1e-7, 3e-7), (0, 1000), (4.6, 4.61)])
def test_ticks_are_round_and_within(low, high):
    found = ticks(Scale(low, high), 5)
    assert 3 <= len(found) <= 8 and low <= min(found) and max(found) <= high
    assert len({short(tick) for tick in found}) == len(found)  # told apart as they are written


@pytest.mark.parametrize("low, high", [(0.004, 1.1), (1e-9, 1e3), (2.0, 50.0)])
def test_ticks_of_logarithms(low, high):
    found = ticks(Scale(low, high, log=True), 5)
    assert 2 <= len(found) <= 6 and low <= min(found) and max(found) <= high


def test_scales():
    assert not span([line([7.6, 3.0])], False).log
    assert span([line([1.0, 0.01])], False).log
    assert not span([line([1.0, 0.0])], False).log  # no logarithm of 0
    assert span([line([1.0, 0.01])], True) == Scale(0.0, 1.08)
    alike = span([line([2.0, 2.0])], False)
    assert alike.low < 2 < alike.high
    spiked = np.ones(1000)
    spiked[500] = 1e6
    assert span([line(spiked, "faint")], False).high < 2 < span([line(spiked)], False).high


@pytest.mark.parametrize("count", [0, 1])
def test_a_chart_of_hardly_any_numbers(count):
    page = chart("Loss", "nats", [line([3.0][:count])])
    assert ("no numbers yet" in page) == (count == 0) and page.count("<circle") == count and "nan" not in page.lower()


def test_dots_and_legend():
    several = chart(
        "Loss", "", [line([1, 2], name="first"), line([1, 2], "points", name="first, validation"), line([1, 2], colour=1, name="second")]
    )
    assert several.count("<circle") == 2 and re.findall(r"</i>([^<]*)</li>", several) == ["first", "second"]
    alone = chart("Loss", "", [line([1, 2], name="training"), line([1, 2], "points", colour=1, name="validation")])
    assert re.findall(r"</i>([^<]*)</li>", alone) == ["training", "validation"]
    assert "<circle" not in chart("Loss", "", [line(np.ones(100), "points")])


@pytest.mark.parametrize(
    "x, said",
    [
        (0, "0"),
        (0.0003, "0.0003"),
        (3e-5, "3e-5"),
        (-2e-9, "-2e-9"),
        (0.25, "0.25"),
        (1500, "1,500"),
        (20_000, "20k"),
        (1.5e6, "1.5M"),
        (1e15, "1e15"),
    ],
)
def test_short(x, said):
    assert short(x) == said


def test_size():
    assert [size(n) for n in (0, 1023, 1024, 1 << 20, 3 << 29, 1 << 50)] == [
        "0 B",
        "1,023 B",
        "1.0 KiB",
        "1.0 MiB",
        "1.5 GiB",
        "1,024.0 TiB",
    ]


def test_text_is_no_markup():
    assert text("<b>&\"'\x00\x1b\u202e\ud800\n\xa0é") == "&lt;b&gt;&amp;&quot;&#x27;\ufffd\ufffd\ufffd\ufffd\n\xa0é"


def test_a_stack_fills_its_share():
    page = stack("memory", [("a", 10), ("b", 0), ("c", 30)], 80)
    assert re.findall(r'x="([0-9.]*)%" width="([0-9.]*)%"', page) == [("0.00", "12.50"), ("12.50", "0.00"), ("12.50", "37.50")]


def test_bars_are_as_long_as_their_numbers():
    page = bars([("x", [100, 50]), ("<y>", [0, 25])])
    assert [float(w) for w in re.findall(r'width="([0-9.]*)%"', page)] == [100, 50, 0, 25] and "&lt;y&gt;" in page
    assert bars([("x", [0])]).count("<li>") == 1
