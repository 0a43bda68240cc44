"""The compiled step under float16 and in parts."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback.experiments.config import check
from pullback.experiments.step import first_state, schedule_of, training_step
from pullback.lib.errors import ConfigError
from pullback.lib.precision import precision
from pullback.lib.tokens import TokenStream
from pullback.nn import LossScaling


@pytest.fixture(scope="module")
def config(tiny):
    return replace(tiny, model=replace(tiny.model, vocab=30, dropout=0.1))


@pytest.fixture(scope="module")
def stream(config):
    tokens = np.random.default_rng(0).integers(0, 30, 500).astype(np.uint16)
    return TokenStream(tokens, config.window, config.batch, config.seed)


def run(config, stream, steps: int):
    """The states before and after each step, and what was measured."""
    with precision(config.precision):
        step = training_step(config)
        states, measured = [first_state(config)], []
        for i in range(steps):
            state, said = step(jax.tree.map(jnp.copy, states[-1]), i, *stream.at(i))
            states.append(state)
            measured.append(said)
    return states, measured


def same(a, b) -> bool:
    return all(jax.tree.leaves(jax.tree.map(lambda x, y: bool((x == y).all()), a, b)))


def test_overflows_in_float16_are_skipped(config, stream):
    """From a scale that is too large by far: weights, moments, count and schedule wait until it fits, then all of them go on."""
    narrow = replace(config, precision="float16", loss_scale=LossScaling(initial=2.0**40, interval=3))
    states, measured = run(narrow, stream, 32)
    applied = [bool(jnp.isfinite(said.grad_norm)) for said in measured]
    assert not any(applied[:10]) and sum(applied) > 4
    updates = 0
    for before, after, said, good in zip(states, states[1:], measured, applied):
        assert before.scale and after.scale and said.scale == before.scale.scale and np.isfinite(float(said.loss))
        assert said.lr == pytest.approx(float(schedule_of(narrow)(updates)), rel=1e-6)
        assert same(before[:2], after[:2]) != good
        assert good or after.scale.scale == before.scale.scale / 2
        updates += good


def test_float16_learns_as_float32_does(config, stream):
    narrow = run(replace(config, precision="float16"), stream, 12)[1]
    wide = run(config, stream, 12)[1]
    for name in ("loss", "grad_norm"):
        np.testing.assert_allclose([getattr(m, name) for m in narrow], [getattr(m, name) for m in wide], rtol=2e-2)
    assert wide[0].scale is None


def test_parts_of_a_batch_make_the_same_step(config, stream):
    """With dropout: masks belong to examples."""
    whole, parts = (run(replace(config, accumulate=n), stream, 3) for n in (1, 4))
    for a, b in zip(whole[1], parts[1]):
        np.testing.assert_allclose(a[:2], b[:2], rtol=1e-5)
    assert not same(whole[0][-1].params, first_state(config).params)
    for name, x in whole[0][1].params.items():
        np.testing.assert_allclose(parts[0][1].params[name], x, atol=1e-5)  # AdamW's first step divides by |g|: where g is tiny it shows


@pytest.mark.parametrize(
    "changes, says", [(dict(accumulate=3), "it must divide the batch, which is 8"), (dict(accumulate=0), "accumulate is 0")]
)
def test_parts_that_do_not_divide(config, changes, says):
    with pytest.raises(ConfigError, match=says):
        check(replace(config, **changes))
