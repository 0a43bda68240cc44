"""Arguments into dataclasses by tyro, and its boxes of many lines into one line that names the nearest."""

import contextlib
import dataclasses
import io
import itertools
import re
import textwrap
import typing
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import tyro

from ..lib.errors import ConfigError, PullbackError, UnknownName, near

T = TypeVar("T")

PLAINER = (  # what tyro and Python say, and what we do
    (re.compile(r"invalid literal for int\(\) with base 10: (.*)"), r"\1 is no whole number"),
    (re.compile(r"could not convert string to float: (.*)"), r"\1 is no number"),
    (re.compile(r"no type matching \{None\}\|INT could be instantiated from \[(.*)\]"), r"\1 is no whole number"),
    (re.compile(r"Missing value for argument '(.*)'. .*"), r"\1 was given without its value"),
)


def parse(kind: type[T], argv: Sequence[str], command: str, default: T | None = None) -> T:
    """The dataclass `kind` as `argv` says, starting from `default`. `--help` prints and ends by SystemExit(0).

    Raises UnknownName for an option or a word that nothing takes, ConfigError for a value that does not fit.
    """
    boxes = io.StringIO()
    settings: dict[str, Any] = {} if default is None else {"default": default}
    try:
        with contextlib.redirect_stderr(boxes):
            given, rest = tyro.cli(kind, args=list(argv), prog=f"pullback {command}", return_unknown_args=True, **settings)
    except SystemExit as end:
        if not end.code:
            raise
        raise cause(end) or ConfigError(f"{command}: {in_one_line(boxes.getvalue())}; see `pullback {command} --help`") from None
    if rest:
        raise stray(kind, rest[0], command)
    return given


def stray(kind: type, word: str, command: str) -> PullbackError:
    if not word.startswith("-"):
        return UnknownName(f"{command}: nothing takes the word {word!r}; see `pullback {command} --help`")
    flag = word.split("=")[0].replace("_", "-")
    known = ["--" + name.replace("_", "-") for name in options(kind)]
    if flag in known:  # tyro hands back what follows a value that is missing
        return ConfigError(f"{command}: {flag} was given without its value, or twice")
    return UnknownName(f"{command}: no option {flag}" + near(flag, known))


def options(kind: type) -> Iterator[str]:
    """Names of the options of a dataclass, dotted where it nests: steps, model.layers."""
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        hint, *marks = typing.get_args(hint) if typing.get_origin(hint) is typing.Annotated else (hint,)
        if tyro.conf.Positional in marks or tyro.conf.Fixed in marks:
            continue
        if dataclasses.is_dataclass(hint):
            unnamed = any(getattr(mark, "name", None) == "" for mark in marks)
            yield from (inner if unnamed else f"{name}.{inner}" for inner in options(typing.cast(type, hint)))
        else:
            yield name


def cause(error: BaseException | None) -> PullbackError | None:
    """Our own error, where one was raised while tyro built a dataclass."""
    while error is not None:
        if isinstance(error, PullbackError):
            return error
        error = error.__cause__ or error.__context__
    return None


def in_one_line(box: str) -> str:
    """The first section of a box, without its title and its frame (of lines, or of blanks where a terminal has no lines)."""
    rows = [re.sub(r"\x1b\[[0-9;]*m|[╭╮╰╯│]", " ", row).rstrip() for row in box.splitlines()][1:]
    is_rule = lambda row: not row.strip(" -─")
    body = list(itertools.takewhile(lambda row: not is_rule(row), itertools.dropwhile(is_rule, rows)))
    body = textwrap.dedent("\n".join(body)).splitlines() or [box]
    if body[0].startswith("Missing from"):
        missing = [row.strip() for row in body if re.match(r" {4}\S", row)]
        return f"there is no {' and no '.join(missing)}"
    text = re.sub(r"\s+", " ", " ".join(body)).replace(" .", "").strip(" .").removeprefix("Error parsing ")
    for pattern, plain in PLAINER:
        text = pattern.sub(plain, text)
    return text
