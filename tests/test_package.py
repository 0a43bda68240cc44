"""The package as it is shipped: its list of packages, its version, one load per file, a light import, a documented face."""

import importlib
import importlib.metadata
import inspect
import pkgutil
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

import pullback
from pullback.ops.op import REGISTRY, Op

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("lib", "ops", "autograd", "nn", "models", "experiments")
ALONE = ("pullback.__main__", "pullback.experiments.bench.rivals.")  # a command, and programs that run from their own folder

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_list_of_packages_is_the_tree():
    listed = PROJECT["tool"]["setuptools"]["packages"]
    folders = {path.parent for floor in FLOORS for path in (ROOT / floor).rglob("*.py")}
    there = {"pullback", *(".".join(("pullback", *folder.relative_to(ROOT).parts)) for folder in folders)}
    assert sorted(listed) == sorted(there)
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_the_root_holds_two_modules():
    assert sorted(path.name for path in ROOT.glob("*.py")) == ["__init__.py", "__main__.py"]


def test_tests_are_no_packages():
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def import_everything() -> None:
    for module in pkgutil.walk_packages(pullback.__path__, "pullback."):
        name = module.name
        if name.split(".")[1] in FLOORS and not name.startswith(ALONE):
            importlib.import_module(name)


def test_no_file_is_loaded_twice():
    import_everything()
    names: dict[Path, list[str]] = {}
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and (path := Path(path).resolve()).is_relative_to(ROOT) and ".venv" not in path.parts:
            names.setdefault(path, []).append(name)
    assert len(names) > 50
    assert {path: twice for path, twice in names.items() if len(twice) > 1} == {}


def test_the_version_is_the_one_of_the_project():
    assert importlib.metadata.version("pullback") == PROJECT["project"]["version"]


def public(module: types.ModuleType) -> list[str]:
    return [name for name in vars(module) if not name.startswith("_") and not isinstance(getattr(module, name), types.ModuleType)]


def own_text(thing) -> str:
    """A docstring of its own: a class does not borrow that of its base, and what a dataclass or NamedTuple makes up is none."""
    text = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
    made_up = f"{thing.__name__}("
    return "" if not text or text.startswith(made_up) else text.strip()


@pytest.mark.parametrize("module", ["pullback", "pullback.ops", "pullback.nn", "pullback.models", "pullback.autograd"])
def test_every_public_name_has_a_docstring(module):
    face = importlib.import_module(module)
    spoken = [thing for thing in map(vars(face).get, public(face)) if isinstance(thing, (type, Op)) or inspect.isroutine(thing)]
    assert spoken
    assert [thing.__name__ for thing in spoken if not own_text(thing)] == []


INSIDE = {"slice", "tie_share", "take_transpose", "take_along_axis_transpose", "index_transpose", "slice_transpose"}  # parts of others


def test_every_op_is_exported():
    import_everything()
    ours = {op.name for op in REGISTRY.values() if op.__module__.startswith("pullback.ops.")}
    assert sorted(name for name in ours if not hasattr(pullback.ops, name)) == sorted(INSIDE)


def test_every_module_says_what_it_is():
    import_everything()
    modules = [m for name, m in list(sys.modules.items()) if name.split(".")[0] == "pullback" and not name.startswith(ALONE)]
    assert [m.__name__ for m in modules if not (m.__doc__ or "").strip()] == []


HEAVY = ("tyro", "rich", "matplotlib", "optax", "torch", "flax", "equinox", "safetensors", "regex", "hypothesis", "pytest", "scipy")


def test_import_is_light():
    """In a process of its own: `import pullback` brings nothing that only a command needs."""
    code = "import sys, pullback; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "jax" in loaded and "pullback" in loaded
    # what jax itself brings is not ours to avoid
    brought = subprocess.run([sys.executable, "-c", code.replace("pullback", "jax")], capture_output=True, text=True, check=True)
    assert loaded & set(HEAVY) <= set(brought.stdout.split())


def test_import_changes_nothing_global():
    """No device is opened, no flag of JAX is set."""
    code = (
        "import jax; before = dict(jax.config.values); import pullback; "
        "assert dict(jax.config.values) == before; "
        "from jax._src import xla_bridge; assert not xla_bridge._backends, 'a device was opened'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
