"""`pullback bench verdict`: how often a right derivative is rejected and a wrong one accepted, beside other checkers."""

import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from ... import ops
from ...autograd import check_rule, checks, vjp
from ...autograd.lines import LIMIT
from ...autograd.point import Point
from ...lib.errors import ConfigError
from ...ops.rule import Rule
from ..parsing import parse
from ..progress import progress
from .harness import measured

RIVALS = Path(__file__).parent / "rivals"
N, OFF = 100, 37  # elements, and the one that is off
DTYPES = ("float64", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Options:
    """The verdict on right and on wrong derivatives of 100 elements: rejections out of so many seeds.

    Beside it `jax.test_util.check_grads` and, where PyTorch is there, `torch.autograd.gradcheck` in both modes, with their
    defaults, on the same functions and inputs. Then false alarms of the verdict over other functions at three scales.
    """

    seeds: int = 100
    json: bool = False


def erf_slope(x):
    """Φ(x) + x·φ(x): the slope of the erf form of GELU, which is wrong under the tanh form."""
    return 0.5 * jax.lax.erfc(-x * 0.5**0.5) + x * jnp.exp(-0.5 * x * x) * 0.3989422804014327


def slope_of(op) -> Callable:
    return lambda x: vjp(op, x)[1](jnp.ones_like(x))[0]


SUBJECTS: dict[str, tuple[Callable, Callable]] = {  # a function, and what is said to be its derivative
    "right": (ops.tanh, slope_of(ops.tanh)),
    "uniform 1e-6": (ops.tanh, lambda x: slope_of(ops.tanh)(x) * (1 + 1e-6)),
    "one element 1e-5": (ops.tanh, lambda x: slope_of(ops.tanh)(x).at[OFF].multiply(1 + 1e-5)),
    "gelu, right": (ops.gelu, slope_of(ops.gelu)),
    "gelu, erf slope": (ops.gelu, erf_slope),
}


FUNCTIONS: dict[str, tuple[Callable, tuple[float, ...]]] = {  # of 100 elements, and scales at which they are more than a constant
    "tanh": (ops.tanh, (1e-3, 1.0, 1e3)),
    "exp": (ops.exp, (1e-3, 1.0)),
    "log |x|": (lambda x: ops.log(ops.abs(x)), (1e-3, 1.0, 1e3)),
    "sqrt |x|": (lambda x: ops.sqrt(ops.abs(x)), (1e-3, 1.0, 1e3)),
    "1/x": (lambda x: 1.0 / x, (1e-3, 1.0)),
    "x³": (lambda x: x**3, (1e-3, 1.0, 1e3)),
    "x²": (lambda x: x * x, (1e-3, 1.0, 1e3)),
    "linear": (lambda x: 3.0 * x, (1e-3, 1.0, 1e3)),
    "constant": (lambda x: 0.0 * x + 1.0, (1e-3, 1.0, 1e3)),
    "relu": (lambda x: ops.maximum(x, 0.0), (1e-3, 1.0, 1e3)),
    "|x|": (ops.abs, (1e-3, 1.0, 1e3)),
    "gelu": (ops.gelu, (1e-3, 1.0)),
    "sin 20x": (lambda x: ops.sin(20.0 * x), (1e-3, 1.0)),
    "sigmoid 50x": (lambda x: ops.sigmoid(50.0 * x), (1e-3, 1.0)),
    "softplus": (ops.softplus, (1e-3, 1.0, 1e3)),
    "erf": (ops.erf, (1e-3, 1.0, 1e3)),
    "softmax": (ops.softmax, (1e-3, 1.0)),
    "log_softmax": (ops.log_softmax, (1e-3, 1.0, 1e3)),
    "logsumexp": (ops.logsumexp, (1e-3, 1.0, 1e3)),
    "layer_norm": (ops.layer_norm, (1e-3, 1.0, 1e3)),
    "layer_norm(1000 + x)": (lambda x: ops.layer_norm(1e3 + x), (1.0,)),
    "x·xᵀ": (lambda x: ops.matmul(x := ops.reshape(x, shape=(10, 10)), ops.transpose(x)), (1e-3, 1.0, 1e3)),
    "sort": (ops.sort, (1e-3, 1.0, 1e3)),
    "cumprod(1 + x/10)": (lambda x: ops.cumprod(1.0 + x / 10.0), (1e-3, 1.0)),
    "sum of squares": (lambda x: ops.sum(x * x), (1e-3, 1.0, 1e3)),
    "standard deviation": (ops.std, (1e-3, 1.0, 1e3)),
}


def judged(f: Callable, x: np.ndarray, claimed: Callable, seed: int) -> float:
    """The worst gap in error bars, along directions and element by element. claimed(x, y_bars) -> x_bar."""
    point = Point(f, (x,), ("x",), seed)
    x_bars = (claimed(*point.xs, point.y_bars),)
    return max(line.gap or 0.0 for line in (checks.directions(point, x_bars), checks.elements(point, x_bars)))


def table(seeds: int, show) -> dict[str, int]:
    """Rejections of each subject in float64."""
    found = {}
    for name, (op, slope) in SUBJECTS.items():
        f, product = (lambda xs, op=op: (op(*xs),)), jax.jit(lambda x, bars, slope=slope: slope(x) * bars[0])
        draw = lambda seed: np.random.default_rng(1000 + seed).normal(size=N)
        found[name] = sum(judged(f, draw(seed), product, seed) > LIMIT for seed in range(seeds))
        show.at(len(found), name)
    return found


def false_alarms(seeds: int, show) -> list[dict[str, Any]]:
    """Right derivatives, by the graph, at three scales."""
    rows = []
    for name, (f, scales) in FUNCTIONS.items():
        outputs = lambda xs, f=f: (f(*xs),)
        pull = jax.jit(lambda x, bars, f=f: vjp(f, x)[1](bars[0])[0])
        for scale in scales:
            draw = lambda seed, scale=scale: np.random.default_rng(1000 + seed).normal(size=N) * scale
            gaps = [judged(outputs, draw(seed), pull, seed) for seed in range(seeds)]
            alarms = sum(gap > LIMIT for gap in gaps)
            rows.append({"function": name, "scale": scale, "seeds": seeds, "false_alarms": alarms, "worst_bars": round(max(gaps), 3)})
        show.at(len(SUBJECTS) + len(rows), name)
    return rows


def by_dtype() -> dict[str, bool]:
    """Is the erf slope, given out as GELU's exact rule, rejected by the default verdict whatever the dtype of the operands?"""
    wrong = Rule(ops.gelu, "exact", lambda res, y_bar: (y_bar * erf_slope(res.x),), "exact", ("x",))
    x = np.random.default_rng(0).normal(size=N)
    found = {}
    for dtype in DTYPES:
        with jax.enable_x64(dtype == "float64"):
            found[dtype] = not check_rule(ops.gelu, jnp.asarray(x, dtype), rule=wrong)
    return found


def main(argv: Sequence[str]) -> int:
    options = parse(Options, argv, "bench verdict")
    if options.seeds < 1:
        raise ConfigError(f"seeds is {options.seeds}; expected at least 1")
    show, count = progress(), str(options.seeds)
    show.start(len(SUBJECTS) + sum(len(scales) for _, scales in FUNCTIONS.values()), "subject")
    try:
        with jax.enable_x64(True):
            ours = table(options.seeds, show)
            functions = false_alarms(max(1, options.seeds // 10), show)
    finally:
        show.close()
    rivals = {
        f"check_grads {name}": row
        for name, row in measured("check_grads", [str(RIVALS / "check_grads.py"), "--seeds", count], False).items()
    }
    if importlib.util.find_spec("torch"):
        line = measured("gradcheck", [str(RIVALS / "gradcheck.py"), "--seeds", count], False)
        rivals |= {f"gradcheck {name}": row for name, row in line.items()}
    result = {
        "pullback": {**ours, "seeds": options.seeds, "limit_bars": LIMIT},
        "rivals": rivals,
        "erf_slope_rejected": by_dtype(),
        "functions": functions,
    }
    print(json.dumps(result)) if options.json else print_table(result)
    return 0


def print_table(result: dict[str, Any]) -> None:
    grid = Table(title=f"rejected, of {result['pullback']['seeds']}")
    for heading in ("", *SUBJECTS):
        grid.add_column(heading, justify="right" if heading else "left")
    for name, row in {"pullback": result["pullback"], **result["rivals"]}.items():
        grid.add_row(name, *(str(row[subject]) for subject in SUBJECTS))
    Console().print(grid)
    alarms = sum(row["false_alarms"] for row in result["functions"])
    worst = max(result["functions"], key=lambda row: row["worst_bars"])
    print(f"{alarms} false alarms in {len(result['functions'])} settings of {len(FUNCTIONS)} functions")
    print(f"the worst right derivative was {worst['worst_bars']} bars off ({worst['function']} at {worst['scale']:g}); limit {LIMIT:.0f}")
    print("the erf slope under GELU is rejected in " + ", ".join(name for name, hit in result["erf_slope_rejected"].items() if hit))
