"""What a mutant is: the source of a function with one small mistake in it.

Every operator is applied wherever it fits; two mutants never have the same syntax tree.
"""

import ast
import copy
import difflib
from collections.abc import Iterator
from typing import NamedTuple


class Mutant(NamedTuple):
    """One mistake. `source` is the whole function with it."""

    operator: str
    line: int  # in the function
    source: str
    diff: str


OTHER_OPERATOR = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
OTHER_COMPARISON = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
OTHER_CALL = {  # one name for another, both ways
    "add": "sub", "mul": "div", "multiply": "divide", "subtract": "add", "sum": "mean", "max": "min", "maximum": "minimum",
    "less": "less_equal", "greater": "greater_equal", "equal": "not_equal", "tanh": "erf", "exp": "expm1", "log": "log1p",
    "sin": "cos", "sinh": "cosh", "tril": "triu", "argmax": "argmin", "cumsum": "cumprod",
}  # fmt: skip
OTHER_CALL |= {b: a for a, b in OTHER_CALL.items() if b not in OTHER_CALL}
TERMS = {"add": (0, 1), "sub": (0, 1), "mul": (0, 1), "div": (0,), "power": (0,), "where": (1, 2), "maximum": (0, 1), "minimum": (0, 1)}
PASSED = {  # calls that leave the meaning of their first argument: a mistake is to forget them
    "transpose", "swapaxes", "moveaxis", "sum_to", "unbroadcast", "broadcast_to", "flip", "roll", "neg", "cast", "astype", "clip",
    "stop_gradient", "exp", "log", "sqrt", "rsqrt", "square", "tril", "triu", "abs", "absolute", "expand_dims", "pow_constant",
}  # fmt: skip
ORDERED = {"sub", "div", "matmul", "power", "less", "greater", "less_equal", "greater_equal", "subtract", "divide", "dot", "outer"}


def mutants(source: str, fields: tuple[str, ...] = ()) -> list[Mutant]:
    """Every mutant of a function's source. fields: the names that a residual record has beside each other."""
    tree = ast.parse(source)
    original, seen, found = ast.unparse(tree), {ast.dump(tree)}, []
    returned = {id(e) for e in cotangents(tree)}
    for k, node in enumerate(ast.walk(tree)):
        for operator, new in variants(node, fields, id(node) in returned):
            mutated = replaced(tree, k, new)
            dump = ast.dump(mutated)
            if dump not in seen:
                seen.add(dump)
                text = ast.unparse(mutated)
                found.append(Mutant(operator, getattr(node, "lineno", 1), text, difference(original, text)))
    return found


def cotangents(tree: ast.AST) -> list[ast.expr]:
    """The entries of the tuples that the function itself returns."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and node.value is not None:
            found += node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    return [e for e in found if not (isinstance(e, ast.Constant) and e.value is None)]


def variants(node: ast.AST, fields: tuple[str, ...], returned: bool) -> Iterator[tuple[str, ast.AST]]:
    """(operator, what stands in the node's place) for each operator that fits."""
    if returned:
        yield "sign of a cotangent", ast.UnaryOp(ast.USub(), node)  # type: ignore[arg-type]
        yield "None for a cotangent", ast.Constant(None)
    if isinstance(node, ast.Constant):
        yield from constants(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        yield "sign" if isinstance(node.op, ast.USub) else "not", node.operand
    elif isinstance(node, ast.BinOp):
        yield from binary(node)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in OTHER_COMPARISON:
        yield "comparison", ast.Compare(node.left, [OTHER_COMPARISON[type(node.ops[0])]()], node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield "and, or", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        for value in node.values:
            yield "a condition dropped", value
    elif isinstance(node, ast.IfExp):
        yield "one branch", node.body
        yield "one branch", node.orelse
    elif isinstance(node, ast.Attribute):
        yield from attributes(node, fields)
    elif isinstance(node, ast.Call):
        yield from calls(node)


def constants(node: ast.Constant) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node.value, bool):
        yield "constant", ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield "constant", ast.Constant(node.value + 1)
    elif isinstance(node.value, float):
        yield "constant", ast.Constant(node.value * 1.01 if node.value else 1.0)


def binary(node: ast.BinOp) -> Iterator[tuple[str, ast.AST]]:
    other = OTHER_OPERATOR.get(type(node.op))
    if other:
        yield "operator", ast.BinOp(node.left, other(), node.right)
    if isinstance(node.op, (ast.Sub, ast.Div, ast.MatMult, ast.Pow)):
        yield "operands swapped", ast.BinOp(node.right, node.op, node.left)
    if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)):
        what = "term dropped" if isinstance(node.op, (ast.Add, ast.Sub)) else "factor dropped"
        yield what, node.left
        if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
            yield what, node.right


