"""What a profile comes to: one row for each scope, op and direction, and the same with layers of one kind as one."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..rates import Rates
from .hlo import CONTAINERS, Cost, Program
from .places import IDLE, UNKNOWN, Place, merged, place_of
from .trace import Share


class Row(NamedTuple):
    """Of one step. share: of its time. flops and bytes: see hlo.py."""

    place: Place
    seconds: float
    share: float
    flops: float
    bytes: float

    def as_json(self, rates: Rates) -> dict[str, Any]:
        per_second = lambda amount: amount / self.seconds if self.seconds else 0.0
        return {
            **self.place._asdict(),
            "ms": 1e3 * self.seconds,
            "share": self.share,
            "flops": self.flops,
            "bytes": self.bytes,
            "gflop_s": per_second(self.flops) / 1e9,
            "of_product_rate": per_second(self.flops) / rates.product,
            "gb_s": per_second(self.bytes) / 1e9,
            "of_read_rate": per_second(self.bytes) / rates.read,
        }


class Profile(NamedTuple):
    """how: compiled or eager. step_s: a step that nobody watches, the median. watched_s: one that is watched, the mean, which the
    rows add up to."""

    how: str
    step_s: float
    watched_s: float
    rows: list[Row]

    def merged(self) -> list[Row]:
        return summed(self.rows, merged)

    def by_direction(self) -> dict[str, float]:
        """Shares of the step, which add up to 1."""
        found: dict[str, float] = {}
        for row in self.rows:
            found[row.place.direction] = found.get(row.place.direction, 0.0) + row.share
        return found

    @property
    def attributed(self) -> float:
        """The share of the step that has a place in the model or in the update."""
        return 1 - sum(row.share for row in self.rows if row.place.direction == "other")  # never over 1 by rounding


def summed(rows: Iterable[Row], place: Callable[[Place], Place] = lambda place: place) -> list[Row]:
    """One row for each place, the longest first."""
    found: dict[Place, list[float]] = {}
    for row in rows:
        sums = found.setdefault(place(row.place), [0.0] * 4)
        for i, value in enumerate(row[1:]):
            sums[i] += value
    return sorted((Row(where, *sums) for where, sums in found.items()), key=lambda row: -row.seconds)


def compiled_rows(program: Program, shares: dict[str, Share], steps: int) -> list[Row]:
    """From what each instruction had of `steps` steps, in nanoseconds."""
    whole = sum(share.time for share in shares.values())
    rows = []
    for name, share in shares.items():
        cost = program.cost(name)
        amounts = share.time / 1e9, steps * share.time / whole, share.runs * cost.flops, share.runs * cost.bytes
        rows.append(Row(whereabouts(program, name), *(amount / steps for amount in amounts)))
    return summed(rows)


def eager_rows(seconds: dict[Place, float], costs: dict[Place, Cost], steps: int) -> list[Row]:
    whole = sum(seconds.values())
    return summed(Row(place, s / steps, s / whole, *costs.get(place, Cost())) for place, s in seconds.items())


def whereabouts(program: Program, name: str) -> Place:
    """Of an instruction; one that comes from nowhere goes by its kind, as `(copy)`, one of another program by its name."""
    if not name:
        return IDLE
    if name not in program.instructions:
        return Place("", f"({name[:40]})", "other")
    place = place_of(program.origin(name))
    if place != UNKNOWN:
        return place
    one = program.instructions[name]
    return UNKNOWN._replace(op=f"({program.fused(one)[-1].opcode})")


def runs_others(program: Program) -> Callable[[str], bool]:
    return lambda name: name in program.instructions and program.instructions[name].opcode in CONTAINERS
