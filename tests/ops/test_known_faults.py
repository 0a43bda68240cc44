"""Public faults of other frameworks as tiny cases with right values: those that today's ops cover.

The cases are not part of the project: PULLBACK_CASES names the folder that holds `known_faults.json`.
"""

import functools
import json
import os
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops

FOLDER = os.environ.get("PULLBACK_CASES")
TABLE = json.loads((pathlib.Path(FOLDER) / "known_faults.json").read_text()) if FOLDER else []

DOCUMENTED = {  # where the right value is not given, and the docstring says so and what to do
    "A01b": "where: a branch of infinite slope needs its operand guarded (A01a)",
    "A14c": "softmax_cross_entropy: a label out of range gives NaN",
    "A14d": "softmax_cross_entropy: a label out of range gives NaN",
    "A14e": "softmax_cross_entropy: a label out of range gives NaN",
}


def chain(x):
    for _ in range(5000):
        x = x + 1
    return x


def crossed(a, b):
    c, d = a + b, a * b
    return (c + d) + c * d


EXPRESSIONS = {
    "A01a": lambda x: ops.where(x > 0, ops.sqrt(ops.where(x > 0, x, 1.0)), x),
    "A02b": lambda x: ops.sum(x * x),
    "A13a": lambda x: x / 2,
    "A35a": lambda a: (a + a) + (a + a),
    "A35b": crossed,
    "A35c": chain,
    "A37b": lambda x: x * ops.stop_gradient(x),
}


def cross_entropy(logits, target, ignore_index, reduction="mean"):
    kept = jnp.asarray(target) != ignore_index
    losses = ops.softmax_cross_entropy(logits, target, kept)
    return losses if reduction == "none" else ops.sum(losses) / jnp.maximum(kept.sum(), 1)


def attention(q, k, v, mask=None, scale=None, **statics):
    rows = lambda x: ops.reshape(x, shape=(1, x.shape[0], 1, x.shape[1]))
    y = ops.attention(rows(q), rows(k), rows(v), None if mask is None else mask[None, None], scale=scale, **statics)
    return ops.reshape(y, shape=(q.shape[0], v.shape[1]))


def hessian_prod(x):
    return pb.hessian(lambda x: functools.reduce(ops.mul, ops.unstack(x)))(x)


RUN = {  # name of the case's op: what it is here, called with the case's inputs and attributes
    "add": lambda a, b: ops.add(a, b),
    "attention": lambda q, k, v, mask, scale, mask_true: attention(q, k, v, mask, scale),
    "causal_attention": lambda q, k, v, scale, query_offset: attention(q, k, v, scale=scale, query_offset=query_offset, causal=True),
    "cross_entropy": cross_entropy,
    "dropout": lambda x, p, train: ops.dropout(x, jax.random.key(0), rate=p),
    "hessian_prod": hessian_prod,
    "l1_normalize": lambda x, eps: ops.div(x, ops.maximum(ops.sum(ops.abs(x)), eps)),
    "layernorm": lambda x, eps: ops.layer_norm(x, eps=eps),
    "logsumexp": lambda x: ops.logsumexp(x),
    "matmul": lambda a, b: ops.matmul(a, b),
    "max": lambda x, **statics: ops.max(x, **statics),
    "min": lambda x, **statics: ops.min(x, **statics),
    "mul": lambda a, b: ops.mul(a, b),
    "pow": lambda a, b: ops.power(a, b),
    "softmax": lambda x: ops.softmax(x),
    "sum": lambda x: ops.sum(x),
    "take": lambda x, idx, axis: ops.take(x, idx, axis),
    "take_along_axis": lambda x, idx, axis: ops.take_along_axis(x, idx, axis),
    "where": lambda cond, a, b: ops.where(cond, a, b),
}


def covered(case) -> bool:
    if case["op"] == "composite":
        return case["id"] in EXPRESSIONS or case["id"] in DOCUMENTED
    return case["op"] in RUN or (case["op"] == "embedding" and "padding_idx" not in case["attrs"])


