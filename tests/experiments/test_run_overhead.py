"""What a checkpoint costs: how much longer a round took with it than the same round without."""

import pytest

from pullback.experiments.bench.run_overhead import HALF, figures_of


def test_extra_time_is_of_the_same_round_and_its_share_of_as_many_steps():
    figures = figures_of([2.1, 4.3, 3.2], [2.0, 4.0, 3.0], every=100)
    assert figures == pytest.approx({"step_s": 3.2 / (2 * HALF), "extra_s": 0.2, "spread_s": 0.05, "share": 0.2 / (100 * 3.0 / (2 * HALF))})
    assert figures_of([3.5], [3.0], every=50)["spread_s"] == 0
