"""A batch in parts: the numbers of the whole, whatever the weights and with dropout, in the memory of a part."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import nn, ops
from pullback.lib.errors import ConfigError

V, T, D = 50, 16, 8
RNG = np.random.default_rng(0)
IDS, TARGETS = RNG.integers(0, V, (2, 12, T)).astype(np.int32)
WEIGHTS = RNG.uniform(0, 2, (12, T)) * (RNG.random((12, T)) < np.linspace(0, 1, 12)[:, None])  # the first row has none at all


def step(parts: int, dtype):
    """The program for loss and gradients of an embedding, dropout and a head, and its arguments."""

    def loss_of(params, ids, targets, weights):
        h = ops.tanh(nn.Dropout(0.3)(nn.Embedding(params["wte"])(ids), train=True))
        return ops.linear_softmax_cross_entropy(h, params["head"], targets, weights)

    @pb.compile
    def gradients(params, *batch):
        def of_part(first, *part):
            with pb.keys(1, 2, first):
                return pb.value_and_grad(loss_of)(params, *part), part[-1].sum()

        return nn.accumulate(of_part, parts, *batch)

    params = {name: jnp.asarray(np.random.default_rng(1).normal(size=(V, D)), dtype) for name in ("wte", "head")}
    return gradients, (params, IDS, TARGETS, jnp.asarray(WEIGHTS, dtype))


def temp(parts: int) -> int:
    gradients, batch = step(parts, "float32")
    return gradients.plan(*batch).temp


@pytest.mark.parametrize("dtype, limit", [("float64", 1e-12), ("float32", 1e-5)])
def test_equals_the_whole_batch(dtype, limit):
    with jax.enable_x64(dtype == "float64"):
        (loss, grads), (ours, accumulated) = (gradients(*batch) for gradients, batch in (step(1, dtype), step(4, dtype)))
        assert abs(ours - loss) < limit * abs(loss)
        for name, grad in grads.items():
            assert accumulated[name].dtype == grad.dtype
            assert np.linalg.norm(accumulated[name] - grad) < limit * np.linalg.norm(grad), name


def test_takes_the_memory_of_a_part():
    assert temp(12) < 0.5 * temp(1)


def test_a_mean_of_means_would_be_another():
    """Of public faults the first: tokens of a short part would count more."""
    parts = [jnp.array([6.0]), jnp.array([1.0, 2.0, 3.0, 0.0])]  # padded to the same length in real batches
    x, weights = jnp.stack([jnp.pad(parts[0], (0, 3)), parts[1]]), jnp.array([[1.0, 0, 0, 0], [1, 1, 1, 0]])
    mean = lambda first, x, w: ((x * w).sum() / w.sum(), w.sum())
    assert nn.accumulate(mean, 2, x, weights) == 3.0


def test_nothing_to_count_is_nothing():
    of_part = lambda first, x, w: (jnp.where(w.sum() == 0, 0.0, (x * w).sum() / w.sum()), w.sum())
    assert nn.accumulate(of_part, 2, jnp.ones((4, 3)), jnp.zeros((4, 3))) == 0


def test_parts_know_where_they_begin():
    firsts = nn.accumulate(lambda first, x: (jnp.eye(6)[first], 1), 3, jnp.zeros(6))
    np.testing.assert_allclose(firsts, np.array([1, 0, 1, 0, 1, 0]) / 3, rtol=1e-6)


def test_an_operand_may_be_none():
    assert nn.accumulate(lambda first, x, w: (x.mean(), len(x)), 2, jnp.arange(4.0), None) == 1.5


@pytest.mark.parametrize("parts", [0, -1, 5, 24])
def test_parts_that_do_not_divide(parts):
    with pytest.raises(ConfigError, match=f"a batch of 12 cannot be divided into {parts} equal parts"):
        nn.accumulate(lambda first, x: (x.mean(), 1), parts, jnp.zeros(12))
