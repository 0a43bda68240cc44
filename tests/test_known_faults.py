"""Public faults of other frameworks as tiny cases with right values, through one adapter.

The cases are not part of the project: `--cases FILE` names the JSON file, else PULLBACK_CASES the folder that holds
`known_faults.json`. A "must" case passes; a "should" case passes, or what it is about is documented where DOCUMENTED says.
"""

import ast
import functools
import itertools
import operator
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import nn, ops
from pullback.lib import tensors
from pullback.lib.bpe import BPE, from_merges, words_of
from pullback.models import gpt2_weights
from pullback.models.sampling import left

AWAITED = {  # op of a case -> the issue area that brings it; these and no others may be left out
    **dict.fromkeys(("conv1d", "conv2d"), "convolution"),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d"), "pooling"),
    **dict.fromkeys(("batchnorm_train", "batchnorm_eval", "batchnorm_running"), "batch norm"),
}

DOCUMENTED = {  # a "should" case whose right value is not given: the docstring that says so
    "A01b": (ops.where, "Guard its operand"),
    "A25c": (nn.adam, "L2 in the gradient"),
}


def awaited(op: str) -> str | None:
    """What a case of this op waits for."""
    for start, what in (("conv", "convolution"), ("max_pool", "pooling"), ("avg_pool", "pooling"), ("batchnorm", "batch norm")):
        if op.startswith(start) and op not in AWAITED and op not in RUN:
            return what
    return AWAITED.get(op)


# A case's op as ours: called with its inputs and attributes by name.


def cross_entropy(logits, target, weight=None, reduction="mean", ignore_index=-100, label_smoothing=0.0):
    weight = None if weight is None else jnp.asarray(weight)
    statics = dict(ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction)
    return ops.softmax_cross_entropy(logits, target, None, weight, **statics)


def attention(q, k, v, mask=None, scale=None, **statics):
    rows = lambda x: ops.reshape(x, shape=(1, x.shape[0], 1, x.shape[1]))
    y = ops.attention(rows(q), rows(k), rows(v), None if mask is None else mask[None, None], scale=scale, **statics)
    return ops.reshape(y, shape=(q.shape[0], v.shape[1]))


def stored(w):
    """A projection as GPT-2's files have it, brought into our order."""
    return ops.transpose(w) if gpt2_weights.is_turned("blocks.0.attn.proj.weight") else w


def tied_embedding_head(w, idx):
    return ops.matmul(ops.embedding(w, idx), ops.transpose(w))


def bce_with_logits(logits, target, pos_weight=None, reduction="mean"):
    return ops.sigmoid_binary_cross_entropy(logits, target, None if pos_weight is None else jnp.asarray(pos_weight), reduction=reduction)


def hessian_prod(x):
    return pb.hessian(lambda x: functools.reduce(ops.mul, ops.unstack(x)))(x)


RUN = {
    "attention": lambda q, k, v, mask, scale, mask_true="attend": attention(q, k, v, mask, scale),
    "causal_attention": lambda q, k, v, scale, query_offset=0: attention(q, k, v, scale=scale, query_offset=query_offset, causal=True),
    "bce_with_logits": bce_with_logits,
    "conv1d_hf": lambda x, w, b: ops.linear(x, stored(w), b),
    "clip": lambda x, min=None, max=None: ops.clip(x, min, max),
    "cross_entropy": cross_entropy,
    "dropout": lambda x, p, train: ops.dropout(x, jax.random.key(0), rate=p) if train else x,
    "dropout_with_mask": lambda x, keep, p: ops.where(keep, x / (1 - p), 0.0),
    "einsum": lambda spec, **xs: ops.einsum(spec, *xs.values()),
    "embedding": lambda w, idx, padding_idx=None: ops.embedding(w, idx, padding_idx=padding_idx),
    "hessian_prod": hessian_prod,
    "index_add": lambda x, idx, y, axis=0: ops.index_add(x, idx, y),
    "index_fill": lambda x, idx, v, axis=0: ops.index_fill(x, idx, v),
    "index_set": lambda x, idx, y, axis=0: ops.index_set(x, idx, y),
    "kl_div": lambda log_pred, target, reduction="sum": ops.kl_divergence(log_pred, target, reduction=reduction),
    "l1_normalize": lambda x, eps: ops.div(x, ops.maximum(ops.sum(ops.abs(x)), eps)),
    "l2norm": lambda x: ops.norm(x),
    "layernorm": lambda x, eps: ops.layer_norm(x, eps=eps),
    "masked_fill": lambda x, mask, v: ops.masked_fill(x, mask, v),
    "segment_sum": lambda data, ids, num_segments: ops.segment_sum(data, ids, num_segments),
    "take": lambda x, idx, axis=0: ops.take(x, idx, axis),
    "take_along_axis": lambda x, idx, axis: ops.take_along_axis(x, idx, axis),
    "tied_embedding_head": tied_embedding_head,
    "topk_values": lambda x, k, largest=True: ops.top_k(x, k, largest=largest)[0],
    "where": lambda cond, a, b: ops.where(cond, a, b),
}


