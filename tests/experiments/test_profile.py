"""`pullback profile`: where instructions come from, what they cost, how time is divided among them, and the command as a whole."""

import json

import jax
import jax.numpy as jnp
import pytest
from jax.profiler import ProfileData

import pullback as pb
from pullback import ops
from pullback.autograd.inspection import inspecting
from pullback.experiments.cli import main
from pullback.experiments.profile import eager
from pullback.experiments.profile.flame import boxes
from pullback.experiments.profile.hlo import Cost, Program
from pullback.experiments.profile.places import UNKNOWN, Place, merged, place_of
from pullback.experiments.profile.rows import Profile, Row, compiled_rows, whereabouts
from pullback.experiments.profile.table import print_profile
from pullback.experiments.profile.trace import NoEvents, Share, Work, shares, works
from pullback.experiments.rates import Rates, product_rate, read_rate

NAMES = {
    "jit(step)/blocks.0/mlp/fc/jit(linear)/...i,oi->...o/dot_general": Place("blocks.0.mlp.fc", "linear", "forward"),
    "jit(step)/blocks.3.mlp.fc/backward/jit(linear_backward)/dot_general": Place("blocks.3.mlp.fc", "linear", "backward"),
    "jit(step)/blocks.3.mlp.fc/backward/jit(layer_norm_again)/sub": Place("blocks.3.mlp.fc", "layer_norm_again", "backward"),
    "jit(step)/blocks.1/backward/jit(add)/add": Place("blocks.1", "add", "backward"),
    "jit(step)/backward/jit(add)/add": Place("", "add", "backward"),
    "jit(step)/jit(add)/add": Place("", "add", "forward"),
    # in the loop that accumulates, and of a dropout that is mapped over examples
    "jit(step)/while/body/closed_call/head/jit(linear_softmax_cross_entropy)": Place("head", "linear_softmax_cross_entropy", "forward"),
    "jit(step)/while/body/closed_call/dropout/jit(dropout)/vmap()/vmap(jit(_threefry_fold_in))/root_key/while": Place(
        "dropout", "dropout", "forward"
    ),
    "jit(step)/while/body/accumulate/add": Place("accumulate", "add", "update"),
    # a block under checkpoint: its forward again, in the backward, and then its backward
    "jit(step)/backward/blocks.0/attn/jit(attention)/mul": Place("blocks.0.attn", "attention", "backward"),
    "jit(step)/backward/blocks.0.attn/backward/jit(attention_backward)/mul": Place("blocks.0.attn", "attention", "backward"),
    # outside ops
    "jit(step)/update/mul": Place("update", "mul", "update"),
    "jit(step)/update/jit(_where)/select_n": Place("update", "_where", "update"),
    "jit(step)/blocks.0/attn/dropout/jit(_threefry_fold_in)/root_key/while/body/add": Place(
        "blocks.0.attn.dropout", "_threefry_fold_in", "forward"
    ),
    "jit(step)/mul": Place("", "mul", "other"),
    "jit(step)/while/body/closed_call": UNKNOWN,
    "state.params['wte.weight']": UNKNOWN,
    "": UNKNOWN,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_scope_op_and_direction(name):
    assert place_of(name) == NAMES[name]


def test_layers_of_one_kind_are_one():
    assert merged(Place("blocks.11.mlp.fc", "linear", "forward")).scope == "blocks.*.mlp.fc"
    assert merged(Place("blocks.0", "add", "forward")).scope == "blocks.*"
    assert merged(Place("head2", "add", "forward")).scope == "head2"


TEXT = r"""HloModule jit_step, is_scheduled=true, entry_computation_layout={(f32[3,5]{1,0})->f32[3,4]{1,0}}

%fused (p0: f32[3,5], p1: f32[5,4], p2: f32[4]) -> f32[3,4] {
  %p0 = f32[3,5]{1,0} parameter(0)
  %p1 = f32[5,4]{1,0} parameter(1)
  %dot.2 = f32[3,4]{1,0} dot(%p0, %p1), lhs_contracting_dims={1}, metadata={op_name="jit(step)/head/jit(linear)/dot_general"}
  %p2 = f32[4]{0} parameter(2)
  %b = f32[3,4]{1,0} broadcast(%p2), dimensions={1}
  ROOT %add.7 = f32[3,4]{1,0} add(%dot.2, %b)
}

%row (table: f32[100,4], i: s32[]) -> f32[1,4] {
  %table = f32[100,4]{1,0} parameter(0)
  %i = s32[] parameter(1)
  %zero = s32[] constant(0)
  ROOT %one = f32[1,4]{1,0} dynamic-slice(%table, %i, %zero), dynamic_slice_sizes={1,4}
}

%body (carry: (s32[], bf16[2,3])) -> (s32[], bf16[2,3]) {
  %carry = (s32[], bf16[2,3]{1,0}) parameter(0)
  %n = s32[] get-tuple-element(%carry), index=0
  %m = bf16[2,3]{1,0} get-tuple-element(%carry), index=1
  %square = bf16[2,2]{1,0} dot(%m, %m), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %wider = bf16[2,3]{1,0} pad(%square, %n), padding=0_0x0_1
  ROOT %again = (s32[], bf16[2,3]{1,0}) tuple(%n, /*index=1*/%wider)
}

%ends (carry.1: (s32[], bf16[2,3])) -> pred[] {
  %carry.1 = (s32[], bf16[2,3]{1,0}) parameter(0)
  ROOT %true = pred[] constant(true)
}

ENTRY %main (x: f32[3,5], w: f32[5,4], b: f32[4], rows: f32[100,4], start: (s32[], bf16[2,3])) -> f32[3,4] {
  %x = f32[3,5]{1,0} parameter(0), metadata={op_name="state.params[\'wte.weight\']"}
  %w = f32[5,4]{1,0} parameter(1)
  %bias = f32[4]{0} parameter(2)
  %rows = f32[100,4]{1,0} parameter(3)
  %start = (s32[], bf16[2,3]{1,0}) parameter(4)
  %copy.1 = f32[3,5]{0,1} copy(%x)
  %y = f32[3,4]{1,0} fusion(%copy.1, %w, %bias), kind=kOutput, calls=%fused
  %copy.2 = f32[3,4]{0,1} copy(%y)
  %gemm = (f32[3,4], s8[64]) custom-call(%x, %w), custom_call_target="__cublas$gemm", backend_config={"lhs_contracting_dimensions":["1"]}
  %number = s32[] constant(7)
  %first = f32[1,4]{1,0} fusion(%rows, %number), kind=kLoop, calls=%row
  %loop = (s32[], bf16[2,3]{1,0}) while(%start), condition=%ends, body=%body, backend_config={"known_trip_count":{"n":"6"}}
  ROOT %out = f32[3,4]{1,0} add(%y, %copy.2), metadata={op_name="jit(step)/head/backward/jit(linear_backward)/add"}
}
"""


@pytest.fixture(scope="module")
def program() -> Program:
    return Program(TEXT)


def test_costs_of_instructions(program):
    assert program.name == "jit_step" and program.entry == "main"
    product = 2 * 3 * 4 * 5
    assert program.cost("y") == Cost(product, 4 * (3 * 5 + 5 * 4 + 4 + 3 * 4))  # a fusion moves what it is given and gives
    assert program.cost("gemm") == Cost(product, 4 * (3 * 5 + 5 * 4 + 3 * 4) + 64)
    assert program.cost("square") == Cost(2 * 2 * 2 * 3, 2 * (6 + 6 + 4))  # bfloat16; an operand that comes twice is read twice
    assert program.cost("first") == Cost(0, 4 * (4 + 1 + 4))  # of a table only the row
    assert program.cost("loop") == program.cost("x") == program.cost("of another program") == Cost()
    body = program.cost("square").plus(program.cost("wider"))
    others = [program.cost(name) for name in ("copy.1", "y", "copy.2", "gemm", "first", "out")]
    assert program.total() == Cost(sum(c.flops for c in others) + 6 * body.flops, sum(c.bytes for c in others) + 6 * body.bytes)


def test_costs_are_those_of_a_real_program():
    def f(a, b):
        return jax.lax.scan(lambda c, _: (jnp.tanh(c @ b), None), a, None, length=3)[0]

    text = pb.compile(f).text(jnp.ones((8, 16)), jnp.ones((16, 16)))
    assert Program(text).total().flops == 3 * 2 * 8 * 16 * 16


def test_what_has_no_name_is_like_what_it_is_made_of(program):
    assert whereabouts(program, "y") == Place("head", "linear", "forward")  # by the last of its parts that has one
    assert whereabouts(program, "copy.2") == Place("head", "linear", "forward")  # of it
    assert whereabouts(program, "copy.1") == Place("", "(copy)", "other")  # of a parameter
    assert whereabouts(program, "loop") == Place("", "(while)", "other")
    assert whereabouts(program, "jit_other:fusion") == Place("", "(jit_other:fusion)", "other")


def test_time_is_divided_and_none_counts_twice():
    """Two threads, a loop with two turns of its body, a gap, and something that began before the window."""
    done = [Work("early", -5, 10), Work("a", 10, 40), Work("b", 20, 40), Work("loop", 50, 90), Work("in", 55, 65), Work("in", 70, 90)]
    found = shares(done, [(0, 100)], contains=lambda name: name == "loop")
    assert found == {
        "early": Share(10, 0),
        "a": Share(10 + 10, 1),
        "b": Share(10, 1),
        "in": Share(10 + 20, 2),
        "loop": Share(5 + 5, 1),
        "": Share(10 + 10, 0),
    }
    twice = shares([Work("a", 0, 8), Work("a", 4, 8), Work("b", 4, 8)], [(0, 10), (20, 25)], contains=lambda name: False)
    assert {name: share.runs for name, share in twice.items()} == {"a": 2, "b": 1, "": 0}
    assert {name: share.time for name, share in twice.items()} == pytest.approx({"a": 4 + 8 / 3, "b": 4 / 3, "": 2 + 5})


def space(*planes: str):
    return ProfileData.from_serialized_xspace(ProfileData.text_proto_to_serialized_xspace("\n".join(planes)))


def plane(name: str, **lines: list[tuple]) -> str:
    """Events are (name, start and duration in nanoseconds, stats)."""
    names = sorted({event[0] for events in lines.values() for event in events})
    stats = sorted({stat for events in lines.values() for event in events for stat in event[3]})
    text = ""
    for line, events in lines.items():
        text += f'lines {{ name: "{line.replace("_", " ")}"\n'
        for event, start, duration, its in events:
            value = lambda x: f'str_value: "{x}"' if isinstance(x, str) else f"uint64_value: {x}"
            said = " ".join(f"stats {{ metadata_id: {stats.index(stat) + 1} {value(x)} }}" for stat, x in its.items())
            text += f"events {{ metadata_id: {names.index(event) + 1} offset_ps: {1000 * start} duration_ps: {1000 * duration} {said} }}\n"
        text += "}\n"
    for kind, found in (("event", names), ("stat", stats)):
        text += "".join(f'{kind}_metadata {{ key: {i} value {{ id: {i} name: "{name}" }} }}\n' for i, name in enumerate(found, 1))
    return f'planes {{ name: "{name}"\n{text} }}'


ours = lambda name, **more: {"hlo_op": name, "hlo_module": "jit_step", **more}
STEP = ("pullback profile", 0, 100, {"step_num": 0})


def test_events_of_a_cpu():
    """What is handed to other threads ends where its `end:` says; another program's instructions are told by its name."""
    first = [("y", 10, 5, ours("y", _p=1)), ("end: y", 70, 0, {"_c": 1}), ("Execute", 0, 90, {})]
    second = [("out", 20, 9, ours("out", _p=2)), ("end: out", 28, 1, {"_c": 2}), ("z", 50, 1, {"hlo_op": "z", "hlo_module": "jit_f"})]
    done, windows = works(space(plane("/host:CPU", python=[STEP], tf_1=first, tf_2=second)), "jit_step")
    assert sorted(done) == [Work("jit_f:z", 50, 51), Work("out", 20, 29), Work("y", 10, 70)]
    assert windows == [(0, 100)]


def test_events_of_a_gpu_and_of_a_tpu():
    """The host only starts them. A kernel that names no instruction, as in a CUDA graph, is not lost."""
    kernels = [("gemm_kernel", 10, 5, ours("gemm")), ("nameless_kernel", 20, 5, {})]
    host = plane("/host:CPU", python=[STEP], tf_1=[("gemm", 1, 80, ours("gemm"))])
    done, _ = works(space(host, plane("/device:GPU:0", Stream_13=kernels, Launch_Stats=[("x", 0, 9, {})])), "jit_step")
    assert sorted(done) == [Work("gemm", 10, 15), Work("nameless_kernel", 20, 25)]
    ran = [("%y = f32[3,4]{1,0} fusion(%copy.1)", 10, 5, {}), ("out", 30, 5, {"hlo_op": "%out = f32[] add(%y)"})]
    done, _ = works(space(host, plane("/device:TPU:0", XLA_Ops=ran, Async_XLA_Ops=ran, Steps=[("0", 0, 90, {})])), "jit_step")
    assert sorted(done) == [Work("out", 30, 35), Work("y", 10, 15)]


def test_a_trace_without_instructions_says_what_to_do():
    with pytest.raises(NoEvents, match="--eager"):
        works(space(plane("/host:CPU", python=[STEP])), "jit_step")


def test_rows_of_a_step(program):
    rows = compiled_rows(program, {"y": Share(6e6, 2), "copy.2": Share(1e6, 2), "out": Share(2e6, 2), "": Share(1e6, 0)}, steps=2)
    forward, backward, idle = rows
    assert forward.place == Place("head", "linear", "forward") and backward.place.direction == "backward" and idle.flops == idle.bytes == 0
    assert forward[1:4] == pytest.approx((3.5e-3, 0.7, 2 * 3 * 4 * 5)) and backward[1:4] == pytest.approx((1e-3, 0.2, 0))
    assert Profile("compiled", 1.0, 1.0, rows).attributed == pytest.approx(0.9)


def test_the_picture_has_scopes_inside_each_other():
    row = lambda scope, op, direction, ms: Row(Place(scope, op, direction), ms / 1e3, 0, 0, 0)
    rows = [
        row("blocks.*.mlp", "gelu", "forward", 1),
        row("blocks.*.mlp.fc", "linear", "forward", 2),
        row("ln", "layer_norm", "forward", 1),
    ]
    rows += [row("blocks.*.mlp", "gelu", "backward", 3), row("", "add", "backward", 1)]
    found = {(box.direction, box.name): box for box in boxes(rows)}
    spans = {name: (box.start, box.width, box.depth) for name, box in found.items()}
    assert spans == {
        ("", "step, watched"): (0, 8, 0),
        ("forward", "forward"): (0, 4, 1),
        ("forward", "blocks.*"): (0, 3, 2),
        ("forward", "mlp"): (0, 3, 3),
        ("forward", "gelu"): (0, 1, 4),  # first there, since it is longest in both directions together
        ("forward", "fc"): (1, 2, 4),
        ("forward", "linear"): (1, 2, 5),
        ("forward", "ln"): (3, 1, 2),
        ("forward", "layer_norm"): (3, 1, 3),
        ("backward", "backward"): (4, 4, 1),
        ("backward", "blocks.*"): (4, 3, 2),
        ("backward", "mlp"): (4, 3, 3),
        ("backward", "gelu"): (4, 3, 4),
        ("backward", "add"): (7, 1, 2),
    }
    assert {box.name for box in boxes(rows) if box.is_op} == {"gelu", "linear", "layer_norm", "add"}


def test_what_runs_op_by_op_is_seen_with_its_direction():
    """A function under checkpoint runs again in the backward, and is part of it."""
    seen, programs = [], []

    def look(place, result, runs):
        seen.append(place)
        programs.extend(runs())

    def inner(x):
        with pb.scope("inside"):
            return ops.exp(x)

    def loss(x):
        return ops.sum(ops.mul(pb.checkpoint(inner)(x), x))

    with inspecting(eager.Watch(look)):
        pb.grad(loss)(jnp.ones(3))
        ops.clip(jnp.ones(3), min=0.5)
    assert [place for place in seen if place.op == "exp"] == [
        Place("inside", "exp", "forward"),
        Place("inside", "exp", "backward"),  # again
        Place("inside", "exp", "backward"),
    ]
    assert Place("", "mul", "forward") in seen and Place("", "sum", "backward") in seen and Place("", "add", "backward") in seen
    for run in programs:
        run.program.program.lower(*run.operands, **run.statics)  # they are what has run
    assert len(programs) >= len(seen) - 2  # all but what stands for a pullback of several ops


def test_rates_are_positive():
    assert product_rate() > 1e6 and read_rate(jnp.ones((64, 64))) > 1e3


SIZE = dict(layers=1, width=16, heads=2, vocab=65, context=16)
TINY = ["shakespeare-char", "--batch", "4", "--steps", "2", "--json"]
TINY += [word for name, value in SIZE.items() for word in (f"--model.{name}", str(value))]


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """`said("compiled", capsys)`, `said("eager", capsys)`: what the command says of a tiny model, run once, with a picture."""
    folder, found = tmp_path_factory.mktemp("pictures"), {}

    def answer(how: str, capsys) -> dict:
        if how not in found:
            picture = ["--out", str(folder / f"{how}.png")]
            assert main(["profile", *TINY, *picture, *(["--eager"] if how == "eager" else [])]) == 0
            found[how] = json.loads(capsys.readouterr().out)
        return found[how]

    return answer


@pytest.mark.parametrize("how", ["compiled", "eager"])
def test_the_whole_command(how, said, capsys):
    came = said(how, capsys)
    assert came["how"] == how and came["batch"] == 4 and came["context"] == 16 and came["steps"] == 2
    for rows in (came["rows"], came["merged"]):
        assert sum(row["share"] for row in rows) == pytest.approx(1)
        assert sum(row["ms"] for row in rows) == pytest.approx(came["watched_ms"])
    assert sum(came["directions"].values()) == pytest.approx(1)
    assert 0 < came["attributed"] <= 1 and came["step_ms"] > 0 and came["product_gflop_s"] > 0 and came["read_gb_s"] > 0
    at = {(row["scope"], row["op"], row["direction"]): row for row in came["rows"]}
    assert len(at) == len(came["rows"])
    for scope, op in (("blocks.0.attn", "attention"), ("blocks.0.mlp.fc", "linear"), ("ln", "layer_norm")):
        assert at[scope, op, "forward"]["ms"] > 0 and at[scope, op, "backward"]["ms"] > 0
    assert any(row["direction"] == "update" for row in came["rows"])
    assert came["directions"].get("other", 0) < 0.9
    with open(came["picture"], "rb") as file:
        assert file.read(8) == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("how", ["compiled", "eager"])
def test_floating_point_operations_of_known_products(how, said, capsys):
    """2·M·N·K each: of a linear layer one in the forward and two in the backward."""
    came = said(how, capsys)
    at = {(row["scope"], row["op"], row["direction"]): row for row in came["rows"] + came["merged"]}
    product = 2 * (4 * 16) * 64 * 16
    assert at["blocks.0.mlp.fc", "linear", "forward"]["flops"] == product
    assert at["blocks.0.mlp.fc", "linear", "backward"]["flops"] == 2 * product
    assert at["blocks.*.mlp.fc", "linear", "backward"]["flops"] == 2 * product
    row = at["blocks.0.mlp.fc", "linear", "forward"]
    assert row["gflop_s"] == pytest.approx(row["flops"] / row["ms"] / 1e6)
    assert row["of_product_rate"] == pytest.approx(row["gflop_s"] / came["product_gflop_s"])
    assert row["bytes"] >= 4 * ((4 * 16) * (16 + 64) + 64 * 16)


def test_both_ways_count_the_same_products(said, capsys):
    whole = [sum(row["flops"] for row in said(how, capsys)["rows"]) for how in ("compiled", "eager")]
    assert whole[0] == whole[1]


@pytest.mark.parametrize("each_layer", [False, True])
def test_a_table_for_people(each_layer, capsys):
    rows = [Row(Place(f"blocks.{i}.mlp.fc", "linear", "backward"), 1e-3, 0.25, 5e7, 2e6) for i in range(3)]
    rows += [Row(Place("", "(copy)", "other"), 1e-3, 0.25, 0, 0)]
    rows += [Row(Place("ln", op, "forward"), 1e-9, 2.5e-7, 0, 0) for op in ("mul", "add")]
    print_profile(Profile("compiled", 3.2e-3, 4e-3, rows), Rates(product=1e11, read=1e10), each_layer)
    watched, directions, machine, _, heads, *table, _, _ = capsys.readouterr().out.splitlines()
    assert "4.0 ms (+25.0%)" in watched and "75.0% of it attributed" in watched and "100.0 GFLOP/s" in machine
    assert directions == "forward 0.0%, backward 75.0%, other 25.0%" and heads.split()[:3] == ["scope", "op", "direction"]
    layers = [["blocks.*.mlp.fc", "3.000", "75.0%"]] if not each_layer else [[f"blocks.{i}.mlp.fc", "1.000", "25.0%"] for i in range(3)]
    speeds = ["50.0", "50%", "2.0", "20%"]
    assert [row.split() for row in table] == [
        *([scope, "linear", "backward", ms, share, *speeds] for scope, ms, share in layers),
        ["(copy)", "other", "1.000", "25.0%"],
        ["2", "smaller", "0.000", "0.0%"],
    ]


BAD = {
    "preset": (["quik"], "no preset 'quik'; did you mean 'quick'?"),
    "small": (["fruit"], "fruit is no language model"),
    "setting": (["--batch", "0"], "batch is 0"),
    "context": (["--context", "100000"], "context is 100000"),
    "init": (["--init", "runs/a"], "takes no --init:"),
    "init-from": (["--init-from", "runs/a"], "takes no --init-from:"),
    "place": (["--out", "no/such/folder/a.png"], "there is no folder"),
    "name": (["--out", "a.jpg"], "ends in .png"),
    "memory": (["--model.width", "6400000", "--model.heads", "1"], "take a smaller model"),
    "device": (["--device", "gpuu"], "no device 'gpuu'"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_measured_is_refused(case, capsys):
    argv, why = BAD[case]
    assert main(["profile", *argv]) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith("pullback: ") and err.count("\n") == 1 and why in err
