"""The published GPT-2 of 124 million parameters in float32, batch 2, time 64: every gradient against jax.grad of the plain model.

Takes about 4 GB and a minute.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import nn, ops
from pullback.experiments.machine import demand_memory
from pullback.lib.errors import ConfigError
from pullback.models import GPT2, SIZES

SHAPE = B, T = 2, 64
CONFIG = SIZES["gpt2-124m"]
RATE = 0.1


@pytest.fixture(scope="module")
def model():
    try:
        demand_memory(6 * 2**30, "this comparison")
    except ConfigError as error:
        pytest.skip(str(error))
    return GPT2.init(jax.random.key(0), CONFIG)


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(2)
    ids, targets = (jnp.asarray(rng.integers(0, CONFIG.vocab, SHAPE), jnp.int32) for _ in range(2))
    return ids, targets, jnp.asarray(rng.random(SHAPE), jnp.float32)


@pytest.fixture(scope="module", params=[0.0, RATE], ids=["plain", "dropout"])
def wanted(request, plain, model, batch):
    """(the rate of dropout, the loss, the gradient by name) under jax.grad."""
    return request.param, *jax.value_and_grad(plain.loss)(nn.named_parameters(model), *batch, config=CONFIG, rate=request.param)


def compare(plain, loss, gradient, wanted):
    _, wanted_loss, wanted_gradient = wanted
    assert plain.gap(loss, wanted_loss) < 1e-6 and gradient.keys() == wanted_gradient.keys()
    gaps = {name: plain.gap(bar, wanted_gradient[name]) for name, bar in gradient.items()}
    worst = max(gaps, key=lambda name: gaps[name])
    assert gaps[worst] < 1e-5, f"{worst}: {gaps[worst]:.1e}"


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("checkpoint", [False, True], ids=["kept", "checkpoint"])
def test_gradients_of_every_parameter(plain, model, batch, wanted, compiled, checkpoint):
    config = dataclasses.replace(CONFIG, checkpoint=checkpoint, dropout=wanted[0])
    template = jax.eval_shape(lambda: GPT2.init(jax.random.key(0), config))

    def loss_of(params):
        with pb.keys(*plain.keys, first_example=plain.first_example):
            return nn.with_parameters(template, params).loss(*batch, train=True)

    step = pb.value_and_grad(loss_of)
    loss, gradient = (pb.compile(step) if compiled else step)(nn.named_parameters(model))
    compare(plain, loss, gradient, wanted)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("wanted", [0.0], ids=["plain"], indirect=True)
def test_a_loop_over_stacked_blocks_has_the_same_gradients(plain, model, batch, wanted, compiled):
    ids, targets, weights = batch
    stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *model.blocks)

    def loss_of(arguments):
        rest, blocks = arguments
        h = ops.add(rest.wte(ids), rest.wpe.rows(T))
        h, _ = pb.scan(lambda h, block: (block(h), None), h, blocks)
        return ops.linear_softmax_cross_entropy(rest.ln(h), rest.wte.weight, targets, weights)

    step = pb.value_and_grad(loss_of)
    loss, (outside, inside) = (pb.compile(step) if compiled else step)((dataclasses.replace(model, blocks=()), stacked))
    layers = {f"blocks.{i}.{name}": bar for name, bars in inside.items() for i, bar in enumerate(bars)}
    compare(plain, loss, outside | layers, wanted)
