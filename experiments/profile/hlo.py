"""The text of a compiled program, read for what each instruction computes, moves, and comes from.

A product counts 2·M·N·K floating-point operations, whatever library carries it out; nothing else counts, so that they compare with
the machine's rate of products. Bytes are those of the operands and the results of an instruction as XLA runs it, a fusion being one:
what goes between instructions, be it from memory or from a cache. Of an operand that is only sliced or gathered from, the slices count.
"""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

CONTAINERS = ("while", "call", "conditional")  # they run other instructions, which have events of their own
FREE = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "opt-barrier", "after-all", "partition-id", *CONTAINERS)
SLICING = ("slice", "dynamic-slice", "gather")


class Shape(NamedTuple):
    dtype: str
    dims: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.dims)

    @property
    def bytes(self) -> int:
        bits = re.search(r"\d+", self.dtype)  # of f32, bf16, f8e4m3fn, u4
        return math.ceil(self.size * int(bits[0]) / 8) if bits else self.size * (self.dtype == "pred")


class Cost(NamedTuple):
    """flops: of products. bytes: of operands and results."""

    flops: float = 0
    bytes: float = 0

    def plus(self, other: "Cost", times: float = 1) -> "Cost":
        return Cost(self.flops + times * other.flops, self.bytes + times * other.bytes)


class Instruction(NamedTuple):
    """op_name: where JAX says that it comes from; "" where XLA made it up. rest: what follows the operands in the text."""

    name: str
    opcode: str
    shapes: tuple[Shape, ...]
    operands: tuple[str, ...]
    op_name: str
    rest: str

    def attribute(self, name: str) -> str:
        """The name of the computation that stands there as NAME=%it; "" where none does."""
        found = re.search(rf"\b{name}=%([\w.\-]+)", self.rest)
        return found[1] if found else ""


class Program:
    """name: of the module. computations: the instructions of each, in order. entry: the name of the first to run."""

    def __init__(self, text: str):
        self.name = text.split(None, 2)[1].rstrip(",")
        self.computations: dict[str, list[Instruction]] = {}
        self.entry = ""
        for is_entry, name, instructions in computations(text):
            self.computations[name] = instructions
            self.entry = name if is_entry else self.entry
        self.instructions = {one.name: one for many in self.computations.values() for one in many}

    def fused(self, one: Instruction) -> list[Instruction]:
        """What a fusion is made of; an instruction of its own is made of itself."""
        return self.computations[one.attribute("calls")] if one.opcode == "fusion" else [one]

    def origin(self, name: str) -> str:
        """The op_name of an instruction. Of one that has none: of the last of its fusion that has one, else of what its first
        operand comes from."""
        seen: set[str] = set()
        while name in self.instructions and name not in seen:
            seen.add(name)
            one = self.instructions[name]
            named = one.op_name or next((part.op_name for part in reversed(self.fused(one)) if part.op_name), "")
            if named or not one.operands:
                return named
            name = one.operands[0]
        return ""

    def cost(self, name: str) -> Cost:
        """Of one run of an instruction; nothing for one that runs others."""
        one = self.instructions.get(name)
        if one is None or one.opcode in FREE:
            return Cost()
        return Cost(self.flops(one), self.moved(one))

    def flops(self, one: Instruction) -> float:
        if one.opcode == "fusion":
            return sum(map(self.flops, self.fused(one)))
        if one.opcode == "dot":
            found = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", one.rest)
        elif one.opcode == "custom-call" and re.search(r'custom_call_target="[^"]*(gemm|matmul)', one.rest):
            found = re.search(r'"lhs_contracting_dimensions":\[([\d",]*)\]', one.rest)
        else:
            return 0
        lhs = self.instructions[one.operands[0]].shapes[0]
        contracted = (lhs.dims[int(i)] for i in re.findall(r"\d+", found[1])) if found else ()
        return 2 * one.shapes[0].size * math.prod(contracted)

    def moved(self, one: Instruction) -> float:
        parts = self.fused(one)
        total = self.written(parts[-1])
        for i, operand in enumerate(one.operands):
            known = self.instructions.get(operand)
            whole = sum(shape.bytes for shape in known.shapes) if known else 0
            inside = operand if one.opcode != "fusion" else parameter(parts, i)
            total += self.read(inside, parts, whole)
        return total

    def read(self, name: str, parts: list[Instruction], whole: float) -> float:
        """Bytes of an operand that the parts of a fusion read."""
        users = [part for part in parts if name in part.operands]
        if users and all(part.operands[0] == name and part.opcode in (*SLICING, "dynamic-update-slice") for part in users):
            return sum(shape.bytes for part in users if part.opcode in SLICING for shape in part.shapes)
        return whole

    def written(self, root: Instruction) -> float:
        """Bytes of a result; of an update in place, those of the update."""
        if root.opcode == "dynamic-update-slice" and (update := self.instructions.get(root.operands[1])):
            return sum(shape.bytes for shape in update.shapes)
        return sum(shape.bytes for shape in root.shapes)

    def total(self, computation: str | None = None) -> Cost:
        """Of one run of the whole program: loops as often as XLA knows them to turn, else once; of branches the last."""
        cost = Cost()
        for one in self.computations[computation or self.entry]:
            if one.opcode == "while":
                turns = re.search(r'"known_trip_count":\{"n":"(\d+)"', one.rest)
                cost = cost.plus(self.total(one.attribute("body")), int(turns[1]) if turns else 1)
            elif one.opcode in CONTAINERS:
                inner = one.attribute("to_apply") or one.attribute("true_computation") or re.findall(r"%([\w.\-]+)", one.rest)[-1]
                cost = cost.plus(self.total(inner))
            else:
                cost = cost.plus(self.cost(one.name))
        return cost


