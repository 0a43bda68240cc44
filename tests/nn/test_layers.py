"""Layers against their formulas in plain jax.numpy: values, gradients, first values, precision, and what they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import nn, ops
from pullback.lib.keys import named_key, root_key
from pullback.nn import initialisers

B, T, D, H = 3, 5, 8, 2


def random(seed: int, *shape: int, dtype=jnp.float64):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def randomised(make):
    """The module with random values everywhere: first biases of 0 and scales of 1 would hide faults."""
    shapes = jax.eval_shape(make)
    new = {name: random(i, *x.shape, dtype=x.dtype) for i, (name, x) in enumerate(nn.named_parameters(shapes).items())}
    return nn.with_parameters(shapes, new)


def gap(got, wanted) -> float:
    """‖got − wanted‖ / ‖wanted‖"""
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))


def with_pullback(f, p, x, y_bar):
    y, pullback = jax.vjp(f, p, x)
    return y, pullback(y_bar)


def norm(p, name, x):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * p[f"{name}scale"] + p[f"{name}bias"]


def affine(p, name, x):
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def mlp(p, x):
    u = affine(p, "fc", x)
    return affine(p, "proj", 0.5 * u * (1 + jnp.tanh(jnp.sqrt(2 / jnp.pi) * (u + 0.044715 * u**3))))


def attend(p, x, seen):
    q, k, v = (part.reshape(B, T, H, D // H) for part in jnp.split(affine(p, "qkv", x), 3, -1))
    z = jnp.einsum("bthk,bshk->bhts", q, k) / jnp.sqrt(D // H)
    weights = jax.nn.softmax(jnp.where(seen, z, -jnp.inf), -1)
    return affine(p, "proj", jnp.einsum("bhts,bshk->bthk", weights, v).reshape(B, T, D))


CAUSAL = jnp.tril(jnp.ones((T, T), bool))
MASK = jax.random.bernoulli(jax.random.key(9), 0.7, (B, 1, T, T)) | jnp.eye(T, dtype=bool)
IDS = jnp.asarray([[0, 3, 3], [1, 0, 3]])

CASES = {
    "linear": (lambda k, d: nn.Linear.init(k, D, 6, dtype=d), lambda m, x: m(x), lambda p, x: x @ p["weight"].T + p["bias"]),
    "linear without bias": (lambda k, d: nn.Linear.init(k, D, 6, bias=False, dtype=d), lambda m, x: m(x), lambda p, x: x @ p["weight"].T),
    "layer norm": (lambda k, d: nn.LayerNorm.init(D, dtype=d), lambda m, x: m(x), lambda p, x: norm(p, "", x)),
    "embedding": (
        lambda k, d: nn.Embedding.init(k, 4, D, dtype=d),
        lambda m, x: ops.mul(m(IDS), ops.index(x, (0, slice(0, 3)))),
        lambda p, x: p["weight"][IDS] * x[0, :3],
    ),
    "rows of an embedding": (
        lambda k, d: nn.Embedding.init(k, 7, D, dtype=d),
        lambda m, x: ops.add(m.rows(T), x),
        lambda p, x: p["weight"][:T] + x,
    ),
    "mlp": (lambda k, d: nn.MLP.init(k, D, 12, dtype=d), lambda m, x: m(x), mlp),
    "attention": (lambda k, d: nn.SelfAttention.init(k, D, H, dtype=d), lambda m, x: m(x), lambda p, x: attend(p, x, True)),
    "causal attention": (
        lambda k, d: nn.SelfAttention.init(k, D, H, causal=True, dtype=d),
        lambda m, x: m(x),
        lambda p, x: attend(p, x, CAUSAL),
    ),
    "masked attention": (
        lambda k, d: nn.SelfAttention.init(k, D, H, causal=True, dtype=d),
        lambda m, x: m(x, MASK),
        lambda p, x: attend(p, x, CAUSAL & MASK),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_the_formula(name):
    make, ours, formula = CASES[name]
    with jax.enable_x64(True):
        m, x = randomised(lambda: make(jax.random.key(1), jnp.float64)), random(5, B, T, D)
        parameters = nn.named_parameters(m)
        y, pullback = pb.vjp(ours, m, x)
        y_bar = random(6, *y.shape)
        wanted, (wanted_bars, wanted_x_bar) = jax.jit(lambda p, x, y_bar: with_pullback(formula, p, x, y_bar))(parameters, x, y_bar)
        assert y.dtype == jnp.float64 and gap(y, wanted) < 1e-13
        bars, x_bar = pullback(y_bar)
        assert bars.keys() == parameters.keys()
        for key in parameters:
            assert gap(bars[key], wanted_bars[key]) < 1e-12, key
        assert gap(x_bar, wanted_x_bar) < 1e-12


def test_first_values():
    key = jax.random.key(3)
    linear = nn.Linear.init(key, 8, 24)
    np.testing.assert_array_equal(linear.weight, initialisers.lecun_normal()(key, (24, 8)))
    np.testing.assert_array_equal(linear.bias, np.zeros(24))
    assert nn.Linear.init(key, 8, 24, bias=False).bias is None
    np.testing.assert_array_equal(nn.LayerNorm.init(4).scale, np.ones(4))
    assert list(nn.named_parameters(nn.LayerNorm.init(4, scale=False))) == ["bias"] and nn.named_parameters(nn.LayerNorm()) == {}
    embedding = nn.Embedding.init(key, 500, 16)
    assert np.linalg.norm(embedding.weight, axis=-1).mean() == pytest.approx(1, abs=0.05)
    half = nn.SelfAttention.init(key, 8, 2, initialiser=initialisers.ones, proj_initialiser=initialisers.zeros, dtype=jnp.bfloat16)
    assert half.qkv.weight.all() and not half.proj.weight.any() and half.qkv.weight.dtype == jnp.bfloat16
    mlp = nn.MLP.init(key, 8, 32, bias=False, initialiser=initialisers.ones, proj_initialiser=initialisers.zeros)
    assert {name: x.shape for name, x in nn.named_parameters(mlp).items()} == {"fc.weight": (32, 8), "proj.weight": (8, 32)}
    assert mlp.fc.weight.all() and not mlp.proj.weight.any()


def test_parts_draw_from_keys_made_of_their_names():
    key = jax.random.key(3)
    attention, mlp = nn.SelfAttention.init(key, 8, 2), nn.MLP.init(key, 8, 8)
    for linear, name, shape in (
        (attention.qkv, "qkv", (24, 8)),
        (attention.proj, "proj", (8, 8)),
        (mlp.fc, "fc", (8, 8)),
        (mlp.proj, "proj", (8, 8)),
    ):
        np.testing.assert_array_equal(linear.weight, initialisers.lecun_normal()(named_key(key, name), shape))


def kept(scope: str, first: int, shape: tuple[int, ...], rate: float, seed: int = 7, step: int = 2):
    """The mask by its definition: a key from (seed, step, scope, purpose), folded with the index of each example."""
    key = named_key(root_key(seed, step), f"{scope}:dropout")
    bits = [jax.random.bits(jax.random.fold_in(key, first + i), shape[1:], jnp.uint32) for i in range(shape[0])]
    return jnp.stack(bits).astype(jnp.float32) / 2.0**32 < 1 - rate


def test_dropout_draws_by_identity():
    drop, x = nn.Dropout(0.25), random(1, 4, 6, dtype=jnp.float32)

    def run(x, first=0, scope="drop", step=2):
        with pb.keys(7, step, first_example=first), pb.scope(scope):
            return drop(x, train=True)

    wanted = jnp.where(kept("drop", 0, x.shape, 0.25), x / 0.75, 0)
    np.testing.assert_allclose(run(x), wanted, rtol=1e-6)
    np.testing.assert_allclose(jnp.concatenate([run(x[:1]), run(x[1:], first=1)]), wanted, rtol=1e-6, err_msg="another split of the batch")
    gradient = pb.grad(lambda x: ops.sum(ops.mul(run(x), x)))(x)
    np.testing.assert_allclose(gradient, 2 * wanted, rtol=1e-6)
    assert not np.array_equal(run(x, step=3), wanted) and not np.array_equal(run(x, scope="other"), wanted)
    np.testing.assert_allclose(jax.jit(run)(x), wanted, rtol=1e-6)


def test_dropout_asks_whether_it_is_training():
    drop, x = nn.Dropout(0.5), random(1, 4, 6, dtype=jnp.float32)
    assert drop(x, train=False) is x and nn.Dropout(0.0)(x, train=True) is x
    with pytest.raises(TypeError, match="train"):
        drop(x)  # type: ignore[call-arg]
    with pytest.raises(pb.PullbackError, match=r"open `with pb.keys\(seed, step\):` inside"):
        drop(x, train=True)
    with pb.keys(0), pytest.raises(pb.PullbackError, match="second draw"):
        drop(drop(x, train=True), train=True)
    for rate in (-0.1, 1.5):
        with pytest.raises(pb.PullbackError, match=f"Dropout: rate {rate}; expected a probability"):
            nn.Dropout(rate)


def test_the_dropouts_of_a_layer_draw_in_its_scope():
    key = jax.random.key(0)
    attention = randomised(lambda: nn.SelfAttention.init(key, D, H, dropout=0.5))
    mlp = randomised(lambda: nn.MLP.init(key, D, 12, dropout=0.5))
    x = random(2, B, T, D, dtype=jnp.float32)
    for m in (attention, mlp):
        with pb.keys(7, 2):
            y = m(x, train=True)
        mask = kept("dropout", 0, (B, T, D), 0.5)
        np.testing.assert_allclose(y, jnp.where(mask, 2 * m(x), 0), rtol=1e-5)


class Stack(nn.Module):
    """Every layer, one after the other."""

    table: nn.Embedding
    norm: nn.LayerNorm
    attention: nn.SelfAttention
    mlp: nn.MLP
    head: nn.Linear

    @classmethod
    def init(cls, key, dtype=jnp.float32):
        return cls(
            nn.Embedding.init(key, 5, D, dtype=dtype),
            nn.LayerNorm.init(D, dtype=dtype),
            nn.SelfAttention.init(key, D, H, dtype=dtype),
            nn.MLP.init(key, D, D, dtype=dtype),
            nn.Linear.init(key, D, 3, dtype=dtype),
        )

    def __call__(self, ids):
        return self.head(self.mlp(self.attention(self.norm(self.table(ids)))))


def labels(y) -> list[str]:
    """`scope/op` of every node behind a recorded value."""
    nodes, pending = {y.node}, [y.node]
    while pending:
        for parent in pending.pop().parents:
            if parent is not None and parent[0] not in nodes:
                nodes.add(parent[0])
                pending.append(parent[0])
    return sorted(node.label for node in nodes)


def test_float32_records_no_cast_and_float64_is_never_narrowed():
    def casts(policy: str, dtype) -> tuple[list[str], str]:
        found = []

        def run(m):
            found.extend(labels(y := m(jnp.asarray([[0, 3, 1]]))))
            return y

        with pb.precision(policy):
            y = jax.eval_shape(lambda: pb.vjp(run, Stack.init(jax.random.key(0), dtype))[0])
        return [label for label in found if label.endswith("cast")], y.dtype.name

    layers = ("attention.qkv", "attention.proj", "mlp.fc", "mlp.proj", "head")
    narrow = ["norm/cast", "table/cast", *(f"{layer}/cast" for layer in layers for _ in ("weight", "bias"))]
    assert casts("float32", jnp.float32) == ([], "float32")
    assert casts("bfloat16", jnp.float32) == (sorted(narrow), "bfloat16")
    with jax.enable_x64(True):
        assert casts("float32", jnp.float64) == casts("bfloat16", jnp.float64) == ([], "float64")


def test_layers_refuse_what_does_not_fit():
    key = jax.random.key(0)
    for heads in (0, 3):
        with pytest.raises(pb.PullbackError, match=f"SelfAttention: {heads} heads do not divide the width 8"):
            nn.SelfAttention.init(key, 8, heads)
    with pytest.raises(pb.PullbackError, match=r"takes x \(batch, time, width\), not \(5, 8\)"):
        nn.SelfAttention.init(key, 8, 2)(jnp.ones((5, 8)))
    with pytest.raises(pb.PullbackError, match=r"linear: x of shape \(2, 3\) and weight of shape \(4, 8\)"):
        nn.Linear.init(key, 8, 4)(jnp.ones((2, 3)))
    with pytest.raises(pb.PullbackError, match="floating"):
        nn.Linear.init(key, 8, 4, dtype=jnp.int32)