def ours(case) -> Callable:
    """The function that a case is about. A name that is an op of ours, with NumPy's arguments, needs no entry above."""
    name = case["op"]
    if name == "composite":
        return expression(re.sub(r"gradient of (.*) with respect to .*", r"\1", case["attrs"]["expr"]))
    if name in RUN:
        return RUN[name]
    if not hasattr(ops, name):
        pytest.fail(f"case {case['id']}: the adapter knows no op {name!r}")
    statics = {"std": {"correction": 0}, "var": {"correction": 0}}.get(name, {})
    return lambda **given: getattr(ops, name)(*[given.pop(k) for k in list(case["inputs"])], **{**statics, **given})


# Expressions: plain mathematics, read by Python's parser and carried out by ops. Nothing else is carried out.

BINARY = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow}
COMPARE = {ast.Gt: ops.greater, ast.GtE: ops.greater_equal, ast.Lt: ops.less, ast.LtE: ops.less_equal, ast.Eq: ops.equal}


def evaluate(node, names):
    if isinstance(node, ast.BinOp):
        return BINARY[type(node.op)](evaluate(node.left, names), evaluate(node.right, names))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -evaluate(node.operand, names)
    if isinstance(node, ast.Compare):
        return COMPARE[type(node.ops[0])](evaluate(node.left, names), evaluate(node.comparators[0], names))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return getattr(ops, node.func.id)(*[evaluate(x, names) for x in node.args])
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.Constant):
        return node.value
    raise ValueError(ast.dump(node))


def expression(text: str):
    """`c=a+b; d=a*b; return c*d`, `repeat 5 times: y=y+1`, or one expression."""

    def run(**names):
        names, value = dict(names), None
        for statement in text.split(";"):
            found = re.match(r"\s*(?:repeat (\d+) times:)?\s*(?:return )?(.*)", statement)
            assert found, statement
            times, body = found.groups()
            target, _, right = body.partition("=") if re.match(r"\w+=[^=]", body) else ("", "", body)
            tree = ast.parse(right.strip(), mode="eval").body
            for _ in range(int(times or 1)):
                value = evaluate(tree, names)
                if target:
                    names[target.strip()] = value
        return value

    return run


# Cases that are no function of arrays.


def update_of(optimiser, case):
    """The parameter after each step."""
    p = jnp.asarray(case["inputs"]["p"], jnp.float32)
    state, found = optimiser.init(p), []
    for g in case["inputs"]["grads"]:
        updates, state = optimiser.update(jnp.asarray(g, jnp.float32), state, p)
        p = nn.apply_updates(p, updates)
        found.append(float(p))
    return found[-1:] if case["attrs"].get("report") == "last" else found


def adam(case, make=nn.adam, **settings):
    attrs = case["attrs"]
    return update_of(make(attrs["lr"], attrs.get("beta1", 0.9), attrs.get("beta2", 0.999), attrs.get("eps", 1e-8), **settings), case)


def sgd(case):
    momentum = case["attrs"].get("momentum", 0.0)
    return update_of(nn.sgd(case["attrs"]["lr"], momentum or None, nesterov=case["attrs"].get("nesterov", False)), case)


