"""GPT-2 against a second GPT-2 in plain jax.numpy, under jax.grad: two layers, float64, every parameter."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import nn, ops
from pullback.models import GPT2, SIZES, GPT2Config

CONFIG = GPT2Config(vocab=13, context=8, layers=2, heads=2, width=12, dropout=0.25)
B, T = 3, 6


def randomised(config: GPT2Config = CONFIG, dtype=jnp.float64) -> GPT2:
    """A model with random values everywhere, of a size at which nothing is nearly linear."""
    shapes = jax.eval_shape(lambda: GPT2.init(jax.random.key(0), config, dtype))
    rng = np.random.default_rng(1)
    return nn.with_parameters(shapes, {n: jnp.asarray(rng.normal(0, 0.7, x.shape), dtype) for n, x in nn.named_parameters(shapes).items()})


def batch():
    rng = np.random.default_rng(2)
    ids, targets = (jnp.asarray(rng.integers(0, CONFIG.vocab, (B, T)), jnp.int32) for _ in range(2))
    return ids, targets, jnp.asarray(rng.integers(0, 3, (B, T)) + rng.random((B, T)).round(), float)


def test_published_sizes_and_their_counts():
    counts = {}
    for name, config in SIZES.items():
        counts[name] = nn.param_count(jax.eval_shape(lambda key, config=config: GPT2.init(key, config), jax.random.key(0)))
    assert counts == {"gpt2-124m": 124_439_808, "gpt2-355m": 354_823_168, "gpt2-774m": 774_030_080, "gpt2-1558m": 1_557_611_200}
    small = GPT2Config(vocab=65, context=64, layers=4, heads=4, width=128, bias=False)
    model = jax.eval_shape(lambda key: GPT2.init(key, small), jax.random.key(0))
    assert nn.param_count(model) == 804_096
    assert nn.param_count(model) - model.wpe.weight.size == 795_904, "as nanoGPT counts, without positions"


def test_names():
    m = jax.eval_shape(lambda: GPT2.init(jax.random.key(0), CONFIG))
    names = list(nn.named_parameters(m))
    assert len(names) == 2 + 12 * CONFIG.layers + 2 and names[:2] == ["wte.weight", "wpe.weight"]
    assert names[2:6] == ["blocks.0.ln1.scale", "blocks.0.ln1.bias", "blocks.0.attn.qkv.weight", "blocks.0.attn.qkv.bias"]
    assert nn.named_parameters(m)["blocks.1.mlp.fc.weight"].shape == (48, 12)


def test_logits(x64, plain):
    m, (ids, _, _) = randomised(), batch()
    wanted = jax.jit(plain.logits, static_argnums=2)(nn.named_parameters(m), ids, CONFIG)
    assert plain.gap(m(ids), wanted) < 1e-12
    first = jax.jit(lambda m, ids: m(ids))(m, ids[:, :1])
    assert plain.gap(first, wanted[:, :1]) < 1e-12, "one token, and nothing from the future"


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("train", [False, True], ids=["plain", "dropout"])
@pytest.mark.parametrize("checkpoint", [False, True], ids=["kept", "checkpoint"])
def test_gradients_of_every_parameter(x64, plain, references, compiled, train, checkpoint):
    config = dataclasses.replace(CONFIG, checkpoint=checkpoint, chunk=5)
    m, (ids, targets, weights) = randomised(config), batch()

    def loss_of(m, ids, targets, weights, train):
        with pb.keys(*plain.keys, first_example=plain.first_example):
            return m.loss(ids, targets, weights, train=train)

    step = pb.value_and_grad(loss_of)
    step = pb.compile(step, static=("train",)) if compiled else step
    loss, gradient = step(m, ids, targets, weights, train=train)
    wanted_loss, wanted = references(CONFIG.dropout if train else 0.0)
    assert plain.gap(loss, wanted_loss) < 1e-12
    assert gradient.keys() == wanted.keys()
    for name, bar in gradient.items():
        assert bar.dtype == jnp.float64 and plain.gap(bar, wanted[name]) < 1e-10, name


@pytest.fixture(scope="module")
def references(plain):
    """rate -> (the loss, the gradient by name) of the plain GPT-2 under jax.grad."""

    @functools.cache
    def at(rate: float):
        return jax.value_and_grad(plain.loss)(nn.named_parameters(randomised()), *batch(), config=CONFIG, rate=rate)

    return at


def test_a_loop_over_stacked_blocks_has_the_same_gradients(x64, plain, references):
    m, (ids, targets, weights) = randomised(), batch()
    stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *m.blocks)

    def loss(arguments):
        rest, blocks = arguments  # the head of `rest` is closed over by nothing, its blocks are not used
        h = ops.add(rest.wte(ids), rest.wpe.rows(T))
        h, _ = pb.scan(lambda h, block: (block(h), None), h, blocks)
        return ops.linear_softmax_cross_entropy(rest.ln(h), rest.wte.weight, targets, weights)

    rest = dataclasses.replace(m, blocks=())
    for step in (pb.value_and_grad(loss), jax.jit(pb.value_and_grad(loss))):
        value, (outside, inside) = step((rest, stacked))
        wanted_value, wanted = references(0.0)
        assert plain.gap(value, wanted_value) < 1e-12
        for name, bar in outside.items():
            assert plain.gap(bar, wanted[name]) < 1e-10, name
        for name, bars in inside.items():
            for i, bar in enumerate(bars):
                assert plain.gap(bar, wanted[f"blocks.{i}.{name}"]) < 1e-10, name


def test_the_chunk_and_the_weights_of_the_loss(x64, plain):
    m, (ids, targets, weights) = randomised(), batch()
    p, reference, ones = nn.named_parameters(m), functools.partial(plain.loss, config=CONFIG), jnp.ones((B, T))
    assert plain.gap(m.loss(ids, targets), reference(p, ids, targets, ones)) < 1e-12
    recorded = []
    chunked = randomised(dataclasses.replace(CONFIG, chunk=5))
    jax.eval_shape(lambda: pb.vjp(lambda m: recorded.append(y := m.loss(ids, targets)) or y, chunked)[0])
    assert recorded[0].node.statics == {"chunk": 5}
    masked = weights.at[0].set(0)
    assert plain.gap(m.loss(ids, targets.at[0].set(-1), masked), reference(p, ids, targets, masked)) < 1e-12


def test_a_checkpointed_step_keeps_the_residual_stream_only():
    m, (ids, targets, _) = randomised(dataclasses.replace(CONFIG, checkpoint=True), jnp.float32), batch()
    plan = pb.compile(pb.value_and_grad(lambda m: m.loss(ids, targets))).plan(m)
    assert plan.expanded == () and plan.traces == 1
    assert plan.ledger["checkpoint"] == CONFIG.layers * 4 * B * T * CONFIG.width
    assert not any(label.startswith("blocks") for label in plan.ledger)


def test_a_checkpointed_step_takes_less_memory():
    """The second runs wait for their cotangents: were they done at once, their residuals would all be there, as without checkpoint."""
    small = GPT2Config(vocab=64, context=64, layers=4, heads=4, width=128)
    ids = jnp.zeros((8, 64), jnp.int32)

    def temp(checkpoint: bool) -> int:
        m = jax.eval_shape(lambda: GPT2.init(jax.random.key(0), dataclasses.replace(small, checkpoint=checkpoint)))
        return pb.compile(pb.value_and_grad(lambda m: m.loss(ids, ids))).plan(m).temp

    assert temp(True) < 0.6 * temp(False)


def test_first_values():
    config = GPT2Config(vocab=192, context=64, layers=3, heads=2, width=64)  # few different shapes: each is a program
    m = GPT2.init(jax.random.key(0), config)
    for name, x in nn.named_parameters(m).items():
        if x.ndim == 1:
            assert np.array_equal(x, np.ones_like(x) if name.endswith("scale") else np.zeros_like(x)), name
            continue
        std = 0.02 / np.sqrt(6) if name.endswith("proj.weight") else 0.02
        assert float(jnp.std(x)) == pytest.approx(std, rel=0.08) and abs(float(jnp.mean(x))) < 0.1 * std, name
    deeper = nn.named_parameters(GPT2.init(jax.random.key(0), dataclasses.replace(config, layers=4)))
    for name, x in nn.named_parameters(m).items():
        factor = np.sqrt(4 / 3) if name.endswith("proj.weight") else 1  # the same draw, divided by √(2·L)
        np.testing.assert_allclose(x, deeper[name] * factor, rtol=2e-6, err_msg=name)
    released = nn.named_parameters(GPT2.init(jax.random.key(0), dataclasses.replace(config, initialisation="released")))
    for name, x in nn.named_parameters(m).items():
        factor = np.sqrt(6) if name.endswith("proj.weight") else 0.5 if name == "wpe.weight" else 1
        np.testing.assert_allclose(released[name], x * factor, rtol=2e-6, err_msg=name)
    matrices = [np.asarray(x).ravel()[:32] for x in deeper.values() if x.ndim == 2]
    assert len({tuple(np.round(x / np.abs(x).max(), 5)) for x in matrices}) == len(matrices), "no two draws alike"


def test_dropout_is_on_when_training_only():
    m, (ids, targets, _) = randomised(dtype=jnp.float32), batch()
    assert m.loss(ids, targets) == m.loss(ids, targets, train=False)
    with pytest.raises(pb.PullbackError, match="a random draw in dropout without keys"):
        m.loss(ids, targets, train=True)
    still = nn.with_parameters(
        jax.eval_shape(lambda: GPT2.init(jax.random.key(0), dataclasses.replace(CONFIG, dropout=0.0))), nn.named_parameters(m)
    )
    assert still.loss(ids, targets, train=True) == m.loss(ids, targets)


def test_bfloat16(plain):
    m, (ids, targets, _) = randomised(dtype=jnp.float32), batch()
    step = jax.jit(pb.value_and_grad(lambda m: m.loss(ids, targets)))
    exact_loss, exact = step(m)
    with pb.precision("bfloat16"):
        loss, gradient = step(m)
        assert jax.eval_shape(m, ids).dtype == jnp.bfloat16
    assert loss.dtype == jnp.float32 and 1e-6 < plain.gap(loss, exact_loss) < 0.02
    for name, bar in gradient.items():
        assert bar.dtype == jnp.float32 and 1e-5 < plain.gap(bar, exact[name]) < 0.3, name
    assert step(m)[0] == exact_loss, "the policy is part of the program's key"


@pytest.mark.parametrize(
    "change, text",
    [
        (dict(heads=5), "5 heads do not divide the width 12"),
        (dict(layers=0), "layers is 0; expected from 1 to 2147483647"),
        (dict(width=-4), "width is -4"),
        (dict(vocab=2**31), "vocab is 2147483648; expected from 1 to 2147483647"),
        (dict(eps=float("nan")), "eps is nan; expected a float32, 0 or more"),
        (dict(dropout=1.0), "dropout 1.0; expected a probability"),
        (dict(chunk=0), "chunk is 0; expected a number of rows"),
        (dict(initialisation="papers"), "no initialisation 'papers'; did you mean 'paper'"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(change, text):
    with pytest.raises(pb.PullbackError, match=f"^GPT-2: {text}"):
        dataclasses.replace(CONFIG, **change)


def test_ids_that_do_not_fit_are_refused():
    m = randomised(dtype=jnp.float32)
    for shape in ((2, 9), (6,)):
        with pytest.raises(pb.PullbackError, match="takes ids .batch, time. of at most 8 tokens, not"):
            m(jnp.zeros(shape, jnp.int32))
