"""What `pullback check` prints: a table, one JSON object, a picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..lib.atomic import replacing
from .checking import Judged

COLUMNS = (
    "structure", "zero", "linear", "composite", "directions", "elements", "aliased", "edges", "ways", "repeated", "bias", "mean",
    "order 2", "float32", "bfloat16", "float16",
)  # fmt: skip
CODES: dict[str, str] = dict(zip(COLUMNS, "st ze li co di el al ed wa re bi me o2 32 bf 16".split()))
MARKS = {"held": "+", "failed": "X", "noted": "~", "not asked": "."}
COLOURS = {"held": "tab:green", "failed": "tab:red", "noted": "tab:orange", "not asked": "lightgrey"}


def summary(rows: Sequence[Judged]) -> dict[str, Any]:
    order2 = {row.op for row in rows if "order 2" in row.lines and row.lines["order 2"].outcome == "held"}
    return {
        "ops": len({row.op for row in rows}),
        "exact_rules": sum(row.rule == "exact" for row in rows),
        "variants": sum(row.rule not in ("exact", "") for row in rows),
        "faces": sum(bool(row.stands_on) for row in rows),
        "order2": len(order2),
        "failed": sum(not row.ok for row in rows),
        "skipped": sum(not row.cases for row in rows),
    }


def as_json(rows: Sequence[Judged]) -> dict[str, Any]:
    def one(row: Judged) -> dict[str, Any]:
        checks = {name: {**line._asdict(), "case": row.at[name]} for name, line in row.lines.items()}
        for line in checks.values():
            line.pop("check")
            line["gap"] = line["gap"] if line["gap"] is None or line["gap"] < float("inf") else "inf"
        return {
            "op": row.op, "rule": row.rule or None, "contract": row.contract, "stands_on": row.stands_on or None, "cases": row.cases,
            "ok": row.ok, "seconds": round(row.seconds, 3), "checks": checks,
        }  # fmt: skip

    return {"summary": summary(rows), "rules": [one(row) for row in rows]}


def print_table(rows: Sequence[Judged], details: bool) -> None:
    """A mark for each check, or the worst line of each; then every failure in words."""
    present = [name for name in COLUMNS if any(name in row.lines for row in rows)]
    named = [title(row) for row in rows]
    width = max(map(len, named), default=0)
    if not details:
        print(" " * width, " cases ", *(CODES[name] for name in present))
    for name, row in zip(named, rows):
        if details:
            print(f"{name} ({row.contract}{' over ' + row.stands_on if row.stands_on else ''}), {row.cases} cases")
            for check, line in row.lines.items():
                print(f"  {check:<11}{line.outcome:<10}{line.text}  [{row.at[check]}]")
        else:
            marks = (f" {MARKS[row.lines[check].outcome] if check in row.lines else ' '}" for check in present)
            print(f"{name:<{width}} {row.cases:>5}   {' '.join(marks)}")
    if not details:
        print("\n" + ", ".join(f"{CODES[name]} {name}" for name in present) + "; + held, X failed, ~ noted, . not asked")
    for name, row in zip(named, rows):
        for check, line in row.lines.items():
            if line.outcome == "failed":
                print(f"FAILED {name}  {check}  at {row.at[check]!r}: {line.text}")


def title(row: Judged) -> str:
    return row.op if row.rule in ("exact", "") else f"{row.op}={row.rule}"


def picture(rows: Sequence[Judged], path: Path) -> None:
    """Ops by checks, a colour for each outcome."""
    from matplotlib.colors import to_rgb
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    present = [name for name in COLUMNS if any(name in row.lines for row in rows)]
    blocks = max(1, -(-len(rows) // 60))  # beside each other, 60 rows each
    height = -(-len(rows) // blocks)
    figure = Figure(figsize=(blocks * (2.6 + 0.26 * len(present)), 1.6 + 0.19 * height), layout="constrained")
    for b, axes in enumerate(figure.subplots(1, blocks, squeeze=False)[0]):
        part = rows[b * height : (b + 1) * height]
        cells = [[to_rgb(COLOURS[row.lines[c].outcome]) if c in row.lines else (1, 1, 1) for c in present] for row in part]
        axes.imshow(cells or [[(1, 1, 1)] * len(present)], aspect="auto", interpolation="nearest")
        axes.set_xticks(range(len(present)), present, rotation=90, fontsize=7)
        axes.set_yticks(range(len(part)), list(map(title, part)), fontsize=7)
        axes.set_xticks([i - 0.5 for i in range(1, len(present))], minor=True)
        axes.set_yticks([i - 0.5 for i in range(1, len(part))], minor=True)
        axes.grid(which="minor", color="white", linewidth=0.8)
        axes.tick_params(which="both", length=0)
        axes.xaxis.tick_top()
        for spine in axes.spines.values():
            spine.set_visible(False)
    figure.legend(
        handles=[Patch(color=colour, label=name) for name, colour in COLOURS.items()], loc="outside lower center", ncols=4, frameon=False
    )
    with replacing(path) as beside:
        figure.savefig(beside, dpi=150, format="png")
