"""Where two programs first differ is named: by scope and op, forward or backward."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.autograd import inspection
from pullback.lib.errors import OperandError, UnknownName
from pullback.models.gpt2 import GPT2, GPT2Config

MODEL = GPT2.init(jax.random.key(0), GPT2Config(vocab=17, context=8, layers=2, heads=2, width=8))
IDS = jnp.arange(16).reshape(2, 8) % 17


def differ(*programs, limit=0.0) -> Any:
    return pb.first_difference(*programs, limit=limit)


def loss(model, ids):
    return model.loss(ids, ids)


def ruled(model, ids):
    with pb.rules({"blocks.1.*/gelu": "erf_slope"}):
        return loss(model, ids)


def test_none():
    found = differ(loss, loss, MODEL, IDS)
    assert found.first is None and found.only_f == found.only_g == () and found.same > 100
    assert str(found) == f"no difference: {found.same} values are the same"


def test_two_rules():
    found = differ(loss, ruled, MODEL, IDS)
    assert found.first.name == "blocks.1.mlp/gelu/backward/x" and "models/gpt2.py:" in found.first.line
    assert found.first.gap.ulps > 0 and found.first.gap.relative < 1e-3
    assert "first difference, after" in str(found) and "blocks.1.mlp/gelu/backward/x (called at " in str(found)


def test_two_constants():
    """The forward of the op that has it, in the first scope that has that op."""

    def constant(c):
        def f(x):
            with pb.scope("blocks.0"):
                y = ops.mul(x, x)
            with pb.scope("blocks.1"):
                return ops.sum(ops.mul(y, c))

        return f

    found = differ(constant(2.0), constant(2.0000002), jnp.arange(1.0, 4.0))
    assert found.first.name == "blocks.1/mul" and found.same == 1 and found.first.gap.ulps == 1


def test_two_precisions():
    """A context inside the function; with the gradient taken inside, it holds for the backward too."""

    def low(model, ids):
        with pb.precision("bfloat16"):
            return pb.value_and_grad(loss)(model, ids)

    whole = pb.value_and_grad(loss)
    assert differ(whole, low, MODEL, IDS).first.text.startswith("float32 and bfloat16: ")
    loose = differ(whole, low, MODEL, IDS, limit=0.5)
    assert loose.first is None and "wte/cast" in loose.only_g
    assert "only the second program has wte/cast" in str(loose)


@pytest.mark.parametrize("compile", [jax.jit, pb.compile])
def test_compiled_and_eager(compile):
    found = differ(loss, compile(loss), MODEL, IDS, limit=1e-5)
    assert found.first is None and found.same > 100 and not found.only_f and not found.only_g
    assert differ(compile(loss), compile(ruled), MODEL, IDS, limit=1e-12).first.name == "blocks.1.mlp/gelu/backward/x"


def test_any_function_that_returns_named_arrays():
    """By value, by scope, by gradient; and the other way round."""
    seen = {}

    def watched(x):
        with pb.scope("a"):
            y = seen["a"] = ops.sin(x)
        with pb.scope("b"):
            return ops.sum(ops.exp(y))

    x = jnp.arange(3.0)
    numpy = lambda x: {"a/sin": np.sin(x), "b": np.exp(np.sin(x)).sum(), "gradient/0": np.cos(x) * np.exp(np.sin(x))}
    assert differ(watched, numpy, x, limit=1e-6).same == 3
    wrong = lambda x: numpy(x) | {"b": np.exp(np.sin(x)).sum() + 1}
    for programs, numbers in (((watched, wrong), (0, 1)), ((wrong, watched), (1, 0))):
        found = differ(*programs, x, limit=1e-6)
        assert found.first.name in ("b", "b/sum") and found.same == 1
        assert found.first.gap.a - found.first.gap.b == pytest.approx(numbers[0] - numbers[1], abs=1e-5)
    with pytest.raises(UnknownName, match="no value and no scope 'a/sine'; did you mean 'a/sin'"):
        differ(watched, lambda x: {"a/sine": x}, x)
    with pytest.raises(OperandError, match="no name in common"):
        differ(lambda x: {"p": x}, lambda x: {"q": x}, x)


def test_shapes_and_a_loop():
    found = differ(lambda x: {"y": x}, lambda x: {"y": x[:1]}, jnp.ones(2))
    assert found.first.gap is None and found.first.text == "shapes (2,) and (1,)"
    body = lambda k: lambda carry, row: (ops.add(carry, ops.mul(row, k)), None)
    looped = lambda k: lambda x: ops.sum(pb.scan(body(k), jnp.float32(0), x)[0])
    eager = differ(looped(2.0), looped(3.0), jnp.ones(3))
    assert eager.first.name == "mul" and eager.same == 0
    compiled = differ(jax.jit(looped(2.0)), jax.jit(looped(3.0)), jnp.ones(3))
    assert compiled.first.name == "sum" and compiled.same == 0  # what the loop gave; inside it nobody can look


def test_a_sum_of_cotangents_has_the_name_of_what_it_belongs_to():
    def twice(x):
        with pb.scope("s"):
            y = ops.sin(x)
        return ops.sum(ops.add(ops.exp(y), y))

    run = differ(twice, lambda x: {"s/sin/backward/add": np.zeros(2)}, jnp.ones(2))
    assert run.first.name == "s/sin/backward/add"


def test_nobody_looks_on_afterwards():
    with pytest.raises(ZeroDivisionError):
        differ(loss, lambda *args: 1 / 0, MODEL, IDS)
    assert inspection.current is None
