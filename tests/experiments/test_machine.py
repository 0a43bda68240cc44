import os

import jax
import pytest

from pullback.experiments.machine import demand_memory, use_device, use_threads
from pullback.lib.errors import ConfigError, UnknownName


@pytest.fixture(autouse=True)
def as_before():
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    yield
    jax.config.update("jax_default_device", device)
    if cores:
        os.sched_setaffinity(0, cores)


def test_the_device_that_is_named_is_used():
    use_device("cpu:0")
    assert jax.config.jax_default_device == jax.devices("cpu")[0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["cpus", "cpu:", "cpu:-1", "cpu:x", "", "cuda"])
def test_what_is_no_device(name):
    with pytest.raises(UnknownName, match="write cpu, gpu or tpu"):
        use_device(name)


def test_a_device_that_is_not_there():
    with pytest.raises(ConfigError, match="no device 'cpu:99' on this machine; there are: .*cpu:0"):
        use_device("cpu:99")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not bind processes to cores")
def test_threads():
    cores = sorted(os.sched_getaffinity(0))
    use_threads(None)
    assert sorted(os.sched_getaffinity(0)) == cores
    use_threads(1)
    assert sorted(os.sched_getaffinity(0)) == cores[:1]
    for count in (0, -1, len(cores) + 1):
        with pytest.raises(ConfigError, match=f"threads is {count}"):
            use_threads(count)


def test_memory():
    demand_memory(1 << 20, "a trifle")
    with pytest.raises(ConfigError, match="a moon takes .* GiB and this machine has"):
        demand_memory(1 << 60, "a moon")
