"""Checkpoints: there whole or not at all, found again bit for bit, refused where anything differs."""

import json
import shutil
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from pullback import nn
from pullback.experiments import checkpoint
from pullback.experiments.checkpoint import Origin, Saver, differences, newest, restore, there
from pullback.experiments.step import State
from pullback.lib import tensors
from pullback.lib.errors import ConfigError

ORIGIN = Origin({"seed": 1, "model": {"layers": 12}}, "d", "t", [])


def state(seed: int = 0, layers: int = 2) -> State:
    draw = lambda i, *shape: jax.random.normal(jax.random.fold_in(jax.random.key(seed), i), shape)
    params = {f"blocks.{i}.w": draw(i, 3, 3) for i in range(layers)}
    return State(params, nn.adamw(0.1).init(params), nn.LossScaling().init())


def saved(run: Path, *steps: int, keep: int = 2, losses=None) -> Saver:
    saver = Saver(run, ORIGIN, keep)
    for i, step in enumerate(steps):
        saver.save(step, saver.copy(state(step)), losses[i] if losses else None)
    saver.close()
    return saver


def names(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def test_comes_back_to_the_bit(tmp_path):
    saved(tmp_path, 7)
    found = newest(tmp_path, pytest.fail)
    assert found.step == 7 and found.origin == ORIGIN and found.val_loss is None
    came = restore(found, jax.eval_shape(lambda: state(7)))
    assert jax.tree.structure(came) == jax.tree.structure(state(7))
    for x, y in zip(jax.tree.leaves(came), jax.tree.leaves(state(7))):
        assert x.dtype == y.dtype and x.shape == y.shape and (x == y).all()


@pytest.mark.parametrize(
    "keep, losses, left",
    [
        (2, [5.0, 4.0, 3.0, 2.0], ["000003", "000004"]),
        (1, [2.0, 1.0, 3.0, 4.0], ["000002", "000004"]),
        (1, [None, 1.0, None, None], ["000002", "000004"]),
        (9, [1.0, 2.0, 3.0, 4.0], ["000001", "000002", "000003", "000004"]),
    ],
)
def test_the_last_and_the_best_stay(tmp_path, keep, losses, left):
    saved(tmp_path, 1, 2, 3, 4, keep=keep, losses=losses)
    assert names(tmp_path) == left


def test_the_state_is_that_of_the_call(tmp_path):
    """It may be donated to the next step as soon as `copy` has returned."""
    saver, now = Saver(tmp_path, ORIGIN, 2), state(3)
    copy = saver.copy(now)
    jax.tree.map(lambda x: x.delete(), now)
    saver.save(3, copy, None)
    saver.close()
    assert (restore(newest(tmp_path, pytest.fail), state(3)).params["blocks.0.w"] == state(3).params["blocks.0.w"]).all()


def fails_halfway(monkeypatch, error):
    """The next file of tensors ends in the middle of its bytes."""
    write = tensors.write

    def half(path, *rest):
        write(path, *rest)
        path.write_bytes(path.read_bytes()[:100])
        raise error

    monkeypatch.setattr(tensors, "write", half)


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path, monkeypatch):
    saver = saved(tmp_path, 1)
    fails_halfway(monkeypatch, OSError(28, "No space left on device"))
    saver.save(2, saver.copy(state(2)), None)
    with pytest.raises(ConfigError, match="cannot write .*000002: No space left on device"):
        saver.close()
    assert names(tmp_path) == ["000001"] and newest(tmp_path, pytest.fail).step == 1


def test_known_fault_a34_a_kill_during_the_second_save_leaves_the_first(tmp_path, monkeypatch):
    """Known fault A34: after half of the bytes of the second save the first still loads. What the killed save leaves behind has
    no name of a checkpoint, is not read, and is swept away by the next run."""
    saved(tmp_path, 1)
    monkeypatch.setattr(checkpoint.shutil, "rmtree", lambda *args, **kwargs: None)  # a killed process sweeps nothing
    fails_halfway(monkeypatch, OSError(5, "as if killed"))
    saver = Saver(tmp_path, ORIGIN, 2)
    saver.save(2, saver.copy(state(2)), None)
    with pytest.raises(ConfigError):
        saver.close()
    monkeypatch.undo()
    half = names(tmp_path)
    assert len(half) == 2 and half[0].startswith(".000002.partial-") and half[1] == "000001"
    assert newest(tmp_path, pytest.fail).step == 1
    Saver(tmp_path, ORIGIN, 2)
    assert names(tmp_path) == ["000001"]