def attributes(node: ast.Attribute, fields: tuple[str, ...]) -> Iterator[tuple[str, ast.AST]]:
    if node.attr == "T":
        yield "transpose dropped", node.value
    if isinstance(node.value, ast.Name) and node.value.id == "res" and node.attr in fields:
        for field in fields:
            if field != node.attr:
                yield "residuals swapped", ast.Attribute(node.value, field, node.ctx)


def calls(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    name = name_of(node.func)
    if name in OTHER_CALL:
        yield f"{name} for {OTHER_CALL[name]}", ast.Call(renamed(node.func, OTHER_CALL[name]), node.args, node.keywords)
    if name == "set" or name == "add" and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Subscript):
        other = "add" if name == "set" else "set"
        yield "overwrite for accumulate", ast.Call(renamed(node.func, other), node.args, node.keywords)
        return
    positional = [x for x in node.args if not isinstance(x, ast.Starred)]
    for i in TERMS.get(name, ()) if len(positional) == len(node.args) else ():
        if i < len(positional):
            yield f"{name}: operand {i} alone", positional[i]
    if name in PASSED:
        first = positional[0] if positional else None
        method = isinstance(node.func, ast.Attribute) and not module_like(node.func.value)
        if method:
            yield f"{name} dropped", node.func.value  # type: ignore[union-attr]
        elif first is not None:
            yield f"{name} dropped", first
    if name in ORDERED and len(positional) == 2:
        yield "operands swapped", ast.Call(node.func, positional[::-1], node.keywords)
    if name == "where" and len(positional) == 3:
        yield "operands swapped", ast.Call(node.func, [positional[0], positional[2], positional[1]], node.keywords)
    for i, keyword in enumerate(node.keywords):
        if keyword.arg == "keepdims":
            yield "keepdims dropped", ast.Call(node.func, node.args, node.keywords[:i] + node.keywords[i + 1 :])


def name_of(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def module_like(value: ast.expr) -> bool:
    """`jnp.sum(x)` is a call of a function, `x.sum()` of a method: modules have the names that this project gives them."""
    return (
        isinstance(value, ast.Name)
        and value.id in {"jnp", "lax", "jax", "np", "math", "ops", "reduction", "shape", "nn"}
        or (isinstance(value, ast.Attribute) and module_like(value.value))
    )


def renamed(func: ast.expr, name: str) -> ast.expr:
    return ast.Attribute(func.value, name, func.ctx) if isinstance(func, ast.Attribute) else ast.Name(name, ast.Load())


def replaced(tree: ast.AST, k: int, new: ast.AST) -> ast.AST:
    """A copy of the tree with the k-th node, as ast.walk counts, replaced."""
    mutated = copy.deepcopy(tree)
    target = next(node for i, node in enumerate(ast.walk(mutated)) if i == k)

    class Replace(ast.NodeTransformer):
        def visit(self, node):
            return copy.deepcopy(new) if node is target else self.generic_visit(node)

    return ast.fix_missing_locations(Replace().visit(mutated))


def difference(before: str, after: str) -> str:
    """The lines that differ, as a diff."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))
