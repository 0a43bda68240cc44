"""The memory of a training step in a report: the plan of its program, and what it keeps from forward to backward."""

import re
from collections.abc import Sequence

from .charts import bars, legend, size, stack
from .report_parts import ABSENT, Run, count, folded, key, none, part, table, value

PARTS = ("arguments", "new outputs", "temporary")  # of a peak
SCOPES, LISTED = 15, 2_000  # of the ledger: bars, and lines below them


def memory(runs: Sequence[Run]) -> str:
    """The memory plan of the step: a bar of what its peak is made of, and the numbers."""
    rows, stacks, plans = [], [], []
    for i, run in enumerate(runs):
        step = run.step
        given, out, aliased, temp = (count(step, name) for name in ("arguments", "outputs", "aliased", "temp"))
        if given is None or out is None or aliased is None or temp is None:
            continue
        parts = (given, max(out - aliased, 0), temp)
        plans.append((i, run, parts))
        rows.append((key(i, run), *map(size, (sum(parts), given, out, aliased, temp)), size(sum(residuals(run).values()))))
    if not plans:
        return part("Memory of a step", none("no memory plan was recorded"), "memory")
    whole = max(sum(parts) for _, _, parts in plans) or 1
    for i, run, parts in plans:
        name = f"<h3>{key(i, run)}</h3>" if len(runs) > 1 else ""
        stacks.append(name + stack("memory of a step", list(zip(PARTS, parts)), whole))
    told = [f"{name} {size(n)}" for name, n in zip(PARTS, plans[0][2])] if len(runs) == 1 else PARTS
    keys = legend([(f"box m{i}", name) for i, name in enumerate(told)])
    heads = ["run", "peak", "arguments", "outputs", "in donated memory", "temporary", "residuals kept"]
    numbers = table(heads, rows) if len(runs) > 1 else table(heads[1:], [row[1:] for row in rows])
    return part("Memory of a step", "".join(stacks) + keys + numbers, "memory")


def residuals(run: Run) -> dict[str, int]:
    kept = run.step.get("residuals")
    return {name: n for name in kept if (n := count(kept, name)) is not None} if isinstance(kept, dict) else {}


def ledger(runs: Sequence[Run]) -> str:
    """What is kept from forward to backward. Scopes that differ by a number only, as layers do, are one bar."""
    kept = [residuals(run) for run in runs]
    if not any(kept):
        return part("Residuals", none("no residual ledger was recorded"), "residuals")
    alike: dict[str, dict[str, None]] = {}
    for name in (name for some in kept for name in some):
        alike.setdefault(re.sub(r"\.\d+(?=[./])", ".*", name[:200]), {})[name] = None
    totals = []
    for label, names in alike.items():
        times = f"  ×{len(names)}" if len(names) > 1 and len(runs) == 1 else ""
        totals.append((label + times, [sum(some.get(name, 0) for name in names) for some in kept]))
    totals.sort(key=lambda row: -max(row[1]))
    top, rest = totals[:SCOPES], totals[SCOPES:]
    if rest:
        top.append((f"the other {len(rest)}", [sum(column) for column in zip(*(counts for _, counts in rest))]))
    keys = legend([(f"box c{i}", run.name) for i, run in enumerate(runs)]) if len(runs) > 1 else ""
    names = sorted(dict.fromkeys(name for some in kept for name in some), key=lambda name: -max(some.get(name, 0) for some in kept))
    rows = [(value(name), *(size(some[name]) if name in some else ABSENT for some in kept)) for name in names[:LISTED]]
    if len(names) > LISTED:
        rows.append((f"and {len(names) - LISTED:,} smaller", *(ABSENT for _ in kept)))
    every = folded(f"every scope and op ({len(names):,})", table(["scope/op", *(run.name for run in runs)], rows))
    told = "<p>Kept from the forward to the backward pass, by scope and op.</p>"
    return part("Residuals", told + keys + bars(top) + every, "residuals")
