"""The errors that Pullback raises. A text says what came, what was expected and what to try."""

import difflib
from collections.abc import Iterable


class PullbackError(Exception):
    """Every error of Pullback is one of these."""


class OperandError(PullbackError, TypeError):
    """An op was called with operands or statics that it does not take."""


class OutOfRange(OperandError, IndexError):
    """An index beyond the end of its axis."""


class RuleError(PullbackError):
    """A backward rule broke its contract: one cotangent per operand, each in its primal's shape."""


class RuleOrderError(RuleError):
    """A rule that gives first derivatives only was asked for a higher one."""


class UnknownName(PullbackError, KeyError):
    """A name that nothing answers to; the text lists the nearest."""

    def __str__(self) -> str:  # KeyError would print the text as a quoted repr
        return str(self.args[0])


class GraphError(PullbackError):
    """The graph cannot be walked: it was freed, never recorded, or a value left its level."""


class KeyIdentityError(PullbackError):
    """A random draw without a key, or a second draw under one identity."""


class ConfigError(PullbackError, ValueError):
    """A setting that cannot be used. Commands print it as one line and end with exit code 2."""


def near(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'gelu'?` for a name close to a known one, else the list of what is known."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return f"; did you mean {' or '.join(map(repr, close))}?"
    return f"; known: {', '.join(known)}" if known else ""
