"""The rivals compute the same thing, however they are written: losses, gradients and one step of training."""

import importlib
import operator
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback.experiments.bench.rivals as rivals

NAMES = ("recipe", "jax_plain", "jax_tuned", "jax_scan", "torch_gpt2")


@pytest.fixture(scope="module")
def load():
    """Import a rival as it runs: a script whose folder is on the path."""
    folder = str(Path(rivals.__file__).parent)
    sys.path.insert(0, folder)
    yield importlib.import_module
    sys.path.remove(folder)
    for name in NAMES:
        sys.modules.pop(name, None)


def tiny(load, bias: bool):
    shapes = dict(batch=2, time=8, layers=2, heads=2, width=8, vocab=13, context=10)
    return replace(load("recipe").Recipe(), bias=bias, clip=0.5, lr=1e-2, **shapes)


def start(load, recipe, dtype):
    """Weights away from the zeros and ones that they are drawn with, and one batch."""
    rng = np.random.default_rng(7)
    p = jax.tree.map(lambda a: jnp.asarray(a + 0.3 * rng.standard_normal(a.shape), dtype), load("recipe").weights(recipe))
    return p, *map(jnp.asarray, load("recipe").tokens(recipe))


def gap(a, b) -> float:
    """Largest ‖difference‖ / ‖reference‖ over the parameters."""
    return max(float(jnp.linalg.norm(x - y) / jnp.linalg.norm(y)) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


FORMS = (
    "",  # the form that the bench uses
    "bias=add,scale=add,norm=again,gelu=exp,block=4,soft=late,scores=keep,heads=three,head=gather,chunk=4,embed=rows,block_again=yes",
    "bias=row,scale=row,gelu=keep,block=4,soft=late,scores=again,order=keys,heads=whole,head=chain,logits=tall,chunk=0",
    "block=0,soft=divide,order=keys,logits=wide",
)


@pytest.mark.parametrize("bias", [True, False])
def test_tuned_equals_plain(load, bias):
    plain, tuned = load("jax_plain"), load("jax_tuned")
    recipe = tiny(load, bias)
    with jax.enable_x64(True):
        p, x, y = start(load, recipe, jnp.float64)
        zeros = jax.tree.map(jnp.zeros_like, p)
        loss, g = jax.jit(jax.value_and_grad(lambda p: plain.loss_fn(p, x, y, recipe)))(p)
        after, folded = (
            jax.jit(lambda p, g, f=f: f(p, g, zeros, zeros, 1.0, recipe.lr, recipe)[0]) for f in (plain.adamw, tuned.folded_adamw)
        )
        for text in FORMS if bias else FORMS[:1]:
            form = tuned.changed(tuned.best(recipe), text)
            loss_tuned, g_tuned = jax.jit(lambda p, form=form: tuned.value_and_grad(p, x, y, recipe, form))(p)
            assert abs(loss_tuned - loss) < 1e-12 * abs(loss)
            assert gap(g_tuned, g) < 1e-10, text
            change, expected = (jax.tree.map(jnp.subtract, new, p) for new in (after(p, g_tuned), after(p, g)))
            assert gap(change, expected) < 1e-5, text
        assert gap(folded(p, g), after(p, g)) < 1e-12


def test_first_losses_in_float32(load):
    """Four whole steps each, buffers donated, as they are timed."""
    plain, tuned = load("jax_plain"), load("jax_tuned")
    recipe = tiny(load, bias=False)

    def losses(step):
        p, x, y = start(load, recipe, jnp.float32)
        m, v, found = jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p), []
        for i in range(4):
            p, m, v, loss = step(p, m, v, jnp.float32(i + 1), jnp.float32(recipe.lr), x, y)
            found.append(float(loss))
        return found

    first = losses(plain.step_of(plain.loss_fn, recipe))
    assert first[-1] < first[0] - 0.01
    np.testing.assert_allclose(losses(tuned.step_of(recipe, tuned.best(recipe))), first, rtol=1e-5)


def test_scan_equals_the_loop(load):
    plain, scan = load("jax_plain"), load("jax_scan")
    recipe = tiny(load, bias=True)
    blocks, h, r = scan.operands(recipe)

    def loop(h):
        for i in range(recipe.layers):
            h = plain.block(h, jax.tree.map(operator.itemgetter(i), blocks), recipe)
        return (h * r).mean()

    value, h_bar = jax.jit(jax.value_and_grad(lambda h: scan.value_of(recipe)(blocks, h, r)))(h)
    expected, expected_bar = jax.jit(jax.value_and_grad(loop))(h)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert gap(h_bar, expected_bar) < 1e-5


def test_torch_equals_plain(load):
    torch = pytest.importorskip("torch", reason="torch is not installed: its rival is not compared")
    plain, rival = load("jax_plain"), load("torch_gpt2")
    recipe = tiny(load, bias=True)
    p, x, y = start(load, recipe, jnp.float32)
    model = rival.GPT2(recipe)
    rival.load(model, jax.tree.map(np.asarray, p))
    optimiser = rival.optimiser_of(model, recipe)
    step, m, v = plain.step_of(plain.loss_fn, recipe), jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p)
    ids = [torch.from_numpy(np.array(a)).long() for a in (x, y)]
    for i in range(4):
        p, m, v, loss = step(p, m, v, jnp.float32(i + 1), jnp.float32(recipe.lr), x, y)
        assert rival.train(model, model, optimiser, *ids, recipe) == pytest.approx(float(loss), rel=1e-5)


def test_shapes_are_the_published_ones(load):
    count = lambda shape: sum(a.size for a in jax.tree.leaves(load("recipe").weights(shape)))
    shapes = load("recipe").SHAPES
    assert count(shapes["shakespeare-char"]) == 804_096
    assert count(replace(shapes["gpt2-124m"], layers=0)) + 12 * 7_087_872 == 124_439_808
