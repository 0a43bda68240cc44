"""The page of a report: what the runs are, their charts, memory, samples and settings, as one HTML text."""

from collections.abc import Iterable, Sequence

import numpy as np

from .charts import Line, chart, short, size, text
from .history import History
from .plot import smoothed
from .report_memory import ledger, memory
from .report_parts import ABSENT, Run, count, key, none, number, part, pill, table, value
from .report_settings import differences, provenance, settings
from .report_style import SCRIPT, STYLE
from .small.config import SMALL

FEW = 50  # numbers that are smoothed to themselves


def page(histories: Sequence[History]) -> str:
    """One self-contained HTML text for one run, or for several laid over each other."""
    names = [history.folder.resolve().name for history in histories]
    runs = [Run(name if names.count(name) == 1 else str(history.folder), history) for name, history in zip(names, histories)]
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    sections = [loss_chart(runs), small_charts(runs), memory(runs), ledger(runs), samples(runs), settings(runs), provenance(runs)]
    top = opening(runs[0]) if len(runs) == 1 else comparison(runs)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{text(title)} · Pullback</title><style>{STYLE}</style></head>\n'
        f"<body><main>\n{top}\n" + "\n".join(filter(None, sections)) + f"\n</main><script>{SCRIPT}</script></body></html>\n"
    )


def opening(run: Run) -> str:
    """What the run is, and its figures."""
    where = ", ".join(x for name in ("device", "device_kind") if isinstance(x := run.history.provenance.get(name), str))
    told = [f"preset {run.history.standing.preset}", *([f"on {where}"] if where else [])]
    tiles = "".join(f"<div><dt>{text(k)}</dt><dd>{text(v)}</dd><dd>{text(note)}</dd></div>" for k, v, note in figures(run))
    header = f"<header><h1>{text(run.name)}{pill(run)}</h1><p>{value(' · '.join(told))}</p></header>"
    return f"{header}\n<dl class='facts' id='figures'>{tiles}</dl>"


def comparison(runs: Sequence[Run]) -> str:
    """The figures of several runs side by side, and what differs between them."""
    told = [figures(run) for run in runs]
    shared = [len({note for _, _, note in column}) == 1 for column in zip(*told)]  # such a note moves into the heading
    heads = [f"{label}\n{note}" if same and note else label for (label, _, note), same in zip(told[0], shared)]
    rows = [(key(i, run), pill(run), *(cell(figure, same) for figure, same in zip(told[i], shared))) for i, run in enumerate(runs)]
    presets = joined(f"preset {run.history.standing.preset}" for run in runs)
    header = f"<header><h1>{len(runs)} runs</h1><p>{text(presets)}</p></header>"
    return f"{header}\n{table(['run', 'status', *heads], rows, 'figures')}\n{differences(runs)}"


def figures(run: Run) -> list[tuple[str, str, str]]:
    """(label, value, note) of the few numbers that a run comes to."""
    history, step = run.history, run.step
    at, (_, speeds) = history.standing, history.metrics.points("tokens_per_s")
    parameters = count(history.provenance, "parameters")
    best = "" if at.best_val_loss is None else f"best {at.best_val_loss:.4g} at step {at.best_step:,}"
    checkpoint = "" if history.checkpoint is None else f", checkpoint at {history.checkpoint:,}"
    return [
        ("validation loss", number(at.val_loss, ".4g"), best or "none taken"),
        ("training loss", number(at.loss, ".4g"), "last batch"),
        ("steps", f"{at.step:,}", f"of {at.steps:,}{checkpoint}"),
        ("speed", f"{np.median(speeds):,.0f}" if len(speeds) else ABSENT, f"{unit_of_work(history)}/s, median"),
        ("parameters", ABSENT if parameters is None else short(parameters), f"{parameters:,}" if (parameters or 0) >= 10_000 else ""),
        ("step memory", size(peak) if (peak := count(step, "peak_bytes")) else ABSENT, "at its peak"),
        ("compile", number(step.get("compile_seconds"), ".1f", " s"), "of the step"),
    ]


def loss_unit(history: History) -> str:
    unit = history.provenance.get("loss_unit")
    return unit[:60] if isinstance(unit, str) else ""


def unit_of_work(history: History) -> str:
    return "examples" if history.standing.preset in SMALL else "tokens"


def loss_chart(runs: Sequence[Run]) -> str:
    lines, alone = [], len(runs) == 1
    for i, run in enumerate(runs):
        lines += curve("training", i, run, "loss", alone)
        seen = run.history.metrics.points("val_loss")
        lines.append(Line("validation" if alone else f"{run.name}, validation", i + alone, *seen, "points"))
    unit = joined(filter(None, (loss_unit(run.history) for run in runs)))
    told = unit if alone else "; ".join(filter(None, [unit, "lines: training, smoothed", "dots: validation"]))
    return chart("Loss", told, lines, wide=True)


def curve(name: str, colour: int, run: Run, column: str, alone: bool) -> list[Line]:
    """A noisy column, smoothed; of a run that is alone also as it came, faintly."""
    steps, values = run.history.metrics.points(column)
    if len(values) <= FEW:
        return [Line(name if alone else run.name, colour, steps, values)]
    smooth = np.asarray(smoothed(values.tolist()))
    if alone:
        return [Line(name, colour, steps, values, "faint"), Line(f"{name}, smoothed", colour, steps, smooth)]
    return [Line(run.name, colour, steps, smooth)]


def small_charts(runs: Sequence[Run]) -> str:
    """Learning rate, gradient norm, speed, and whatever other numbers the runs have kept."""
    work = joined(f"{unit_of_work(run.history)} per second" for run in runs)
    known = {"lr": ("Learning rate", ""), "grad_norm": ("Gradient norm", "before clipping"), "tokens_per_s": ("Speed", work)}
    others = dict.fromkeys(name for run in runs for name in sorted(run.history.metrics.columns) if name not in ("loss", "val_loss", *known))
    charts, alone = [], len(runs) == 1
    for column in (*known, *others):
        title, unit = known.get(column, (column[:60], ""))
        lines = []
        for i, run in enumerate(runs):
            if column in ("grad_norm", "tokens_per_s"):
                lines += curve(title.lower(), i, run, column, alone)
            else:
                lines.append(Line(title if alone else run.name, i, *run.history.metrics.points(column)))
        charts.append(chart(title, unit, lines, from_zero=column in ("lr", "tokens_per_s")))
    return f'<div class="several">{"".join(charts)}</div>'


def joined(units: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(units))


def samples(runs: Sequence[Run]) -> str:
    boxes = []
    for i, run in enumerate(runs):
        if run.history.sample:
            boxes.append((f"<h3>{key(i, run)}</h3>" if len(runs) > 1 else "") + f"<pre tabindex='0'>{text(run.history.sample)}</pre>")
    return part("Written at the end", "".join(boxes) or none("nothing yet"), "samples")


def cell(figure: tuple[str, str, str], bare: bool) -> str:
    _, said, note = figure
    return text(said) if bare else f"{text(said)}<small>{text(note)}</small>"
