"""The LSTM against torch, differences and itself: in steps, in pieces, under a narrow policy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import nn, ops
from pullback.lib.keys import named_key
from pullback.nn import initialisers

B, T, I, H = 3, 6, 5, 4  # noqa: E741


def random(seed: int, *shape: int, dtype=jnp.float64):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def layer(bias: bool = True) -> nn.LSTM:
    cell = nn.LSTMCell(random(1, 4 * H, I), random(2, 4 * H, H), random(3, 4 * H) if bias else None)
    return nn.LSTM(cell)


@pytest.mark.parametrize("bias", [True, False])
def test_equals_torch_with_its_weights_carried_over(bias):
    torch = pytest.importorskip("torch", reason="torch is not installed: our LSTM is not compared with its own")
    with jax.enable_x64(True):
        theirs = torch.nn.LSTM(I, H, bias=bias, batch_first=True, dtype=torch.float64)
        carried = {name: p.detach().numpy() for name, p in theirs.named_parameters()}
        both = jnp.asarray(carried["bias_ih_l0"] + carried["bias_hh_l0"]) if bias else None
        ours = nn.LSTM(nn.LSTMCell(jnp.asarray(carried["weight_ih_l0"]), jnp.asarray(carried["weight_hh_l0"]), both))
        x, h0, c0, y_bar, h_bar, c_bar = (
            np.array(random(i, *s)) for i, s in enumerate([(B, T, I), *[(B, H)] * 2, (B, T, H), *[(B, H)] * 2])
        )
        given = [torch.tensor(v, requires_grad=True) for v in (x, h0[None], c0[None])]
        y, (h, c) = theirs(given[0], (given[1], given[2]))
        torch.autograd.backward([y, h, c], [torch.tensor(v) for v in (y_bar, h_bar[None], c_bar[None])])

        found, pullback = pb.vjp(lambda m, x, h, c: m(x, (h, c)), ours, *map(jnp.asarray, (x, h0, c0)))
        for a, b in zip(jax.tree.leaves(found), (y, h[0], c[0])):
            np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-12, atol=1e-13)
        bars, x_bar, h0_bar, c0_bar = pullback((jnp.asarray(y_bar), (jnp.asarray(h_bar), jnp.asarray(c_bar))))
        wanted = {name: p.grad.numpy() for name, p in theirs.named_parameters() if p.grad is not None}
        np.testing.assert_allclose(bars["cell.weight_ih"], wanted["weight_ih_l0"], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(bars["cell.weight_hh"], wanted["weight_hh_l0"], rtol=1e-10, atol=1e-12)
        if bias:
            np.testing.assert_allclose(bars["cell.bias"], wanted["bias_ih_l0"], rtol=1e-10, atol=1e-12)
        for a, b in zip((x_bar, h0_bar[None], c0_bar[None]), given):
            np.testing.assert_allclose(a, b.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_the_verdict_on_its_gradient():
    with jax.enable_x64(True):
        verdict = pb.check(lambda m, x: m(x), layer(), random(7, 2, 4, I))
    assert verdict.ok, verdict


def test_a_sequence_is_its_steps_and_goes_on_where_it_stopped():
    with jax.enable_x64(True):
        lstm, x = layer(), random(7, B, T, I)
        y, state = jax.jit(lambda x: lstm(x))(x)
        step, seen = lstm.cell.start(B, jnp.float64), []
        for t in range(T):
            step = lstm.cell(x[:, t], step)
            seen.append(step[0])
        np.testing.assert_allclose(lstm.cell(x[:, 0])[1], lstm.cell(x[:, 0], lstm.cell.start(B, jnp.float64))[1])
        np.testing.assert_allclose(y, np.stack(seen, 1), rtol=1e-12)
        for a, b in zip(step, state):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        first, between = lstm(x[:, :2])
        second, last = lstm(x[:, 2:], between)
        np.testing.assert_allclose(jnp.concatenate([first, second], 1), y, rtol=1e-12)
        np.testing.assert_allclose(last[1], state[1], rtol=1e-12)
        assert lstm(x[:, :0])[0].shape == (B, 0, H) and lstm(x[:0])[0].shape == (0, T, H)


def test_what_is_remembered_stays_wide_under_a_narrow_policy():
    lstm = nn.LSTM.init(jax.random.key(0), I, H)
    x = random(7, B, T, I, dtype=jnp.float32)
    wanted = jax.jit(lambda m, x: m(x)[0])(lstm, x)

    @jax.jit
    def both(m, x):
        (y, state), pullback = pb.vjp(lambda m, x: m(x), m, x)
        return y, state, pullback(jax.tree.map(jnp.ones_like, (y, state)))

    with pb.precision("bfloat16"):
        y, (h, c), (bars, x_bar) = both(lstm, x)
    assert (y.dtype, h.dtype, c.dtype) == (jnp.bfloat16, jnp.bfloat16, jnp.float32)
    assert {b.dtype for b in (*bars.values(), x_bar)} == {jnp.dtype(jnp.float32)}
    assert 0 < np.linalg.norm(np.asarray(y, np.float32) - wanted) / np.linalg.norm(wanted) < 0.03


def test_first_values():
    key = jax.random.key(3)
    cell = nn.LSTM.init(key, I, H).cell
    draw = initialisers.lecun_normal()
    np.testing.assert_array_equal(cell.weight_ih, draw(named_key(named_key(key, "cell"), "weight_ih"), (4 * H, I)))
    np.testing.assert_array_equal(cell.weight_hh, draw(named_key(named_key(key, "cell"), "weight_hh"), (4 * H, H)))
    np.testing.assert_array_equal(cell.bias, np.repeat([0.0, 1.0, 0.0, 0.0], H))
    plain = nn.LSTMCell.init(key, I, H, bias=False, initialiser=initialisers.ones, dtype=jnp.bfloat16)
    assert plain.bias is None and plain.weight_hh.dtype == jnp.bfloat16 and plain.weight_ih.all()
    assert list(nn.named_parameters(nn.LSTM.init(key, I, H))) == ["cell.weight_ih", "cell.weight_hh", "cell.bias"]


def test_what_does_not_fit():
    lstm = nn.LSTM.init(jax.random.key(0), I, H)
    with pytest.raises(pb.PullbackError, match=r"LSTM takes x \(batch, time, inputs\), not \(3, 5\); LSTMCell takes one step"):
        lstm(jnp.ones((B, I)))
    with pytest.raises(pb.PullbackError, match="linear: x of shape"):
        lstm(jnp.ones((B, T, I + 1)))


def test_it_learns_to_remember():
    """The first number of a sequence, asked for at its end."""
    key = jax.random.key(1)
    model = {"lstm": nn.LSTM.init(key, 1, 8), "head": nn.Linear.init(key, 8, 1)}
    x = random(4, 32, 5, 1, dtype=jnp.float32)
    optimiser = nn.adam(2e-2)

    def loss(lstm, head):
        _, (h, _) = lstm(x)
        return ops.mean(ops.square(head(h) - x[:, 0]))

    @jax.jit
    def step(params, state):
        modules = [nn.with_parameters(model[name], params[name]) for name in model]
        value, grads = pb.value_and_grad(loss, argnums=(0, 1))(*modules)
        updates, state = optimiser.update(dict(zip(model, grads)), state, params)
        return nn.apply_updates(params, updates), state, value

    params = {name: nn.named_parameters(m) for name, m in model.items()}
    state, losses = optimiser.init(params), []
    for _ in range(120):
        params, state, value = step(params, state)
        losses.append(float(value))
    assert losses[-1] < 0.1 * losses[0]