@pytest.mark.parametrize("bit", [0, 12_345, -1])
def test_one_flipped_bit_is_found_and_the_one_before_is_taken(tmp_path, bit):
    saved(tmp_path, 1, 2)
    path, warned = tmp_path / "checkpoints" / "000002" / "state.safetensors", []
    data = bytearray(path.read_bytes())
    data[bit % len(data)] ^= 4
    path.write_bytes(data)
    assert newest(tmp_path, warned.append).step == 1
    [line] = warned
    assert line.startswith("WARNING") and "000002/state.safetensors is damaged: its sha256" in line
    shutil.rmtree(tmp_path / "checkpoints" / "000001")
    with pytest.raises(ConfigError, match="has no whole checkpoint"):
        newest(tmp_path, warned.append)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_text("{"),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), "format": 2})),
        lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), "step": "2"})),
        lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), "files": {"../../x": "0"}})),
        lambda path: (path.parent / "state.safetensors").unlink(),
    ],
)
def test_a_damaged_manifest_is_found(tmp_path, damage):
    saved(tmp_path, 1, 2)
    damage(tmp_path / "checkpoints" / "000002" / "manifest.json")
    warned = []
    assert newest(tmp_path, warned.append).step == 1 and len(warned) == 1 and "\n" not in warned[0]


def swapped(like: State) -> State:
    a, b = like.params["blocks.0.w"], like.params["blocks.1.w"]
    return like._replace(params={"blocks.1.w": a, "blocks.x.w": b})


@pytest.mark.parametrize(
    "like, says",
    [
        (state(layers=4), "lacks tensor 'params/blocks.2.w'"),
        (state(layers=1), "'params/blocks.1.w'"),
        (swapped(state()), "lacks tensor 'params/blocks.x.w'; has an unknown tensor 'params/blocks.0.w'"),
        (
            state()._replace(params={"blocks.0.w": jnp.ones((3, 3), "bfloat16"), "blocks.1.w": jnp.ones((9,))}),
            "is F32 of shape (3, 3), expected BF16",
        ),
        (state()._replace(scale=None), "has an unknown tensor 'scale/good', 'scale/scale', 'scale/skipped'"),
    ],
)
def test_another_state_is_refused_with_the_differences(tmp_path, like, says):
    saved(tmp_path, 1)
    with pytest.raises(ConfigError) as caught:
        restore(newest(tmp_path, pytest.fail), like)
    assert says in str(caught.value)


def test_differences_are_named_all_at_once():
    came = Origin({"seed": 2, "model": {"layers": 16}, "new": 1}, "d", "u", [["gelu", "straight_through"]])
    assert differences(came._asdict(), ORIGIN._asdict(), words=("is now", "was")) == [
        "config.seed is now 2 and was 1",
        "config.model.layers is now 16 and was 12",
        "config.new is new",
        "tokeniser is now 'u' and was 't'",
        "rules is now [['gelu', 'straight_through']] and was []",
    ]
    assert differences(ORIGIN._asdict(), json.loads(json.dumps(ORIGIN._asdict()))) == []


def test_strangers_in_the_folder_are_left_alone(tmp_path):
    saved(tmp_path, 1)
    (tmp_path / "checkpoints" / "notes.txt").write_text("mine")
    (tmp_path / "checkpoints" / "000002").write_text("a file")
    saved(tmp_path, 3, keep=1)
    assert names(tmp_path) == ["000002", "000003", "notes.txt"]
    assert [path.name for path in there(tmp_path / "checkpoints")] == ["000003"]


def test_the_step_does_not_wait_for_the_disk(tmp_path, monkeypatch):
    """Only the copy for the next save does."""
    write, disk = checkpoint.write, threading.Event()
    monkeypatch.setattr(checkpoint, "write", lambda *args: (disk.wait(60), write(*args)))
    saver = Saver(tmp_path, ORIGIN, 2)
    saver.save(1, saver.copy(state(1)), None)
    assert not there(tmp_path / "checkpoints")
    disk.set()
    saver.copy(state(2))
    assert newest(tmp_path, pytest.fail).step == 1
