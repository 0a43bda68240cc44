"""What XLA is told on a GPU. Here there is none: what it is told is tested, not what it does."""

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from pullback.autograd import compile
from pullback.experiments import kernels
from pullback.experiments.kernels import FILE, doubts_on, keep, kernels_of, options, options_on

WRITE, READ = Path("/somewhere/new"), Path("/runs/a") / FILE


def test_a_reproducible_run_on_a_gpu_has_its_kernels_written_and_read():
    first = options_on("gpu", True, lambda: WRITE, None)
    assert first == {"xla_gpu_exclude_nondeterministic_ops": True, "xla_gpu_dump_autotune_results_to": str(WRITE)}
    assert options_on("gpu", True, lambda: WRITE, READ) == {**first, "xla_gpu_load_autotune_results_from": str(READ)}


@pytest.mark.parametrize("platform, reproducible", [("cpu", True), ("tpu", True), ("cpu", False), ("gpu", False)])
def test_elsewhere_nothing_is_told_and_no_file_is_asked_for(platform, reproducible):
    assert options_on(platform, reproducible, lambda: pytest.fail("asked for"), READ) == {}


def test_here():
    assert jax.default_backend() != "cpu" or options(True) == options(False) == {}


def test_the_installed_xla_knows_the_options():
    """By name and type; one that it does not know is an error, not the end of the process."""
    told = options_on("gpu", True, lambda: WRITE, READ)
    program = compile(lambda x: x + 1, options=told)
    assert program(jnp.float32(1)) == 2 and not WRITE.exists()
    for wrong in ({"xla_gpu_no_such_option": True}, {name: 3.5 for name in told if "exclude" in name}):
        with pytest.raises(jax.errors.JaxRuntimeError, match="INVALID_ARGUMENT"):
            compile(lambda x: x + 1, options=wrong)(jnp.float32(1))


def test_the_kernels_of_a_run_are_those_that_lie_in_it(tmp_path, monkeypatch):
    """Read while its job is made, if they are there; written by XLA beside it, and copied into it."""
    monkeypatch.setattr(kernels, "device", lambda: type("Device", (), {"platform": "gpu"}))
    new, old = tmp_path / "new", tmp_path / "old"
    new.mkdir()
    old.mkdir()
    kernels.chosen.cache_clear()
    keep(new)  # XLA has chosen nothing yet
    with kernels_of(old):
        told = options(True)
        assert "xla_gpu_load_autotune_results_from" not in told
        (old / FILE).write_text("version: 3")
        assert options(True) == {**told, "xla_gpu_load_autotune_results_from": str(old / FILE)}
        assert options(False) == {}
    assert options(True) == told
    keep(new)
    assert list(new.iterdir()) == []
    Path(str(told["xla_gpu_dump_autotune_results_to"])).write_text("version: 4")
    keep(new)
    assert (new / FILE).read_text() == "version: 4" and (old / FILE).read_text() == "version: 3"
    kernels.chosen.cache_clear()


def test_doubts():
    assert doubts_on("cpu", True, False) == doubts_on("cpu", False, False) == doubts_on("gpu", True, True) == []
    assert doubts_on("gpu", True, False) == ["autotune.textproto is gone, so that kernels are chosen anew"]
    assert doubts_on("gpu", False, True) == ["the run is not marked as reproducible, and on a GPU no two of those are alike"]