def clip_grad_norm(case):
    """A norm that is not finite is reported by `global_norm`, so that the step can be left out."""
    grads = [jnp.asarray(array(g, "float32")) for g in case["inputs"]["grads"]]
    norm, right = float(nn.global_norm(grads)), float(case["attrs"]["expect_norm"])
    assert norm == pytest.approx(right, rel=1e-6, nan_ok=True)
    if not np.isfinite(norm):
        return {"nonfinite": True}
    optimiser = nn.clip_by_global_norm(case["attrs"]["max_norm"])
    return [list(map(float, g)) for g in optimiser.update(grads, optimiser.init(grads))[0]]


def accumulated(case):
    """The loss over micro-batches of unequal lengths, padded to one and weighted; the gradients are asserted here."""
    given, skipped = case["inputs"], case["attrs"].get("ignore_index")
    ragged = given["x"] if "x" in given else given["logits"]
    parts = [np.asarray(part, np.float32) for part in ragged]
    longest = max(map(len, parts))
    padded = lambda part, value=0: np.pad(part, [(0, longest - len(part))] + [(0, 0)] * (part.ndim - 1), constant_values=value)
    x = jnp.asarray(np.stack([padded(part) for part in parts]))
    weights = jnp.asarray(np.stack([padded(np.ones(len(part), np.float32)) for part in parts]))
    if skipped is None:
        param, name, operand = jnp.asarray(given["w"], jnp.float32), "w", x
        mean = lambda w, first, x, weights: ops.div(ops.sum(ops.mul(ops.mul(w, x), weights)), weights.sum())
    else:
        param, name = x, "logits"
        operand = jnp.asarray(np.stack([padded(np.asarray(part), skipped) for part in given["target"]]))
        weights = weights * (operand != skipped)
        mean = lambda logits, first, target, weights: cross_entropy(logits[first], target[0], ignore_index=skipped)
    of_part = lambda first, *part: (pb.value_and_grad(mean)(param, first, *part), part[-1].sum())
    loss, grad = nn.accumulate(of_part, len(parts), operand, weights)
    grads = [grad] if skipped is None else [g[: len(part)] for g, part in zip(grad, parts)]
    right = case["expect_grads"][name]
    assert agree(grads, [right] if skipped is None else right, case["tolerance"]), grads
    return [loss]


def loss_scales(case):
    """The scale after each step. Adam's count and the schedule see only the steps that were applied."""
    a = case["attrs"]
    scaling = nn.LossScaling(a["init"], a["growth"], a["backoff"], a["interval"])
    optimiser, state, found = nn.adam(0.1), scaling.init(), []
    params = jnp.float32(1.0)
    moments = optimiser.init(params)
    for overflow, applied in zip(case["inputs"]["overflow"], a.get("expect_applied", itertools.repeat(None))):
        grads = nn.unscaled(jnp.float32(np.inf if overflow else 1.0) * state.scale, state)
        finite = nn.all_finite(grads)
        assert applied is None or applied == finite
        updates, changed = optimiser.update(grads, moments, params)
        params, moments = nn.kept(finite, (nn.apply_updates(params, updates), changed), (params, moments))
        state = scaling.update(state, finite)
        found.append(state.scale)
    count = len(found) - int(state.skipped)
    assert moments.count == count == a.get("expect_scheduler_steps", count) and jnp.isfinite(params)
    return found


def rates(case):
    """As presets warm up: from peak/(warmup + 1), so that the first step moves too."""
    peak, warmup = case["attrs"]["peak"], int(case["attrs"]["warmup"])
    rate = nn.warmup_constant_schedule(peak / (warmup + 1), peak, warmup)
    return [float(rate(step)) for step in case["inputs"]["step"]]


def twice_shared(case):
    t = pb.tensor(case["inputs"]["t"])
    k = t * 2.0
    (k * 2.0).backward(retain=True)
    (k * 3.0).backward()
    return {"t": float(t.grad)}


def twice_built(case):
    x = pb.tensor(case["inputs"]["x"])
    for _ in range(2):
        (x * x).backward()
    return {"x": float(x.grad)}


def pieces(case):
    """How a word is merged, from single characters on; the merges by rank."""
    given = case["inputs"]
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in given["merges"]]
    bpe = from_merges([(a.encode(), b.encode()) for a, b in merges], ())
    ids = [bpe.byte_ids[byte] for byte in (given.get("word") or given.get("text")).encode()]
    return [bpe.decode([i]) for i in bpe.merged(ids)]


