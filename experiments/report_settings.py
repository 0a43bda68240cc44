"""What decides the numbers of a run, in a report: its settings beside its preset's, its provenance, and what differs between runs."""

from collections.abc import Sequence

from .charts import text
from .config import to_record
from .history import flat
from .presets import PRESETS
from .report_parts import ABSENT, Run, folded, key, none, part, table, value
from .small.config import SMALL


def settings(runs: Sequence[Run]) -> str:
    """The differences from the preset on top, the rest folded."""
    boxes = []
    for i, run in enumerate(runs):
        name, own = run.history.standing.preset, given(run)
        usual = {**PRESETS, **SMALL}.get(name)
        base = {} if usual is None else flat(to_record(usual), name)
        differing = [k for k in dict.fromkeys((*own, *base)) if own.get(k) != base.get(k)] if base else []
        rows = [(value(k), value(own.get(k, ABSENT)), value(base.get(k, ABSENT))) for k in differing]
        if usual is None:
            told = f"<p>There is no preset {text(name)} here to compare with.</p>"
        else:
            told = table(["setting", "this run", f"preset {name}"], rows) if rows else f"<p>All as in the preset {text(name)}.</p>"
        rest = [(value(k), value(v)) for k, v in own.items() if k not in differing]
        head = f"<h3>{key(i, run)}</h3>" if len(runs) > 1 else ""
        boxes.append(head + told + folded(f"{'the other' if differing else 'all'} {len(rest)} settings", table(["setting", "value"], rest)))
    return part("Settings", "".join(boxes), "settings")


def provenance(runs: Sequence[Run]) -> str:
    boxes = []
    for run in runs:
        measured = {k: v for k, v in run.step.items() if k != "residuals"}
        entries = origin(run) | {f"step.{k}": v for k, v in flat(measured, f"{run.history.folder}/provenance.json").items()}
        entries |= {f"last {name}": said for name, said in run.history.metrics.words.items()}
        rows = [(value(k), value(v)) for k, v in entries.items()]
        summary = f"{run.name}, {len(rows)} entries" if len(runs) > 1 else f"{len(rows)} entries"
        boxes.append(folded(summary, table(["entry", "value"], rows)) if rows else none("nothing was recorded"))
    return part("Provenance", "".join(boxes), "provenance")


def given(run: Run) -> dict[str, str]:
    return flat(run.history.config, f"{run.history.folder}/config.json")


def origin(run: Run) -> dict[str, str]:
    """Provenance without what is measured of the compiled step, which is another in every run."""
    return flat({k: v for k, v in run.history.provenance.items() if k != "step"}, f"{run.history.folder}/provenance.json")


def differences(runs: Sequence[Run]) -> str:
    """The settings, then the entries of provenance, that are not the same in all runs."""
    rows = []
    for entries, what in (([given(run) for run in runs], ""), ([origin(run) for run in runs], "provenance: ")):
        for name in dict.fromkeys(name for some in entries for name in some):
            if len({some.get(name) for some in entries}) > 1:
                rows.append((value(what + name), *(value(some.get(name, ABSENT)) for some in entries)))
    body = table(["setting", *(run.name for run in runs)], rows) if rows else none("nothing: settings and provenance are the same")
    return part("What differs", body, "differences")
