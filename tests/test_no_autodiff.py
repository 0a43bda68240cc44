"""Every derivative is written by hand: JAX's autodiff is made to raise, and everything still works."""

import ast
from pathlib import Path
from types import FunctionType

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import api
from jax._src.interpreters import ad

import pullback as pb
from pullback import nn
from pullback.models import GPT2, GPT2Config
from pullback.ops.cases import CASES
from pullback.ops.op import REGISTRY
from pullback.ops.rule import is_float

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("lib", "ops", "autograd", "nn", "models", "experiments")
EXEMPT = ("experiments/bench/rivals/", "experiments/audit/", "autograd/bridge.py")  # rivals, an oracle, a way in for JAX's users

TRANSFORMS = {"grad", "value_and_grad", "vjp", "jvp", "linearize", "linear_transpose", "jacobian", "jacfwd", "jacrev", "hessian"}
CUSTOM = {"custom_vjp", "custom_jvp", "custom_gradient", "checkpoint", "remat", "defvjp", "defjvp"}
INTERPRETER = {"ad", "jet"}

# Where JAX's autodiff begins, whoever asks for it.
ENTRIES = ("jvp", "jvp_jaxpr", "linearize", "linearize_jaxpr", "linear_jvp", "backward_pass", "backward_pass3", "closed_backward_pass")


@pytest.fixture
def autodiff_raises(monkeypatch):
    def forbid(module, name: str):
        def raises(*args, **kwargs):
            raise AssertionError(f"JAX's autodiff was asked for: {module.__name__}.{name}")

        monkeypatch.setattr(module, name, raises)

    found = [name for name in ENTRIES if isinstance(getattr(ad, name, None), FunctionType)]
    assert {"jvp", "linearize"} <= set(found) and any("backward_pass" in name for name in found), found
    for name in found:
        forbid(ad, name)
    for name in TRANSFORMS:
        forbid(jax, name)
        if hasattr(api, name):
            forbid(api, name)


@pytest.mark.parametrize(
    "planted",
    [
        lambda x: jax.grad(jnp.sum)(x),
        lambda x: jax.vjp(jnp.sin, x)[0],
        lambda x: jax.jvp(jnp.sin, (x,), (x,))[0],
        lambda x: api.vjp(jnp.sin, x)[0],
        lambda x: jax.linearize(jnp.sin, x)[0],
    ],
    ids=["grad", "vjp", "jvp", "api", "linearize"],
)
def test_the_trap_works(autodiff_raises, planted):
    for run in (planted, jax.jit(planted)):
        with pytest.raises(AssertionError, match="JAX's autodiff was asked for"):
            run(jnp.ones(3))


def test_the_trap_reaches_those_who_took_the_function_before(autodiff_raises):
    """`from jax import grad` at the top of a module holds the old function; what that calls is closed too."""
    with pytest.raises(AssertionError, match="asked for"):
        TAKEN(jnp.sin)(jnp.float32(1))


TAKEN = jax.grad


def test_gpt2_trains_without_autodiff(autodiff_raises):
    config = GPT2Config(vocab=11, context=8, layers=1, heads=2, width=16, dropout=0.1, checkpoint=True)
    model = GPT2.init(jax.random.key(0), config)
    params = nn.named_parameters(model)
    optimiser = nn.chain(nn.clip_by_global_norm(1.0), nn.adamw(1e-2))

    @pb.compile(donate=(0, 1))
    def step(params, state, ids, number):
        with pb.keys(0, number):
            loss = lambda model: model.loss(ids[:, :-1], ids[:, 1:], train=True)
            value, grads = pb.value_and_grad(loss)(nn.with_parameters(model, params))
        updates, state = optimiser.update(grads, state, params)
        return nn.apply_updates(params, updates), state, value

    state = optimiser.init(params)
    ids = jnp.asarray(np.random.default_rng(0).integers(0, 11, size=(4, 9)), "int32")
    params = jax.tree.map(jnp.copy, params)
    losses = []
    for number in range(5):
        params, state, value = step(params, state, ids, number)
        losses.append(float(value))
    assert losses[-1] < losses[0] and step.traces == 1


FIRST = {case.op.name: case for case in reversed(CASES)}  # the first case of each op
RULES = [(FIRST[op.name], rule) for op in REGISTRY.values() if op.name in FIRST for rule in op.rules]
COMPOSED = [case for case in FIRST.values() if case.op.composite_fn]


