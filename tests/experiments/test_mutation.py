"""What mutants there are, and that the judges notice them."""

import ast

import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.autograd import graph
from pullback.experiments import mutate
from pullback.experiments.cli import main
from pullback.experiments.mutation import judging
from pullback.experiments.mutation.graphs import GRAPHS
from pullback.experiments.mutation.operators import mutants
from pullback.experiments.mutation.rules import RuleJudge
from pullback.experiments.mutation.sources import family, source_of
from pullback.experiments.mutation.walk import WalkJudge, same
from pullback.experiments.pool import Answer
from pullback.ops.rule import Rule

RULE = """
def backward(res, y_bar, *, n):
    x, kept = res.x.astype('float32'), res.y < 2
    s = jnp.sum(y_bar * x, axis=-1, keepdims=True) / n - 0.5
    z = zeros.at[res.ids].add(matmul(res.x.T, y_bar))
    return where(kept, s, neg(z)), None
"""


def sources(operator: str) -> list[str]:
    return [mutant.source for mutant in mutants(RULE, ("x", "y")) if mutant.operator == operator]


@pytest.mark.parametrize(
    "operator, there",
    [
        ("sign of a cotangent", "-where(kept, s, neg(z))"),
        ("None for a cotangent", "return (None, None)"),
        ("constant", "res.y < 3"),
        ("constant", "- 0.505"),
        ("constant", "axis=-2"),
        ("operator", "/ n + 0.5"),
        ("operator", "y_bar / x"),
        ("operator", "* n - 0.5"),
        ("term dropped", "keepdims=True) / n\n"),
        ("factor dropped", "jnp.sum(y_bar, "),
        ("factor dropped", "jnp.sum(x, "),
        ("factor dropped", "keepdims=True) - 0.5"),
        ("operands swapped", "matmul(y_bar, res.x.T)"),
        ("operands swapped", "where(kept, neg(z), s)"),
        ("residuals swapped", "matmul(res.y.T"),
        ("residuals swapped", "res.x < 2"),
        ("transpose dropped", "matmul(res.x, y_bar)"),
        ("astype dropped", "= (res.x, res.y < 2)"),
        ("neg dropped", "where(kept, s, z)"),
        ("keepdims dropped", "axis=-1) / n"),
        ("sum for mean", "jnp.mean("),
        ("comparison", "res.y <= 2"),
        ("overwrite for accumulate", "].set("),
        ("where: operand 1 alone", "return (s, None)"),
    ],
)
def test_each_operator_is_applied(operator, there):
    assert any(there in source for source in sources(operator)), sources(operator)


def test_no_two_mutants_are_alike_and_none_is_the_original():
    trees = [ast.dump(ast.parse(mutant.source)) for mutant in mutants(RULE, ("x", "y"))]
    assert len(set(trees)) == len(trees) > 30
    assert ast.dump(ast.parse(RULE)) not in trees


def test_a_diff_has_the_changed_line_before_and_after():
    for mutant in mutants(RULE, ("x", "y")):
        before, after = mutant.diff.splitlines()
        assert before.startswith("-") and after.startswith("+") and before[1:] != after[1:]


def test_helpers_of_the_same_file_belong_to_a_rule():
    assert [f.__name__ for f in family(ops.maximum.find("exact").fn)] == ["maximum_backward", "shared"]
    assert source_of(ops.add.find("exact").fn).startswith("def add_backward(res, z_bar):")


def test_a_judge_notices_each_mutant_of_a_rule_and_passes_the_rule():
    found: list = list(judging.judge("tanh=exact 0/1", 0))
    sound, *outcomes, end = found
    assert sound == end == "" and len(outcomes) >= 8
    assert all(outcome.killed for outcome in outcomes), [o.diff for o in outcomes if not o.killed]
    assert list(judging.judge("tanh=exact 0/1", len(outcomes))) == [outcomes[-1], ""], "a part of the work is the same work"


def test_the_shares_of_a_target_are_its_mutants():
    assert judging.shares(["a", "b"], 2) == ["a 0/1", "b 0/1"] and judging.shares([], 2) == []
    judge = RuleJudge(ops.REGISTRY["tanh"], "exact")
    parts = [judging.mutants_of(task, judge) for task in judging.shares(["tanh=exact"], 3)]
    assert len(parts) == 3 and sorted(mutant.diff for part in parts for _, mutant in part) == sorted(m.diff for _, m in judge.mutants())


def test_a_rule_that_is_wrong_itself_is_an_error_not_a_score(monkeypatch):
    wrong = Rule(ops.neg, "exact", lambda res, y_bar: (y_bar,), "exact", ())
    monkeypatch.setattr(judging, "original_of", lambda judge: wrong)
    assert str(next(judging.judge("neg=exact 0/1", 0))).startswith("neg=exact itself does not pass directions")


def test_an_original_that_gives_no_answer_is_an_error_and_a_mutant_that_gives_none_is_noticed(monkeypatch):
    answers = [Answer("neg=exact 0/1", 0, None, hung=True)]
    monkeypatch.setattr(mutate, "cores", lambda: 1)
    monkeypatch.setattr(mutate, "spread", lambda *_, **__: iter(answers))
    with pytest.raises(pb.PullbackError, match="neg=exact itself gave no answer"):
        mutate.run(["neg=exact"], None)
    answers = [Answer("neg=exact 0/1", 0, ""), Answer("neg=exact 0/1", 1, None, hung=True), Answer("neg=exact 0/1", 2, "")]
    (outcome,) = mutate.run(["neg=exact"], None)
    assert outcome.killed == "time"


