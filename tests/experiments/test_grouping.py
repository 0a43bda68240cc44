import pytest

from pullback.experiments.grouping import grouped, ranges

PARTS = ("attn.qkv.weight", "attn.qkv.bias", "mlp.fc.weight")
EVERY = ["wte.weight", "ln.scale", "ln.bias", *(f"blocks.{i}.{part}" for i in range(12) for part in PARTS)]


def test_a_whole_scope_is_one():
    assert grouped({name: "r" for name in EVERY if name.startswith("blocks")}, EVERY) == {"blocks.*": "r"}
    assert grouped({name: "r" for name in EVERY if name.startswith("ln")}, EVERY) == {"ln.*": "r"}
    assert grouped({"wte.weight": "r"}, EVERY) == {"wte.weight": "r"}
    assert grouped({}, EVERY) == {}


def test_layers_that_are_alike_are_a_range():
    reasons = {name: "r" for name in EVERY if name.split(".")[1] in ("4", "5", "6", "9")}
    assert grouped(reasons, EVERY) == {"blocks.4-6,9.*": "r"}


def test_a_reason_of_its_own_is_told_apart():
    reasons = {f"blocks.{i}.attn.qkv.{part}": part for i in range(12) for part in ("weight", "bias")} | {"blocks.3.mlp.fc.weight": "odd"}
    assert grouped(reasons, EVERY) == {
        "blocks.0-11.attn.qkv.weight": "weight",
        "blocks.0-11.attn.qkv.bias": "bias",
        "blocks.3.mlp.fc.weight": "odd",
    }


def test_every_name_is_under_one_label():
    """What the labels stand for, spelt out again, is what was grouped."""
    reasons = {name: "r" for i, name in enumerate(EVERY) if i % 3}
    spelt = set()
    for label in grouped(reasons, EVERY):
        scope, span, rest = label.split(".", 2) if label.startswith("blocks") else (label, "", "")
        numbers = [n for part in span.split(",") if part for a, _, b in [part.partition("-")] for n in range(int(a), int(b or a) + 1)]
        heads = [f"{scope}.{n}.{rest}" for n in numbers] or [label]
        spelt |= {name for name in EVERY for head in heads if name == head or head.endswith("*") and name.startswith(head[:-1])}
    assert spelt == set(reasons)


def test_a_strangers_names():
    names = ["", ".", "x.²", "x.99999999999999999999", "0", "0.1"]
    assert grouped(dict.fromkeys(names, "r"), [*names, "x.y"]) == {
        name: "r" for name in ("", ".", "x.²", "x.99999999999999999999", "0", "0.1")
    }


@pytest.mark.parametrize("numbers, text", [([], ""), ([3], "3"), ([2, 0, 1], "0-2"), ([0, 2, 3, 9], "0,2-3,9")])
def test_ranges(numbers, text):
    assert ranges(numbers) == text