def run_fresh(case, name: str):
    """Forward and rule as plain Python, traced and not compiled: programs that exist already would hide what they are made of."""
    op, statics = case.op, {**case.op.defaults, **case.statics}
    rng = np.random.default_rng(0)
    xs = tuple(jnp.asarray(x) if isinstance(x, np.ndarray) else x for x in case.make(rng))
    values = xs if op.variadic else xs + (None,) * (len(op.operand_names) - len(xs))
    at = [i for i, x in enumerate(values) if hasattr(x, "dtype")]

    def both(arrays):
        full = list(values)
        for i, x in zip(at, arrays):
            full[i] = x
        y = op.fn(*full, **statics)
        y, extra = y if op.residuals else (y, ())
        res = op.keep(tuple(full), y, tuple(extra), op.rules[name])
        y_bar = jax.tree.map(lambda v: jnp.ones_like(v) if is_float(v) else None, y)
        return op.rules[name].pull(res, y_bar, tuple(map(is_float, full)), dict(case.statics))

    return jax.eval_shape(both, [values[i] for i in at])


@pytest.mark.parametrize("case, name", RULES, ids=[f"{case.op.name}-{rule}" for case, rule in RULES])
def test_every_rule_runs_without_autodiff(autodiff_raises, case, name):
    with jax.enable_x64(True):
        bars = run_fresh(case, name)
    assert any(bar is not None for bar in bars)


@pytest.mark.parametrize("case", COMPOSED, ids=[case.op.name for case in COMPOSED])
def test_every_composite_pulls_back_without_autodiff(autodiff_raises, case):
    op, statics = case.op, {**case.op.defaults, **case.statics}
    xs = tuple(jnp.asarray(x, "float32") if isinstance(x, np.ndarray) and is_float(x) else x for x in case.make(np.random.default_rng(0)))
    at = [i for i, x in enumerate(xs) if is_float(x)]

    def pulled(floats):
        def composite(*floats):
            full = list(xs)
            for i, x in zip(at, floats):
                full[i] = x
            return op.composite_fn(*full, **statics)

        y, pullback = pb.vjp(composite, *floats)
        return pullback(jax.tree.map(lambda v: jnp.ones_like(v) if is_float(v) else None, y))

    assert len(jax.eval_shape(pulled, [xs[i] for i in at])) == len(at)


def names_of_autodiff(source: str) -> list[str]:
    """Whatever a source names of JAX's autodiff, by line, under any alias."""
    tree, modules, found = ast.parse(source), {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for a in node.names:
                parts = a.name.split(".")
                modules[a.asname or parts[0]] = a.name if a.asname else parts[0]
                if parts[0] == "jax" and INTERPRETER & set(parts):
                    found.append(f"line {node.lineno}: import {a.name}")
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module and node.module.split(".")[0] == "jax":
            for a in node.names:
                modules[a.asname or a.name] = f"{node.module}.{a.name}"
                if a.name in TRANSFORMS | CUSTOM | INTERPRETER or INTERPRETER & set(node.module.split(".")):
                    found.append(f"line {node.lineno}: from {node.module} import {a.name}")
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=attr, lineno=line) if attr in TRANSFORMS | CUSTOM | INTERPRETER:
                if dotted(node, modules).split(".")[0] == "jax":
                    found.append(f"line {line}: {dotted(node, modules)}")
            case ast.Call(func=ast.Name(id="getattr"), args=[of, ast.Constant(value=attr), *_], lineno=line):
                if attr in TRANSFORMS | CUSTOM and dotted(of, modules).split(".")[0] == "jax":
                    found.append(f"line {line}: getattr of {attr}")
    return found


def dotted(node: ast.expr, modules: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value, modules)}.{node.attr}"
    return modules.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def test_no_module_names_autodiff():
    paths = [path for floor in FLOORS for path in sorted((ROOT / floor).rglob("*.py"))]
    looked = [path for path in paths if not str(path.relative_to(ROOT)).startswith(EXEMPT)]
    assert len(looked) > 50
    found = {str(path.relative_to(ROOT)): names for path in looked if (names := names_of_autodiff(path.read_text()))}
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "import jax\njax.grad(f)",
        "import jax as j\ny = j.vjp(f, x)",
        "from jax import value_and_grad",
        "from jax import numpy as jnp, custom_vjp as c",
        "import jax\n@jax.custom_jvp\ndef f(x): ...",
        "import jax.interpreters.ad",
        "from jax.interpreters import ad",
        "from jax._src.interpreters.ad import backward_pass",
        "from jax._src import api\napi.vjp(f, x)",
        "import jax\ngetattr(jax, 'linearize')(f)",
        "from jax.experimental import jet",
        "def f():\n    import jax\n    return jax.checkpoint(g)",
    ],
)
def test_a_planted_name_is_found(source):
    assert len(names_of_autodiff(source)) == 1


@pytest.mark.parametrize(
    "source", ["from ..autograd import grad, vjp", "import pullback as pb\npb.grad(f)", "import jax\njax.jit(f)\njax.lax.scan(g)"]
)
def test_our_own_names_are_no_fault(source):
    assert names_of_autodiff(source) == []