def test_an_equivalent_needs_its_proof_and_must_agree(monkeypatch):
    """A survivor is made by taking all but one check away: with a proof it is tested on random inputs."""
    judge = RuleJudge(ops.REGISTRY["exp"], "exact")
    (which, mutant), *_ = [m for m in judge.mutants() if "-" in m[1].source]
    monkeypatch.setattr(RuleJudge, "killed_by", lambda self, rule: None)
    assert judging.outcome(judge, "exp=exact", which, mutant).survives
    monkeypatch.setitem(judging.PROOFS, ("exp=exact", mutant.diff), "said without reason")
    outcome = judging.outcome(judge, "exp=exact", which, mutant)
    assert outcome.survives and outcome.agrees is False
    same_thing = mutant._replace(source=source_of(judge.members[0]), diff="none")
    monkeypatch.setitem(judging.PROOFS, ("exp=exact", "none"), "it is the original")
    assert not judging.outcome(judge, "exp=exact", 0, same_thing).survives


def test_a_mutant_that_hangs_is_noticed(monkeypatch):
    monkeypatch.setattr(judging, "SECONDS", 0.5)
    judge = RuleJudge(ops.REGISTRY["neg"], "exact")
    forever = judge.mutants()[0][1]._replace(source="def neg_backward(res, y_bar):\n    while True:\n        pass\n")
    assert judging.outcome(judge, "neg=exact", 0, forever).killed == "time"


@pytest.mark.parametrize("explored", [False, True])
def test_the_walk_passes_its_table(explored, monkeypatch):
    """Also in a process where a `pb.tensor` was made."""
    monkeypatch.setattr(graph, "explored", explored)
    judge = WalkJudge()
    assert judge.killed_by(judging.original_of(judge)) is None
    assert len(GRAPHS) > 20


@pytest.mark.parametrize(
    "old, new, by",
    [
        ("bar if slots[index] is None else summed(node, slots[index], bar)", "bar", "fan_out"),
        ("-node.order", "node.order", None),
        ("node.order <= floor", "node.order < floor", None),
    ],
)
def test_known_mistakes_of_a_walk(old, new, by):
    judge = WalkJudge()
    source = source_of(judge.members[0])
    assert old in source
    killed = judge.killed_by(judge.build(0, source.replace(old, new)))
    assert killed and (by is None or killed == by)


def test_same_compares_structure_numbers_and_texts():
    assert same([1.0, {"a": np.ones(2)}, None, "x"], [1.0, {"a": np.ones(2)}, None, "x"])
    for other in ([1.0 + 1e-9], [np.ones(1)], [None], ["x"], []):
        assert not same(other, [1.0])
    assert not same({"a": 1.0}, {"b": 1.0}) and not same(0.0, None) and not same("x", "y")


def test_names(capsys):
    assert mutate.resolve(["gelu"]) == [f"gelu={rule}" for rule in ops.gelu.rules]
    assert mutate.resolve(["walk"]) == ["walk"]
    assert {"adamw", "sgd", "walk", "add=exact"} <= set(mutate.resolve([]))
    with pytest.raises(pb.PullbackError, match="did you mean 'gelu'"):
        mutate.resolve(["gellu"])
    with pytest.raises(pb.PullbackError, match="constant op"):
        mutate.resolve(["less"])


def test_resume_asks_only_for_what_is_left(tmp_path, monkeypatch):
    path = tmp_path / "outcomes.jsonl"
    rows = [judging.Outcome("neg=exact", "sign", 1, "-a\n+b", "directions")]
    mutate.remember(path, "neg=exact", rows)
    with open(path, "a") as file:
        file.write('{"target": "add=ex')  # cut short
    assert mutate.remembered(path) == {"neg=exact": rows}
    asked = []
    done = lambda work, tasks, limit, environment: (asked.append(task) or Answer(task, index, "") for task in tasks for index in (0, 1))
    monkeypatch.setattr(mutate, "spread", done)
    assert mutate.run(["neg=exact", "add=exact"], path) == rows and set(map(judging.target_of, asked)) == {"add=exact"}
    monkeypatch.setattr(mutate, "fingerprint", lambda: "other sources")
    assert mutate.remembered(path) == {}


def test_score():
    row = judging.Outcome("a=exact", "sign", 1, "", "directions")
    alive, equal = row._replace(killed=None), row._replace(killed=None, proof="p", agrees=True)
    found = mutate.as_json([row, row, alive, equal])
    assert found["summary"] == {"rules": 1, "mutants": 4, "killed": 2, "equivalent": 1, "score": round(2 / 3, 6)}
    assert len(found["survivors"]) == 1 and len(found["equivalents"]) == 1


def test_a_file_of_outcomes_that_was_cut_is_read_as_far_as_it_goes(tmp_path):
    file = tmp_path / "outcomes.jsonl"
    assert main(["mutate", "neg", "neg", "--resume", str(file)]) == 0
    whole = file.read_bytes()
    for start in (whole[:60], b"\xff\xfe", b'{"target": "neg=exact", "sources": "x", "outcomes": [{}]}\n', whole.replace(b"[[", b"[], [[")):
        file.write_bytes(start)
        assert main(["mutate", "neg", "--resume", str(file)]) == 0
        assert file.read_bytes().endswith(whole)
