"""The arena, proved by page faults. Each process below is fresh: the settings cannot be taken back."""

import json
import os
import subprocess
import sys

import pytest

from pullback.lib import arena

needs_glibc = pytest.mark.skipif(arena.glibc() is None, reason="not Linux with glibc: the arena does nothing here")

STEPS = """
import json, statistics, sys, threading
from pullback.lib import arena

if "thread" in sys.argv:
    wait = threading.Event()
    threading.Thread(target=lambda: (bytes(1 << 16), wait.wait()), daemon=True).start()
import jax, jax.numpy as jnp

if "late" in sys.argv:
    jnp.ones(3).block_until_ready()
came = arena.keep("keep" in sys.argv)
assert arena.keep("keep" in sys.argv)[:2] == came[:2]  # a second call changes nothing
faults = []
if "steps" in sys.argv:
    program = jax.jit(lambda x: (x @ x.T) @ x).lower(jnp.ones((4096, 8))).compile()
    assert program.memory_analysis().temp_size_in_bytes >= 64 << 20
    x = jnp.ones((4096, 8))
    for _ in range(12):
        before = arena.page_faults()
        program(x).block_until_ready()
        faults.append(arena.page_faults() - before)
came = arena.status()
print(json.dumps({**came._asdict(), "median": statistics.median(faults[4:] or [0]), "kept": arena.kept}))
"""


def process(*words: str, **environment: str) -> dict:
    """Run STEPS; `None` of the surroundings' tunables reach it."""
    clean = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
    done = subprocess.run([sys.executable, "-c", STEPS, *words], env={**clean, **environment}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@needs_glibc
def test_steps_fault_no_more():
    off, on = process("steps"), process("steps", "keep")
    assert (off["on"], off["why"]) == (False, "off") and (on["on"], on["why"]) == (True, "mallopt")
    assert off["median"] > 16_000  # 64 MiB in pages of 4 KiB
    assert on["median"] < 200
    assert on["peak_mib"] >= on["resident_mib"] > 0


@needs_glibc
def test_tunables_do_the_same_from_outside():
    value = arena.tunables("glibc.malloc.check=0:glibc.malloc.arena_max=4")
    assert value.startswith("glibc.malloc.check=0:") and value.count("arena_max") == 1
    assert arena.tunables(value) == value
    came = process("steps", "keep", GLIBC_TUNABLES=value)
    assert (came["on"], came["why"]) == (True, "GLIBC_TUNABLES")
    assert came["median"] < 200


@needs_glibc
@pytest.mark.parametrize("reason", ["late", "thread"])
def test_too_late_is_said(reason):
    came = process(reason, "keep")
    assert not came["on"]
    assert "have malloc arenas already" in came["why"] and arena.tunables() in came["why"]


def test_elsewhere_nothing_happens(monkeypatch):
    monkeypatch.setattr(arena, "kept", "")
    monkeypatch.setattr(arena.platform, "libc_ver", lambda: ("musl", "1.2"))
    monkeypatch.setenv("GLIBC_TUNABLES", arena.tunables())
    assert arena.keep()[:2] == (False, "not Linux with glibc")
    assert not arena.status().on


def test_off_by_default(monkeypatch):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.setattr(arena, "kept", "")
    monkeypatch.setattr(arena, "settle", lambda: pytest.fail("keep(False) must change nothing"))
    assert arena.keep(False)[:2] == (False, "off")


def test_page_faults_count():
    before = arena.page_faults()
    bytearray(64 << 20)
    assert before >= 0 and (arena.page_faults() > before or before == 0)