def array(value, dtype, shape=None):
    """A case's value: nested lists with 'nan' and 'inf' in words, or {"fill", "shape"}."""
    if isinstance(value, dict):
        return np.full(value["shape"], float(value["fill"]), dtype)
    value = np.asarray(value)
    if value.dtype.kind in "fU" or value.size == 0:
        value = value.astype(np.float64).astype(dtype)
    return value if shape is None else value.reshape(shape)


def agree(values, expected, tolerance) -> bool:
    """Do all agree, shape included? `None` in the expected is not checked."""
    for value, right in zip(values, expected, strict=True):
        if right is None or (isinstance(right, list) and None in right):
            continue
        right = array(right, np.float64)
        if value.shape != right.shape and value.size + right.size:
            return False
        if not np.allclose(np.asarray(value, np.float64), right.reshape(value.shape), **tolerance, equal_nan=True):
            return False
    return True


@pytest.mark.skipif(not FOLDER, reason="PULLBACK_CASES names no folder with known_faults.json")
@pytest.mark.parametrize("case", [case for case in TABLE if covered(case)], ids=lambda case: case["id"])
def test_case(case):
    if case["id"] in DOCUMENTED:
        pytest.skip(DOCUMENTED[case["id"]])
    attrs = {name: value for name, value in case["attrs"].items() if name not in ("cotangent", "shapes", "expr")}
    shapes = case["attrs"].get("shapes", {})
    inputs = {name: array(value, jnp.dtype(case["dtype"]), shapes.get(name)) for name, value in case["inputs"].items()}
    floats = [name for name, x in inputs.items() if jnp.issubdtype(x.dtype, jnp.floating)]
    f = EXPRESSIONS[case["id"]] if case["op"] == "composite" else RUN.get(case["op"], lambda w, idx: ops.embedding(w, idx))

    if case["expect_out"] == {"raises": True} or case["expect_grads"] == {"raises": True} or case.get("raises"):
        with pytest.raises(pb.PullbackError):
            f(**inputs, **attrs)
        return
    if case["op"] == "hessian_prod":
        assert agree([f(jnp.asarray(inputs["x"]))], [case["expect_out"] or case["expect_grads"]], case["tolerance"])
        return
    y, pullback = pb.vjp(lambda *xs: f(**{**inputs, **dict(zip(floats, xs))}, **attrs), *[jnp.asarray(inputs[name]) for name in floats])
    outs = [case["expect_out"], *case.get("accept_out", [])]
    assert any(agree([y], [out], case["tolerance"]) for out in outs)
    if case["expect_grads"] is None:
        return
    seed = array(case["attrs"].get("cotangent", {"fill": 1.0, "shape": y.shape}), y.dtype, y.shape)
    x_bars = dict(zip(floats, pullback(jnp.asarray(seed))))
    for name, x_bar in x_bars.items():
        assert x_bar.shape == inputs[name].shape and x_bar.dtype == inputs[name].dtype
    rights = [case["expect_grads"], *case.get("accept_grads", [])]
    assert any(agree([x_bars[name] for name in right], right.values(), case["tolerance"]) for right in rights)


@pytest.mark.skipif(not FOLDER, reason="PULLBACK_CASES names no folder with known_faults.json")
def test_integers_have_no_gradient():
    """A13b: never a gradient that was cut down to an integer 0."""
    with pytest.raises(pb.PullbackError):
        pb.grad(lambda x: ops.sum(x / 2))(jnp.array([110]))


@pytest.mark.skipif(not FOLDER, reason="PULLBACK_CASES names no folder with known_faults.json")
def test_which_cases_are_open(capsys):
    open_ids = [case["id"] for case in TABLE if not covered(case) and case["id"] != "A13b"]
    with capsys.disabled():
        print(f"\nknown faults: {len(TABLE) - len(open_ids)} of {len(TABLE)} cases covered; not yet: {' '.join(open_ids)}")
    assert len(open_ids) < len(TABLE)
