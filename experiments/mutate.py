"""`pullback mutate`: plant every small mistake in rules, walk and optimisers, and count those that go unnoticed."""

import itertools
import json
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from ..autograd.differences import FAST
from ..lib.errors import ConfigError, UnknownName, near
from ..ops.op import REGISTRY
from .mutation.judging import Outcome, fingerprint, judge, judge_of, mutants_of, shares, target_of, targets
from .parsing import parse
from .pool import cores, spread
from .progress import progress
from .run import demand_place

# Most of the time goes into compiling small programs that run a few times: what one process has compiled the others read.
SHARED = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
LIMIT = 90.0  # seconds in which a worker must say something; a mutant that hangs in compiled code counts as killed


@dataclass(frozen=True)
class Mutate:
    """Mutate the source of backward rules, of the walk and of the optimisers; each mutant must be noticed.

    Exit code 1 if one survives that has no proof of being equivalent.
    """

    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="OP|OP=RULE|walk|OPTIMISER")] = ()
    """What to mutate; everything if nothing is named."""
    resume: Annotated[str | None, tyro.conf.arg(metavar="FILE.jsonl")] = None
    """Keep outcomes in this file, and do not ask again what it has for unchanged sources."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print one JSON object on standard output and nothing else there."""


def main(argv: Sequence[str]) -> int:
    given = parse(Mutate, argv, "mutate")
    outcomes = run(resolve(given.names), None if given.resume is None else demand_place(given.resume))
    if given.json:
        print(json.dumps(as_json(outcomes)))
    else:
        print_table(outcomes)
    return 1 if any(outcome.survives for outcome in outcomes) else 0


def resolve(names: Sequence[str]) -> list[str]:
    """An op stands for all of its rules."""
    known = targets()
    found = []
    for name in names:
        rules = [target for target in known if target == name or target.startswith(f"{name}=")]
        if not rules:
            if name in REGISTRY:
                raise ConfigError(f"{name} is a constant op: it has no rule to mutate")
            raise UnknownName(f"no op, rule or optimiser {name!r}" + near(name, {*known, *(t.partition("=")[0] for t in known)}))
        found += rules
    return list(dict.fromkeys(found)) or known


def run(names: Sequence[str], resume: Path | None) -> list[Outcome]:
    """The outcome of every mutant of these targets."""
    found = remembered(resume) if resume else {}
    tasks = shares([name for name in names if name not in found], cores())
    rows: dict[str, list[Outcome]] = {task: [] for task in tasks}
    left, show, folder = set(tasks), progress(), tempfile.TemporaryDirectory()
    flags = [f"--{name}={value}".lower() for name, value in FAST.items()] + [os.environ.get("XLA_FLAGS", "")]
    environment = {**SHARED, "JAX_COMPILATION_CACHE_DIR": folder.name, "XLA_FLAGS": " ".join(flags)}
    show.start(len(tasks), "target")
    try:
        for task, index, value, hung in spread(judge, tasks, LIMIT, environment=environment):
            target = target_of(task)
            if isinstance(value, Outcome):
                rows[task].append(value)
            elif hung and index:
                rows[task].append(Outcome.of(target, mutants_of(task, judge_of(target))[index - 1][1], "time"))
            elif hung or value:
                raise ConfigError(value or f"{target} itself gave no answer in {LIMIT:.0f} s, or it ended its process")
            elif index:
                left.remove(task)
                show.at(len(tasks) - len(left), target)
                parts = [part for part in tasks if target_of(part) == target]
                if left.isdisjoint(parts):
                    rounds = itertools.zip_longest(*(rows[part] for part in parts))
                    found[target] = [outcome for one in rounds for outcome in one if outcome]
                    if resume:
                        remember(resume, target, found[target])
    finally:
        show.close()
        folder.cleanup()
    return [outcome for name in names for outcome in found[name]]


def remembered(path: Path) -> dict[str, list[Outcome]]:
    """{target: its outcomes} of the targets that were finished on these very sources."""
    sources, found = fingerprint(), {}
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
            outcomes = [Outcome(*outcome) for outcome in row["outcomes"]]
            if row["sources"] == sources and outcomes and all(outcome.target == row["target"] for outcome in outcomes):
                found[row["target"]] = outcomes
        except (ValueError, KeyError, TypeError):
            continue  # a line that an end of power cut short, or that is none of ours
    return found


def remember(path: Path, target: str, outcomes: list[Outcome]) -> None:
    with open(path, "a+b") as file:
        file.seek(max(0, file.tell() - 1))
        torn = file.read() not in (b"", b"\n")  # the end of power again: a new line for what comes
        row = json.dumps({"target": target, "sources": fingerprint(), "outcomes": outcomes})
        file.write(f"{chr(10) * torn}{row}\n".encode())


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """score = killed / (mutants − equivalent). An equivalent has a proof and agreed with the original."""
    mutants, killed = len(outcomes), sum(outcome.killed is not None for outcome in outcomes)
    equivalent = sum(outcome.killed is None and not outcome.survives for outcome in outcomes)
    rules = len({outcome.target for outcome in outcomes if "=" in outcome.target})
    score = killed / (mutants - equivalent) if mutants > equivalent else 1.0
    return {"rules": rules, "mutants": mutants, "killed": killed, "equivalent": equivalent, "score": round(score, 6)}


def as_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    targets = {name: summary([o for o in outcomes if o.target == name]) for name in dict.fromkeys(o.target for o in outcomes)}
    return {
        "summary": summary(outcomes),
        "survivors": [outcome._asdict() for outcome in outcomes if outcome.survives],
        "equivalents": [outcome._asdict() for outcome in outcomes if outcome.killed is None and not outcome.survives],
        "operators": Counter(outcome.operator for outcome in outcomes),
        "killed_by": Counter(outcome.killed for outcome in outcomes if outcome.killed),
        "targets": targets,
    }


def print_table(outcomes: Sequence[Outcome]) -> None:
    found = as_json(outcomes)
    width = max((len(name) for name in found["targets"]), default=0)
    for name, row in found["targets"].items():
        equivalent = f", {row['equivalent']} equivalent" if row["equivalent"] else ""
        print(f"{name:<{width}}  {row['killed']:>4} / {row['mutants']:<4} killed{equivalent}")
    for outcome in found["survivors"]:
        print(f"\nSURVIVED {outcome['target']}, line {outcome['line']}, {outcome['operator']}")
        print("\n".join("    " + line for line in outcome["diff"].splitlines()))
        if outcome["proof"]:
            print(f"    is said to be equivalent ({outcome['proof']}), but differs on random inputs")
    whole = found["summary"]
    print(f"\n{whole['killed']} of {whole['mutants']} mutants killed, {whole['equivalent']} equivalent: score {whole['score']:.4f}")
