"""The order of the floors, read off the imports: a file imports floors below it, never above, and never in a circle."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("lib", "ops", "autograd", "nn", "models", "experiments")
RIVALS = "experiments.bench.rivals"  # programs of others: they run alone, from their own folder


def modules_of_the_project() -> dict[str, str]:
    """{dotted name below the package: source}; a package's own file goes by the package's name."""
    found = {}
    for floor in FLOORS:
        for path in sorted((ROOT / floor).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text()
    return found


def imports_of(name: str, source: str, modules: dict[str, str]) -> tuple[set[str], list[str]]:
    """(the modules of the project that one imports, complaints). Imports inside functions count like any other."""
    package = name if is_package(name, modules) else name.rpartition(".")[0]
    edges, complaints = set(), []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            complaints += [f"{name}: `import {a.name}`; inside the package imports are relative" for a in node.names if own(a.name)]
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level == 0:
            if own(node.module or ""):
                complaints.append(f"{name}: `from {node.module} import`; inside the package imports are relative")
            continue
        base = package.split(".")[: len(package.split(".")) - node.level + 1]
        if node.level > len(package.split(".")) + 1:
            complaints.append(f"{name}: `from {'.' * node.level}{node.module or ''}` leaves the package")
            continue
        target = ".".join([*base, node.module] if node.module else base)
        for a in node.names:
            below = f"{target}.{a.name}" if target else a.name
            edges.add(below if below in modules else target)
    return edges, complaints


def own(module: str) -> bool:
    return module.split(".")[0] in ("pullback", *FLOORS)


def is_package(name: str, modules: dict[str, str]) -> bool:
    return any(other.startswith(f"{name}.") for other in modules) or name in FLOORS


def faults(modules: dict[str, str]) -> list[str]:
    """Whatever breaks the order, one line each."""
    found, edges = [], {}
    for name, source in modules.items():
        targets, complaints = imports_of(name, source, modules)
        found += complaints
        floor = name.split(".")[0]
        if name.startswith(RIVALS):
            found += [f"{name}: a rival stands alone, and this one imports {target or 'the package'}" for target in sorted(targets)]
            continue
        edges[name] = {target for target in targets if target.split(".")[0] == floor}
        for target in sorted(targets - edges[name]):
            if target.split(".")[0] not in FLOORS[: FLOORS.index(floor)]:
                found.append(f"{name}: imports {target or 'the root of the package'}, which does not lie below {floor}")
    return found + [" -> ".join(circle) for circle in circles(edges)]


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """One circle through each module that lies on any, the shortest."""
    found, seen = [], set()
    for start in edges:
        paths = [[start]]
        reached = {start}
        while paths and start not in seen:
            path = paths.pop(0)
            for target in sorted(edges.get(path[-1], ())):
                if target == start:
                    found.append([*path, start])
                    seen.update(path)
                    paths = []
                    break
                if target not in reached:
                    reached.add(target)
                    paths.append([*path, target])
    return found


def test_floors_are_in_order():
    modules = modules_of_the_project()
    assert {name.split(".")[0] for name in modules} == set(FLOORS) and len(modules) > 50
    assert faults(modules) == []


CLEAN = {
    "lib": "",
    "lib.errors": "import difflib",
    "ops": "from .add import add as add",
    "ops.add": "from ..lib.errors import Wrong\nimport jax",
    "ops.mul": "from . import add\nfrom .add import add",
    "autograd": "",
    "autograd.walk": "from .. import ops\nfrom ..ops import add",
}


def test_a_tree_in_order_has_no_faults():
    assert faults(CLEAN) == []


@pytest.mark.parametrize(
    "name, source, text",
    [
        ("lib.errors", "from ..ops import add", "lib.errors: imports ops.add, which does not lie below lib"),
        ("lib.errors", "def f():\n    from ..ops.add import add", "lib.errors: imports ops.add"),
        ("ops.add", "from ..autograd import walk", "ops.add: imports autograd.walk, which does not lie below ops"),
        ("ops.add", "from .. import fused", "ops.add: imports the root of the package"),
        ("ops.add", "import pullback.lib.errors", "imports are relative"),
        ("ops.add", "from pullback.lib import errors", "imports are relative"),
        ("ops.add", "from ops.mul import mul", "imports are relative"),
        ("ops.add", "from ... import elsewhere", "leaves the package"),
        ("ops.add", "from .mul import mul", "ops.add -> ops.mul -> ops.add"),
        ("ops.add", "from . import mul", "ops.add -> ops.mul -> ops.add"),
        ("ops.add", "from . import something", "ops -> ops.add -> ops"),
        ("experiments.bench.rivals.plain", "from ....ops import add", "a rival stands alone"),
    ],
)
def test_a_planted_fault_is_found(name, source, text):
    (fault,) = faults({**CLEAN, name: source})
    assert text in fault