def decoded(case):
    bpe = BPE.gpt2()
    return bpe.decode([bpe.tokens.index(bytes.fromhex(piece)) for piece in case["inputs"]["pieces_as_bytes"]])


def read_tensors(case):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.safetensors"
        path.write_bytes(bytes.fromhex(case["inputs"]["file_hex"]))
        file = tensors.Tensors(path)
        return [file[name] for name in file.kinds]


def kept(case):
    """The ids that stay in a draw."""
    numbers = {f"top_{name}": float(x) for name, x in case["attrs"].items()}
    return np.flatnonzero(left(jnp.asarray([case["inputs"]["probs"]], jnp.float32), numbers)[0]).tolist()


EXACT = {  # what is compared as it is: texts, lists, errors
    "gpt2_pretokenize": lambda case: list(itertools.chain.from_iterable(words_of(case["inputs"]["text"]))),
    "bpe_merge": pieces,
    "bpe_decode": decoded,
    "safetensors_read": read_tensors,
    "top_p_keep": kept,
    "top_k_keep": kept,
}
SPECIAL = {
    "accumulated_token_mean": accumulated,
    "accumulated_cross_entropy": accumulated,
    "loss_scale_trace": loss_scales,
    "adam": adam,
    "adamw": lambda case: adam(case, nn.adamw, weight_decay=case["attrs"]["weight_decay"], mask=None),
    "sgd": sgd,
    "clip_grad_norm": clip_grad_norm,
}
BACKWARDS = {"k=2*t; backward(2*k)": twice_shared, "backward(x*x) built and run twice": twice_built}


# Values.


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
        if right is None:
            continue
        if isinstance(right, dict):
            right, unchecked = array(right, np.float64), np.zeros((), bool)
        else:
            words = np.asarray(right, object)
            unchecked = words == None  # noqa: E711  element by element
            right = array(np.where(unchecked, 0.0, words).tolist(), np.float64)
        value = np.asarray(value, np.float64)
        if value.shape != right.shape and value.size + right.size:
            return False
        if not np.all(
            np.isclose(value, right.reshape(value.shape), **tolerance, equal_nan=True)
            | (unchecked if unchecked.ndim == 0 else unchecked.reshape(value.shape))
        ):
            return False
    return True


def judged(case) -> None:
    """Assert that a case comes out right."""
    if case["op"] in EXACT:
        if case["expect_out"] == {"raises": True}:
            with pytest.raises(pb.PullbackError):
                EXACT[case["op"]](case)
        else:
            assert EXACT[case["op"]](case) == case["expect_out"]
        return
    special = SPECIAL.get(case["op"]) or next(
        (f for start, f in BACKWARDS.items() if case["attrs"].get("expr", "").startswith(start)), None
    )
    special = rates if case["op"].startswith("lr_") else special
    tolerance = case["tolerance"]
    outs, grads = [[case[f"expect_{kind}"], *case.get(f"accept_{kind}", [])] for kind in ("out", "grads")]
    if special:
        found = special(case)
        if isinstance(found, dict):
            assert found in outs or any(agree(found.values(), [right[k] for k in found], tolerance) for right in grads if right)
        else:
            rights = [right if isinstance(right, list) else [right] for right in outs]
            assert any(agree([np.asarray(v) for v in found], right, tolerance) for right in rights), found
        return
    attrs = {name: value for name, value in case["attrs"].items() if name not in ("cotangent", "shapes", "expr", "formula")}
    shapes = case["attrs"].get("shapes", {})
    inputs = {name: array(value, jnp.dtype(case["dtype"]), shapes.get(name)) for name, value in case["inputs"].items()}
    f = ours(case)
    if {"raises": True} in (case["expect_out"], case["expect_grads"]) or case.get("raises"):
        with pytest.raises(pb.PullbackError):
            out = f(**inputs, **attrs)
            pb.grad(lambda x: ops.sum(f(**{**inputs, next(iter(inputs)): x}, **attrs)))(jnp.asarray(next(iter(inputs.values()))))
            assert out is not None
        return
    if case["op"] == "hessian_prod":
        assert agree([f(jnp.asarray(inputs["x"]))], [case["expect_out"] or case["expect_grads"]], tolerance)
        return
    floats = [name for name, x in inputs.items() if jnp.issubdtype(x.dtype, jnp.floating)]
    y, pullback = pb.vjp(lambda *xs: f(**{**inputs, **dict(zip(floats, xs))}, **attrs), *[jnp.asarray(inputs[name]) for name in floats])
    assert any(agree([y], [out], tolerance) for out in outs), y
    if case["expect_grads"] is None:
        return
    seed = array(case["attrs"].get("cotangent", {"fill": 1.0, "shape": y.shape}), y.dtype, y.shape)
    x_bars = dict(zip(floats, pullback(jnp.asarray(seed))))
    for name, x_bar in x_bars.items():
        assert x_bar.shape == inputs[name].shape and x_bar.dtype == inputs[name].dtype
    assert any(agree([x_bars[name] for name in right], right.values(), tolerance) for right in grads), x_bars


