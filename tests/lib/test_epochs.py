"""Batches in epochs: once each, in another order each time, and the same from wherever a run goes on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullback.lib.epochs import Epochs
from pullback.lib.errors import ConfigError

TEN = np.arange(11)  # windows of one target: ten items, each known by its input


def items(stream, steps) -> list[list[int]]:
    return [stream.at(step).inputs[:, 0].tolist() for step in steps]


def ten(**options) -> Epochs:
    return Epochs(TEN, **{"context": 1, "batch": 2, "seed": 3, **options})


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_run_goes_on_where_it_stopped(shuffle):
    """Known fault A33: three epochs of ten items in fifteen batches, stopped after each."""
    whole = items(ten(shuffle=shuffle), range(15))
    for epoch in range(3):
        assert sorted(sum(whole[5 * epoch : 5 * epoch + 5], [])) == list(range(10))
    for k in range(16):
        assert items(ten(shuffle=shuffle), range(k)) + items(ten(shuffle=shuffle), range(k, 15)) == whole
    if shuffle:
        assert len({str(whole[5 * epoch : 5 * epoch + 5]) for epoch in range(3)}) == 3


def test_a_run_that_accumulates_goes_on_where_it_stopped():
    """Known fault A33: the same where an update takes its batch in two halves."""
    whole = items(ten(), range(15))
    halves = lambda steps: [one + two for one, two in (items(ten(batch=1), (2 * step, 2 * step + 1)) for step in steps)]
    for k in range(16):
        assert halves(range(k)) + halves(range(k, 15)) == whole


def test_a_batch_may_lie_in_several_epochs():
    for batch in (1, 3, 7, 10, 25, 40):
        seen = sum(items(ten(batch=batch), range(-(-60 // batch))), [])[:60]
        assert seen == sum(items(ten(), range(30)), [])
        assert all(sorted(seen[i : i + 10]) == list(range(10)) for i in range(0, 60, 10))


def test_seeds_differ_and_steps_need_no_order():
    assert len({str(items(ten(seed=seed), range(5))) for seed in range(10)}) == 10
    stream = ten()
    assert items(stream, [2**40, 3, 1, 3]) == items(ten(), [2**40]) + items(ten(), [3, 1, 3])


@given(st.integers(1, 3), st.sampled_from([1, 2, 3, 6]), st.integers(0, 30), st.booleans())
def test_hosts_have_parts_of_one_batch(times, hosts, step, kept):
    ends = np.array([5, 6, 30]) if kept else None
    make = lambda **part: Epochs(np.arange(30), 4, 6 * times, 1, ends=ends, **part).at(step)
    parts = [make(host=host, hosts=hosts) for host in range(hosts)]
    for whole, *split in zip(make(), *parts):
        if whole is None:
            assert split == [None] * hosts
        else:
            np.testing.assert_array_equal(np.concatenate(split), whole)


@given(st.integers(1, 9), st.integers(0, 60), st.booleans())
def test_no_token_is_lost_for_ever(context, more, shuffle):
    tokens = np.arange(100, 101 + context + more)
    stream = Epochs(tokens, context, 1, 5, shuffle=shuffle)
    assert stream.windows == (len(tokens) - 1) // context and stream.examples == 1
    epochs = []
    for epoch in range(2):
        batches = [stream.at(epoch * stream.windows + i) for i in range(stream.windows)]
        assert all((b.targets == b.inputs + 1).all() and b.weights is None for b in batches)
        epochs.append([int(t) for b in batches for t in b.targets[0]])
        assert len(set(epochs[-1])) == len(epochs[-1]) == stream.windows * context
        if not shuffle:
            assert epochs[-1] == sorted(epochs[-1])
    assert set(epochs[0]) | set(epochs[1]) == set(tokens[1:].tolist())


@given(st.lists(st.integers(1, 12), min_size=1, max_size=9).filter(lambda sizes: max(sizes) > 1), st.integers(1, 5), st.booleans())
def test_no_window_crosses_a_document(sizes, context, shuffle):
    """Token 100·d + i + 1 is the i-th of document d; 0 is the padding alone."""
    tokens = np.concatenate([100 * d + np.arange(1, size + 1) for d, size in enumerate(sizes)])
    stream = Epochs(tokens, context, 1, 2, shuffle=shuffle, ends=np.cumsum(sizes))
    assert stream.windows == sum(-(-(size - 1) // context) for size in sizes)
    for epoch in range(2):
        seen = []
        for i in range(stream.windows):
            inputs, targets, weights = (np.asarray(rows)[0] for rows in stream.at(epoch * stream.windows + i))
            assert set(weights.tolist()) <= {0.0, 1.0} and weights.dtype == np.float32
            real = int(weights.sum())
            assert real and (weights[:real] == 1).all() and not inputs[real:].any() and not targets[real:].any()
            assert (targets[:real] == inputs[:real] + 1).all() and inputs[:real].all()
            assert (inputs[:real] // 100 == targets[:real] // 100).all()
            seen += targets[:real].tolist()
        first = {100 * d + 1 for d in range(len(sizes))}
        assert (seen if not shuffle else sorted(seen)) == sorted(set(tokens.tolist()) - first)


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_a_mapped_file_is_not_read_whole(dtype, tmp_path):
    """A file of 2 TiB of which nothing is written but its end: whoever reads it all does not come back."""
    path, count = tmp_path / "tokens", (1 << 41) // np.dtype(dtype).itemsize
    with open(path, "wb") as file:
        file.seek((1 << 41) - 4 * np.dtype(dtype).itemsize)
        file.write(np.array([1, 2, 3, 60_000], dtype).tobytes())
    tokens = np.memmap(path, dtype, mode="r")
    stream = Epochs(tokens, 1024, 8, 1)
    assert stream.windows == (count - 1) // 1024
    assert stream.at(10**6).inputs.shape == (8, 1024)
    inputs, targets, _ = Epochs(tokens, 3, 1, shuffle=False).at((count - 1) // 3 * 2 - 1)  # the last of an odd epoch
    assert inputs.tolist() == [[1, 2, 3]] and targets.tolist() == [[2, 3, 60_000]] and inputs.dtype == targets.dtype == np.int32
    assert type(inputs) is np.ndarray and inputs.flags.c_contiguous and targets.flags.c_contiguous


def test_an_id_outside_the_vocabulary_is_found_in_its_batch():
    tokens = np.arange(40, dtype=np.uint16)
    stream = Epochs(tokens, 4, 1, shuffle=False, vocabulary=16)
    assert stream.at(2).targets.tolist() == [[9, 10, 11, 12]]
    with pytest.raises(ConfigError, match="^step 3 has a token outside the vocabulary of 16"):
        stream.at(3)


@pytest.mark.parametrize(
    "options, says",
    [
        ({"context": 0}, "the context is 0"),
        ({"context": 0, "ends": [11]}, "the context is 0"),
        ({"context": 11}, "has 11 tokens; a context of 11 needs 12"),
        ({"batch": 0}, "the batch is 0"),
        ({"hosts": 3}, "the batch is 2; it must be a multiple of the 3 hosts"),
        ({"hosts": 0}, "multiple of the 0 hosts"),
        ({"host": 2, "hosts": 2}, "host 2 of 2; they are counted from 0 to 1"),
        ({"host": -1}, "host -1 of 1"),
        ({"ends": []}, "no ascending numbers from 1 to 11"),
        ({"ends": [3, 10]}, "no ascending numbers"),
        ({"ends": [3, 12]}, "no ascending numbers"),
        ({"ends": [0, 11]}, "no ascending numbers"),
        ({"ends": [5, 5, 11]}, "no ascending numbers"),
        ({"ends": [7, 5, 11]}, "no ascending numbers"),
        ({"ends": list(range(1, 12))}, "has 0 windows"),
    ],
)
def test_what_has_no_batches(options, says):
    if "ends" in options:
        options = {**options, "ends": np.array(options["ends"], np.int64)}
    with pytest.raises(ConfigError, match=says):
        ten(**options)


def test_steps_before_the_first():
    with pytest.raises(ConfigError, match="step -1; steps are counted from 0"):
        ten().at(-1)
