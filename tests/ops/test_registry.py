"""What every op owes: cases, a docstring, an exact rule, a composite where it is fused, and `saves` that its rule needs."""

import unicodedata

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import ops
from pullback.ops.cases import CASES, EDGES
from pullback.ops.rule import is_float

OURS = [op for op in ops.REGISTRY.values() if op.__module__.startswith("pullback.ops.")]

each_op = pytest.mark.parametrize("op", [op for op in OURS if op.kind != "constant"], ids=lambda op: op.name)


@each_op
def test_op_has_cases(op):
    assert any(case.op is op for case in CASES), f"{op.name} has no cases; add them to ops/cases/"


def test_cases_have_labels_of_their_own():
    for table in (CASES, EDGES):
        names = [(row.op.name, row.label) for row in table]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("op", OURS, ids=lambda op: op.name)
def test_op_says_what_it_does(op):
    assert op.__doc__ and len(op.__doc__) > 10


@each_op
def test_docstring_has_both_equations(op):
    assert "̄" in unicodedata.normalize("NFD", op.__doc__) or op.is_fused, f"{op.name}: no cotangent in its docstring"


@each_op
def test_op_has_an_exact_rule(op):
    assert op.rules["exact"].contract == "exact"


@each_op
def test_fused_op_has_a_composite(op):
    assert op.is_fused == (op.composite_fn is not None)


@each_op
def test_variants_say_what_they_are(op):
    for name, rule in op.rules.items():
        if name != "exact":
            assert rule.fn.__doc__, f"{op.name}={name} has no docstring"


@each_op
def test_rules_read_every_operand_that_they_save(op, judge):
    """An operand that is kept for nothing is memory for nothing."""
    kept, read = {}, {}
    for name, rule in op.rules.items():
        kept[name] = {field for field, k in zip((*op.operand_names, "out"), rule.kept) if k}
        for case in [case for case in CASES if case.op is op]:
            with jax.enable_x64(True):
                xs = judge.arrays(case.make(np.random.default_rng(0)))
                jax.eval_shape(lambda case=case, xs=xs, name=name: look(case, xs, name, read.setdefault(name, set())))
    assert all(kept[name] <= read[name] for name in kept)


def look(case, xs, name, read: set) -> int:
    """Call a rule with a record that notes which fields are asked for."""
    y, res = case.op.evaluate(*xs, rule=name, **case.statics)

    class Watched:
        def __getattr__(self, field):
            read.add(field)
            return getattr(res, field)

    zeros = jax.tree.map(lambda v: jnp.zeros(v.shape, v.dtype) if is_float(v) else None, y)
    case.op.rules[name].fn(Watched(), zeros, **{**case.op.defaults, **case.statics})
    if case.op.recompute_fn is not None and name == "exact":  # the output again, for who would keep it
        case.op.recompute_fn(Watched(), **{**case.op.defaults, **case.statics})
    return 0
