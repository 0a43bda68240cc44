"""What torch and transformers computed once, for where they are not: golden/make.py made it."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from pullback import nn
from pullback.autograd import compile, value_and_grad
from pullback.models import gpt2_weights
from pullback.models.decoding import Decoder
from pullback.models.sampling import Sampling

FOLDER = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def model():
    return gpt2_weights.load(FOLDER)


@pytest.fixture(scope="module")
def expected():
    return dict(np.load(FOLDER / "expected.npz"))


def test_logits(model, expected):
    np.testing.assert_allclose(model(jnp.asarray(expected["ids"][:, :-1])), expected["logits"], rtol=1e-5, atol=2e-5)


def test_gradients_and_ten_losses(model, expected):
    ids = jnp.asarray(expected["ids"], jnp.int32)
    optimiser, params = nn.adamw(1e-2, 0.9, 0.95, 1e-8, 0.1, mask=nn.matrices), nn.named_parameters(model)
    state, losses = optimiser.init(params), []

    def step(params, state):
        loss, grads = value_and_grad(lambda model: model.loss(ids[:, :-1], ids[:, 1:]))(nn.with_parameters(model, params))
        updates, state = optimiser.update(grads, state, params)
        return nn.apply_updates(params, updates), state, loss, grads

    step = compile(step)
    for i in range(10):
        params, state, loss, grads = step(params, state)
        losses.append(float(loss))
        for name, x in grads.items() if i == 0 else ():
            theirs = expected[f"gradient.{gpt2_weights.theirs(name)}"]
            theirs = theirs.T if gpt2_weights.is_turned(name) else theirs
            assert np.linalg.norm(x - theirs) <= 1e-5 * np.linalg.norm(theirs), name
    np.testing.assert_allclose(losses, expected["losses"], rtol=1e-5)


def test_a_greedy_text(model, expected):
    [text] = Decoder(model, Sampling(temperature=0)).write([expected["text"][:4]], 20)
    np.testing.assert_array_equal(text.ids, expected["text"][4:])
