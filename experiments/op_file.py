"""An op in a Python file of the user's, FILE.py:NAME, with the cases that the file has for it. The file is theirs: it is run."""

import contextlib
import functools
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..autograd.lines import first_line
from ..lib.errors import ConfigError, PullbackError, UnknownName, near
from ..ops.cases.case import Case
from ..ops.op import Op
from .pool import spread
from .progress import progress

IMPORT = 60.0  # seconds that a file may take to be imported


def path_and_name(target: str) -> tuple[str, str]:
    path, _, name = target.rpartition(":")
    if not path or name.endswith(".py"):
        raise ConfigError(f"{target}: name the op too, as in {target.removesuffix(':')}:my_op")
    if not Path(path).is_file():
        raise ConfigError(f"{path}: no such file")
    return path, name


def demand_sound(targets: Sequence[str]) -> None:
    """Raise ConfigError for the first FILE.py:NAME that cannot be used. Files are imported in a process that can be ended."""
    show = progress()
    show.start(len(targets), "file")
    try:
        for done, answer in enumerate(spread(fault_of, targets, IMPORT)):
            if answer.hung:
                path = path_and_name(answer.task)[0]
                raise ConfigError(f"{path} did not come to its end in {IMPORT:.0f} s, or it ended the process that imported it")
            if answer.value:
                raise ConfigError(answer.value)
            show.at(done + 1, answer.task)
    finally:
        show.close()


def fault_of(target: str, start: int) -> Iterator[str]:
    """What is wrong with FILE.py:NAME, "" if nothing."""
    if start == 0:
        try:
            load(target)
            yield ""
        except PullbackError as error:
            yield str(error)


def load(target: str) -> tuple[Op, tuple[Case, ...]]:
    """An op of a user's file and the cases that the file has for it, in a list CASES."""
    path, name = path_and_name(target)
    module = module_of(Path(path).resolve())
    op = getattr(module, name, None)
    if not isinstance(op, Op):
        ops = [key for key, value in vars(module).items() if isinstance(value, Op)]
        raise UnknownName(f"{path} has no op {name!r}" + near(name, ops))
    listed = getattr(module, "CASES", ())
    cases = tuple(case for case in listed if isinstance(case, Case) and case.op is op) if isinstance(listed, (list, tuple)) else ()
    if op.rules and not cases:
        hint = f"CASES = [Case({name}, 'label', normal((2, 3)))], with Case and normal from pullback.ops.cases.case"
        raise ConfigError(f"{target} has no cases; give the file a list {hint}")
    for case in cases:
        wrong = fault_of_case(case)
        if wrong:
            raise ConfigError(f"{target}: case {case.label!r} {wrong}")
    return op, cases


@functools.cache
def module_of(path: Path) -> Any:
    """The file as a module by the name of its path, run once in a process."""
    spec = importlib.util.spec_from_file_location(str(path), path)
    module: Any = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules[module.__name__] = module
    try:
        with contextlib.redirect_stdout(sys.stderr):  # standard output is the report's
            spec.loader.exec_module(module)  # type: ignore[union-attr]
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{path} cannot be imported: {type(error).__name__}: {error}") from None
    return module


def fault_of_case(case: Case) -> str:
    """What is wrong with a case of a user's file, "" if nothing."""
    try:
        operands = case.make(np.random.default_rng(0))
    except Exception as error:  # it is the user's
        return f"raised {type(error).__name__}: {first_line(error)}"
    if not isinstance(operands, tuple):
        return f"makes a {type(operands).__name__}; expected a tuple of operands"
    return "" if isinstance(case.statics, dict) else f"has statics {case.statics!r}; expected a dict by name"
