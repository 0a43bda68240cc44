"""Randomness by identity: seed, step, scope, purpose and iteration decide a draw, and nothing else does.

The oracle writes its masks out: it draws the keys itself, by name, and is differentiated by jax.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.autograd.random import draws
from pullback.lib.errors import ConfigError, KeyIdentityError
from pullback.lib.keys import named_key, root_key

X = jnp.asarray(np.random.default_rng(0).normal(size=(5,)), "float32")
ROWS = jnp.asarray(np.random.default_rng(1).normal(size=(3, 5)), "float32")


def numbers(key) -> list[float]:
    return np.asarray(jax.random.normal(key, (4,))).tolist()


def mask(key):
    return jax.random.bernoulli(key, 0.5, (5,)).astype("float32") * 2


def dropped(x, purpose="dropout"):
    """A dropout in three lines, so that these tests stand on the keys alone."""
    return ops.mul(x, mask(pb.key(purpose)))


def close(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=1e-6)


def test_the_identity_is_seed_step_scope_and_purpose():
    def draw(seed=0, step=0, scope="mlp", purpose="dropout"):
        with pb.keys(seed, step), pb.scope(scope):
            return numbers(pb.key(purpose))

    assert draw() == draw()
    assert draw() == numbers(named_key(root_key(0, 0), "mlp:dropout"))
    others = [draw(seed=1), draw(step=1), draw(scope="attn"), draw(purpose="noise"), draw(seed=2**32 - 1)]
    assert len({tuple(x) for x in [draw(), *others]}) == 6


def test_the_order_of_draws_does_not_matter():
    def draws(*purposes):
        with pb.keys(3):
            return {purpose: numbers(pb.key(purpose)) for purpose in purposes}

    assert draws("a", "b", "c") == draws("c", "a", "b")
    assert draws("b")["b"] == draws("a", "b")["b"]


def test_seed_and_step_may_be_traced():
    def draw(seed, step):
        with pb.keys(seed, step):
            return jax.random.key_data(pb.key("a"))

    compiled = pb.compile(draw)
    for seed, step in ((0, 0), (7, 0), (0, 7), (7, 3)):
        np.testing.assert_array_equal(compiled(seed, step), draw(seed, step))
    assert compiled.traces == 1
    many = jax.vmap(draw)(jnp.arange(4), jnp.arange(4))
    np.testing.assert_array_equal(many[3], draw(3, 3))


WRONG = [(2**32, 0), (-1, 0), (1.5, 0), (0, -1), (0, 0.5), (True, 0), ("1", 0), (None, 0), (jnp.float32(1), 0)]


@pytest.mark.parametrize("seed, step", WRONG)
def test_a_seed_or_step_that_is_no_whole_number_in_range_is_refused(seed, step):
    with pytest.raises(ConfigError, match=r"(seed|step) .*expected an integer from 0 to 2\*\*32 - 1"), pb.keys(seed, step):
        pytest.fail("the block was entered")


def test_one_seed_is_one_stream_whatever_the_width_of_integers():
    for seed, step in ((0, 0), (2**32 - 1, 2**32 - 1)):
        narrow = jax.random.key_data(root_key(seed, step))
        with jax.enable_x64(True):
            np.testing.assert_array_equal(jax.random.key_data(root_key(seed, step)), narrow)


def test_a_second_draw_of_one_identity_is_refused():
    with pb.keys(0), pb.scope("blocks.1"):
        pb.key("dropout")
        with pytest.raises(KeyIdentityError, match=r"second draw of key 'dropout' in scope 'blocks.1'.*key\('dropout.2'\)"):
            pb.key("dropout")
        pb.key("dropout.2")
        with pb.scope("mlp"):
            pb.key("dropout")


@pytest.mark.parametrize("once_more", ["plain", "checkpoint", "scan", "grad"])
@pytest.mark.parametrize("first", ["plain", "checkpoint", "scan", "grad"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_second_draw_is_refused_across_checkpoint_scan_and_grad(first, once_more, compiled):
    ways = {
        "plain": lambda x: dropped(x),
        "checkpoint": lambda x: pb.checkpoint(dropped)(x),
        "scan": lambda x: pb.scan(lambda carry, row: (carry, dropped(row)), jnp.float32(0), ROWS + x)[1][0],
        "grad": lambda x: pb.grad(lambda y: ops.sum(dropped(y)))(x),
    }

    def both(x):
        with pb.keys(0):
            return ways[once_more](ways[first](x))

    with pytest.raises(KeyIdentityError, match="second draw of key 'dropout'"):
        (jax.eval_shape if compiled else lambda f, x: f(x))(pb.grad(lambda x: ops.sum(both(x))), X)


def test_two_purposes_may_meet_in_one_scope():
    def loss(x):
        with pb.keys(0):
            first = pb.scan(lambda c, row: (c, dropped(row, "a")), jnp.float32(0), ROWS + x)[1]
            second = pb.scan(lambda c, row: (c, dropped(row, "b")), jnp.float32(0), first)[1]
            return ops.sum(dropped(pb.checkpoint(lambda x: dropped(x, "c"))(ops.sum(second, axis=0)), "d"))

    close(pb.grad(loss)(X), jax.jit(pb.grad(loss))(X))


def test_a_draw_without_keys_says_what_to_do():
    text = re.escape("a random draw in blocks.1 without keys; open `with pb.keys(seed, step):` inside")
    with pytest.raises(KeyIdentityError, match=text), pb.scope("blocks.1"):
        pb.key("dropout")


def test_keys_around_a_compiled_call_do_not_reach_it():
    step = pb.compile(dropped)
    with pb.keys(0), pytest.raises(KeyIdentityError, match=r"a random draw without keys; open `with pb.keys\(seed, step\):` inside"):
        step(X)
    with pytest.raises(KeyIdentityError):  # and nothing was left behind
        dropped(X)


@pytest.mark.parametrize("program", [jax.jit(dropped), lambda x: jax.lax.fori_loop(0, 3, lambda i, x: dropped(x), x)], ids=["jit", "loop"])
def test_keys_around_a_program_of_jax_would_be_baked_in_and_are_refused(program):
    with pb.keys(0), pytest.raises(KeyIdentityError, match="pb.keys was opened around a function that JAX is compiling"):
        program(X)


def test_keys_around_a_mapped_function_are_not_baked_in():
    with pb.keys(0):
        mapped = jax.vmap(dropped)(ROWS)
    close(mapped, ROWS * mask(named_key(root_key(0), ":dropout")))


def test_keys_inside_do_not_leak_out_and_the_inner_ones_count():
    with pb.keys(0):
        with pb.keys(1):
            inner = numbers(pb.key("a"))
        outer = numbers(pb.key("a"))
    assert inner == numbers(named_key(root_key(1), ":a")) and outer == numbers(named_key(root_key(0), ":a"))


# One block of a network with a mask, its oracle, and the ways to run three of them.


def block(h, w):
    with pb.scope("block"):
        return dropped(ops.tanh(h * w)) + h


def block_with(key, h, w):
    return jnp.tanh(h * w) * mask(named_key(key, "block:dropout")) + h


def by_loop(weights, x, seed, step):
    with pb.keys(seed, step):
        carry, _ = pb.scan(lambda h, w: (block(h, w), None), x, weights)
        return ops.sum(carry * carry)


def by_checkpointed_loop(weights, x, seed, step):
    with pb.keys(seed, step):
        carry, _ = pb.scan(lambda h, w: (pb.checkpoint(block)(h, w), None), x, weights)
        return ops.sum(carry * carry)


def by_checkpoint_around(weights, x, seed, step):
    def body(weights, x):
        return pb.scan(lambda h, w: (block(h, w), None), x, weights)[0]

    with pb.keys(seed, step):
        carry = pb.checkpoint(body)(weights, x)
        return ops.sum(carry * carry)


def oracle(weights, x, seed, step):
    for i in range(3):
        x = block_with(jax.random.fold_in(root_key(seed, step), i), x, weights[i])
    return jnp.sum(x * x)


@pytest.mark.parametrize("loss", [by_loop, by_checkpointed_loop, by_checkpoint_around])
def test_a_loop_draws_by_iteration_and_the_rerun_draws_the_same(loss):
    wanted = jax.grad(oracle, argnums=(0, 1))(ROWS, X, 5, 2)
    eager = pb.grad(loss, argnums=(0, 1))(ROWS, X, 5, 2)
    compiled = pb.compile(pb.grad(loss, argnums=(0, 1)))(ROWS, X, 5, 2)
    for ours in (eager, compiled):
        close(ours[0], wanted[0])
        close(ours[1], wanted[1])


def test_a_loop_backwards_draws_by_the_same_iterations():
    def loss(weights, x):
        with pb.keys(5):
            carry, _ = pb.scan(lambda h, w: (block(h, w), None), x, weights, reverse=True)
            return ops.sum(carry * carry)

    def written_out(weights, x):
        for i in (2, 1, 0):
            x = block_with(jax.random.fold_in(root_key(5), i), x, weights[i])
        return jnp.sum(x * x)

    wanted = jax.grad(written_out)(ROWS, X)
    close(pb.grad(loss)(ROWS, X), wanted)
    close(jax.jit(pb.grad(loss))(ROWS, X), wanted)


def test_a_loop_in_a_loop_draws_by_both_iterations():
    def loss(weights, x):
        def outer(h, i):
            h = ops.mul(h, mask(pb.key("outer")))
            return pb.scan(lambda h, w: (block(h, w), None), h, weights)[0], None

        with pb.keys(5, 1):
            carry, _ = pb.scan(outer, x, jnp.arange(2))
            return ops.sum(carry * carry)

    def written_out(weights, x):
        for i in range(2):
            key = jax.random.fold_in(root_key(5, 1), i)
            x = x * mask(named_key(key, ":outer"))
            for j in range(3):
                x = block_with(jax.random.fold_in(key, j), x, weights[j])
        return jnp.sum(x * x)

    wanted = jax.grad(written_out, argnums=(0, 1))(ROWS, X)
    for ours in (pb.grad(loss, argnums=(0, 1)), jax.jit(pb.grad(loss, argnums=(0, 1)))):
        got = ours(ROWS, X)
        close(got[0], wanted[0])
        close(got[1], wanted[1])


def test_checkpoint_draws_the_same_in_both_runs_even_after_the_keys_are_closed():
    with pb.keys(9, 4), pb.scope("net"):
        y, pullback = pb.vjp(pb.checkpoint(block), X, ROWS[0])
    bar = ROWS[1]
    key = root_key(9, 4)
    masked = mask(named_key(key, "net.block:dropout"))
    wanted = jax.vjp(lambda h, w: jnp.tanh(h * w) * masked + h, X, ROWS[0])
    close(y, wanted[0])
    with pb.keys(1), pb.scope("elsewhere"):  # where the walk happens is of no account
        for ours, theirs in zip(pullback(bar), wanted[1](bar)):
            close(ours, theirs)


def test_the_second_order_draws_the_same_masks():
    def loss(x, f):
        with pb.keys(2):
            return ops.sum(ops.pow_constant(f(x), exponent=3))

    masked = mask(named_key(root_key(2), "block:dropout"))
    written_out = lambda x: jnp.sum((jnp.tanh(x * ROWS[0]) * masked + x) ** 3)
    wanted = jax.grad(lambda x: jnp.sum(jax.grad(written_out)(x) * ROWS[2]))(X)
    for f in (lambda x: block(x, ROWS[0]), pb.checkpoint(lambda x: block(x, ROWS[0]))):
        close(pb.grad(lambda x: ops.sum(pb.grad(lambda x: loss(x, f))(x) * ROWS[2]))(X), wanted)  # noqa: B023


def test_first_example_makes_the_parts_of_a_batch_draw_what_the_whole_draws():
    def layer(x, first):
        with pb.keys(3, 1, first_example=first):
            return ops.dropout(x, pb.key("dropout"), draws().first_example, rate=0.5)

    whole = layer(ROWS, 0)
    np.testing.assert_array_equal(whole[2:], layer(ROWS[2:], 2))
    np.testing.assert_array_equal(whole[1:], pb.compile(layer)(ROWS[1:], 1))
    assert not np.array_equal(layer(ROWS[:1], 0) == 0, layer(ROWS[:1], 1) == 0)