def parameter(parts: list[Instruction], i: int) -> str:
    """The name of the i-th parameter of a fused computation."""
    return next((part.name for part in parts if part.opcode == "parameter" and part.rest.startswith(f"({i})")), "")


def computations(text: str) -> Iterator[tuple[bool, str, list[Instruction]]]:
    """(is it the entry?, its name, its instructions) of each computation of a module."""
    name, is_entry, found = "", False, []
    for line in text.splitlines():
        head = re.match(r"(ENTRY )?%([\w.\-]+) \(.*\{$", line)
        if head:
            name, is_entry, found = head[2], bool(head[1]), []
        elif line == "}" and name:
            yield is_entry, name, found
        elif match := re.match(r"\s+(?:ROOT )?%([\w.\-]+) = (.*)", line):
            found.append(instruction(match[1], match[2]))


def instruction(name: str, text: str) -> Instruction:
    """From `TYPE opcode(%a, %b), attributes`, where a TYPE may be a tuple of them."""
    end = closing(text, 0) if text.startswith("(") else text.index(" ")
    opening = text.index("(", end)
    after = closing(text, opening)
    shapes = tuple(
        Shape(dtype, tuple(map(int, re.findall(r"\d+", dims)))) for dtype, dims in re.findall(r"(\w+)\[([\d,<=]*)\]", text[:end])
    )
    op_name = re.search(r'op_name="((?:[^"\\]|\\.)*)"', text[after:])
    opcode, inside = text[end:opening].strip(), text[opening:after]
    operands = () if opcode == "parameter" else tuple(re.findall(r"%([\w.\-]+)", inside))
    return Instruction(name, opcode, shapes, operands, op_name[1] if op_name else "", text[after if operands else opening :])


def closing(text: str, start: int) -> int:
    """The place after the parenthesis that closes the one at `start`."""
    depth = 0
    for found in re.finditer(r"[()]", text[start:]):
        depth += 1 if found[0] == "(" else -1
        if not depth:
            return start + found.end()
    return len(text)
