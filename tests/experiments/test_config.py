import json
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pullback import nn
from pullback.experiments.config import OptimiserConfig, RunConfig, ScheduleConfig, check, from_record, to_record
from pullback.experiments.presets import PRESETS, preset
from pullback.experiments.step import schedule_of, template_of
from pullback.lib.errors import ConfigError, PullbackError, UnknownName
from pullback.models.gpt2 import GPT2Config


def test_presets_are_named_by_themselves_and_valid():
    assert set(PRESETS) == {"quick", "shakespeare-char", "gpt2-124m"}
    for name, config in PRESETS.items():
        assert config.preset == name and check(config) is config
    assert RunConfig().preset == "quick"


def test_unknown_preset_names_the_nearest():
    with pytest.raises(UnknownName, match="shakespeare-char"):
        preset("shakespear")


def test_shakespeare_char_is_the_published_recipe():
    config = preset("shakespeare-char")
    assert (config.data, config.tokeniser) == ("tinyshakespeare", "characters")
    assert (config.steps, config.batch, config.window, config.tokens_per_step) == (2000, 12, 64, 768)
    assert config.schedule == ScheduleConfig("cosine", peak=1e-3, end=1e-4, warmup=100)
    assert config.optimiser == OptimiserConfig(b1=0.9, b2=0.99, eps=1e-8, weight_decay=0.1, clip=1.0)
    assert (config.model.layers, config.model.heads, config.model.width) == (4, 4, 128)
    assert (config.model.bias, config.model.dropout) == (False, 0.0)
    assert nn.param_count(template_of(config)) == 804_096


def test_gpt2_124m_is_the_published_shape():
    assert preset("gpt2-124m").model == GPT2Config()
    assert nn.param_count(template_of(preset("gpt2-124m"))) == 124_439_808


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_record_round_trip(config):
    assert from_record(RunConfig, json.loads(json.dumps(to_record(config))), "here") == config


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda r: r.update(stepz=3), "no field \"stepz\"; did you mean 'steps'"),
        (lambda r: r["model"].update(layer=3), "model: no field \"layer\"; did you mean 'layers'"),
        (lambda r: r.pop("seed"), "the field 'seed' is missing"),
        (lambda r: r["schedule"].pop("peak"), "schedule: the field 'peak' is missing"),
        (lambda r: r.update(steps="3"), 'steps is "3"; expected int'),
        (lambda r: r.update(steps=3.5), "steps is 3.5; expected int"),
        (lambda r: r.update(steps=True), "steps is true; expected int"),
        (lambda r: r.update(steps=None), "steps is null; expected int"),
        (lambda r: r.update(context="all"), 'context is "all"; expected int or null'),
        (lambda r: r.update(model=[1, 2]), r"model: expected an object with the fields of GPT2Config; got \[1, 2\]"),
        (lambda r: r["model"].update(bias=1), "bias is 1; expected bool"),
        (lambda r: r["schedule"].update(peak=True), "peak is true; expected float"),
        (lambda r: r["schedule"].update(peak=10**400), "peak is 1000.*; expected float"),
        (lambda r: r.update(data={"x": "y" * 200}), r"data is .{60}; expected str"),
        (lambda r: r["model"].update(heads=3), "3 heads do not divide"),
    ],
)
def test_record_is_read_field_by_field(change, says):
    record = to_record(preset("quick"))
    change(record)
    with pytest.raises(ConfigError, match=says):
        from_record(RunConfig, record, "here")


@pytest.mark.parametrize("record", [None, [], "quick", 3])
def test_record_must_be_an_object(record):
    with pytest.raises(ConfigError, match="here: expected an object"):
        from_record(RunConfig, record, "here")


def test_whole_numbers_are_floats_too():
    record = to_record(preset("quick"))
    record["optimiser"]["clip"] = 1
    clip = from_record(RunConfig, record, "here").optimiser.clip
    assert clip == 1.0 and type(clip) is float


@pytest.mark.parametrize(
    "changes, says",
    [
        (dict(steps=0), "steps is 0"),
        (dict(batch=-1), "batch is -1"),
        (dict(context=0), "context is 0"),
        (dict(context=65), "context is 65; it must be at most model.context, which is 64"),
        (dict(validate_every=0), "validate_every is 0"),
        (dict(validate_batches=0), "validate_batches is 0"),
        (dict(log_every=0), "log_every is 0"),
        (dict(sample_tokens=-1), "sample_tokens is -1"),
        (dict(seed=-1), "seed is -1"),
        (dict(seed=2**31), "seed is 2147483648"),
        (dict(precision="float33"), "no precision 'float33'; did you mean 'float32'"),
        (dict(tokeniser="byte"), "no tokeniser 'byte'; did you mean 'bytes'"),
        (dict(schedule=ScheduleConfig(kind="cosin")), "no schedule.kind 'cosin'; did you mean 'cosine'"),
        (dict(schedule=ScheduleConfig(peak=-1e-3)), "schedule.peak is -0.001"),
        (dict(schedule=ScheduleConfig(peak=float("nan"))), "schedule.peak is nan"),
        (dict(schedule=ScheduleConfig(end=float("inf"))), "schedule.end is inf"),
        (dict(schedule=ScheduleConfig(warmup=-1)), "schedule.warmup is -1"),
        (dict(optimiser=OptimiserConfig(b1=1.0)), "optimiser.b1 is 1.0"),
        (dict(optimiser=OptimiserConfig(b2=float("nan"))), "optimiser.b2 is nan"),
        (dict(optimiser=OptimiserConfig(clip=-1.0)), "optimiser.clip is -1.0"),
        (dict(optimiser=OptimiserConfig(weight_decay=-0.1)), "optimiser.weight_decay is -0.1"),
    ],
)
def test_check_names_the_setting(changes, says):
    with pytest.raises(PullbackError, match=says):
        check(replace(preset("quick"), **changes))


@pytest.mark.parametrize("kind", ["constant", "linear", "cosine"])
@pytest.mark.parametrize("steps", [1, 2, 3, 150])
def test_schedules_of_short_runs(kind, steps):
    """A run shorter than its warm-up still moves at each step and never above the peak."""
    config = replace(RunConfig(), steps=steps, schedule=ScheduleConfig(kind, peak=1e-3, end=1e-4, warmup=100))
    rates = [float(schedule_of(config)(step)) for step in range(steps)]
    assert all(0 < rate <= 1e-3 * (1 + 1e-6) for rate in rates)
    assert steps > 1 or rates[0] == pytest.approx(1e-3)


def test_cosine_is_optax_with_a_first_step_that_moves():
    config = preset("shakespeare-char")
    steps = jnp.arange(config.steps)
    theirs = optax.warmup_cosine_decay_schedule(1e-3 / 101, 1e-3, 100, 2000, 1e-4)(steps)
    np.testing.assert_allclose(schedule_of(config)(steps), theirs, rtol=1e-5)
    assert float(schedule_of(config)(100)) == pytest.approx(1e-3)