def test_known_fault(known_fault):
    """One case: see conftest.py for where they come from."""
    waits = awaited(known_fault["op"])
    if waits:
        pytest.skip(f"{known_fault['id']} awaits {waits}")
    if known_fault["id"] in DOCUMENTED and known_fault["level"] == "should":
        thing, words = DOCUMENTED[known_fault["id"]]
        assert words in thing.__doc__
        return
    judged(known_fault)


def test_the_adapter_can_fail():
    """Cases of our own, with a wrong value each."""
    case = {
        "id": "x", "level": "must", "op": "mul", "attrs": {}, "inputs": {"a": [2.0], "b": [[1.0, 2.0], [3.0, 4.0]]}, "dtype": "float32",
        "expect_out": [[2, 4], [6, 8]], "expect_grads": {"a": [10], "b": [[2, 2], [2, 2]]}, "tolerance": {"atol": 1e-6, "rtol": 1e-5},
    }  # fmt: skip
    judged(case)
    for wrong in ({"expect_out": [[2, 4], [6, 9]]}, {"expect_grads": {"a": [[10]], "b": [[2, 2], [2, 2]]}}, {"expect_grads": {"a": [11]}}):
        with pytest.raises(AssertionError):
            judged({**case, **wrong})
    unchecked = {**case, "expect_grads": {"a": [10], "b": [[None, 2], [2, None]]}}
    judged(unchecked)
    with pytest.raises(AssertionError):
        judged({**unchecked, "expect_grads": {"b": [[None, 3], [2, None]]}})
    step = {**case, "op": "sgd", "attrs": {"lr": 0.5}, "inputs": {"p": 1.0, "grads": [1.0, 2.0]}, "expect_out": [0.5, -0.5]}
    judged(step)
    with pytest.raises(AssertionError):
        judged({**step, "expect_out": [0.5, -0.4]})
    keep = {**case, "op": "top_k_keep", "attrs": {"k": 2}, "inputs": {"probs": [0.2, 0.5, 0.3]}, "expect_out": [1, 2]}
    judged(keep)
    merge = {**case, "op": "bpe_merge", "inputs": {"word": "abab", "merges": [["a", "b"], ["ab", "ab"]]}, "expect_out": ["abab"]}
    judged(merge)
    for wrong in ({**keep, "expect_out": [0, 1]}, {**merge, "expect_out": ["ab", "ab"]}):
        with pytest.raises(AssertionError):
            judged(wrong)
    raising = {**case, "expect_out": {"raises": True}, "expect_grads": None}
    with pytest.raises(pytest.fail.Exception):
        judged(raising)


@pytest.mark.parametrize(
    "text, names, value",
    [
        ("where(x>0, sqrt(where(x>0, x, 1.0)), x)", {"x": 4.0}, 2.0),
        ("c=a+b; d=a*b; e=c+d; return e*2", {"a": 2.0, "b": 3.0}, 22.0),
        ("y=x; repeat 5 times: y=y+1; return y", {"x": 1.0}, 6.0),
        ("-x**2", {"x": 3.0}, -9.0),
    ],
)
def test_expressions(text, names, value):
    assert jnp.asarray(expression(text)(**{name: jnp.asarray(x) for name, x in names.items()})) == value
