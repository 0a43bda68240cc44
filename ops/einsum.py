"""NumPy's spelling of `contraction.py`: einsum, tensordot, dot and inner; and outer, which sums nothing."""

import functools
import string
from collections import Counter
from collections.abc import Sequence

from ..lib.errors import OperandError
from .arithmetic import mul
from .contraction import einsum as contraction
from .op import face
from .shape import axes_of, reshape

LETTERS = string.ascii_letters


def einsum(spec: str, *xs):
    """np.einsum: einsum("ij,jk->ik", x, y) is y[i, k] = Σⱼ x[i, j]·y[j, k].

    One letter for each axis, `...` for axes that broadcast from the right. Without `->` the result has the axes of `...`, then
    the letters that occur once, in alphabetical order (capitals first). A letter may stand twice in one operand (its diagonal),
    be summed in one only, and be shared by any number of operands; an axis of size 1 meets any size. Three operands or more are
    multiplied two by two, in an order that keeps the products small.
    """
    if not isinstance(spec, str) or not xs:
        raise OperandError(f"einsum takes a specification and one or more arrays, as in einsum('ij,jk->ik', x, y); it came {spec!r} first")
    return contraction(*xs, spec=explicit(spec, tuple(map(rank, xs))))


@functools.lru_cache(maxsize=1024)
def explicit(spec: str, ndims: tuple[int, ...]) -> str:
    """The specification with letters for `...` and the result written out: "...i,i" of ndim 2 and 1 is "ai,i->a"."""
    inputs, arrow, output = spec.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ndims):
        raise OperandError(f"einsum {spec!r} is for {len(terms)} operands; it came with {len(ndims)}")
    unnamed = [n - len(letters(term, spec)) for term, n in zip(terms, ndims)]
    for i, (term, n, rest) in enumerate(zip(terms, ndims, unnamed)):
        if rest < 0 or rest > 0 and "..." not in term:
            raise OperandError(f"einsum {spec!r}: operand {i} has {n} axes, and {term!r} names {n - rest}; `...` stands for unnamed ones")
    free = [letter for letter in LETTERS if letter not in spec]
    dots = "".join(free[: max(unnamed)])
    if len(dots) < max(unnamed):
        raise OperandError(f"einsum {spec!r}: the operands have more axes than there are letters")
    terms = [term.replace("...", dots[len(dots) - rest :]) for term, rest in zip(terms, unnamed)]
    if not arrow:
        seen = Counter("".join(terms))
        output = "..." + "".join(sorted(letter for letter, count in seen.items() if count == 1 and letter not in dots))
    named = letters(output, spec)
    unknown = [letter for letter in named if letter not in inputs]
    twice = [letter for letter in named if named.count(letter) > 1]
    if unknown or twice:
        raise OperandError(f"einsum {spec!r}: {(unknown or twice)[0]!r} is {'in no operand' if unknown else 'twice in the result'}")
    if dots and "..." not in output:
        raise OperandError(f"einsum {spec!r}: `...` stands for {len(dots)} axes, which the result leaves out; name them to sum over them")
    return f"{','.join(terms)}->{output.replace('...', dots)}"


def letters(term: str, spec: str) -> str:
    """What a term names beside `...`."""
    named = term.replace("...", "", 1)
    strange = [char for char in named if char not in LETTERS]
    if strange:
        raise OperandError(f"einsum {spec!r}: {strange[0]!r} in {term!r}; expected letters, one `...` for each operand, commas and one ->")
    return named


def rank(x) -> int:
    """How many axes an operand has; a Python number has none."""
    if isinstance(x, (int, float)):
        return 0
    if not hasattr(x, "ndim"):
        raise OperandError(f"a {type(x).__name__} is no operand of a product; pass an array, for example jnp.asarray(...)")
    return x.ndim


@face("einsum")
def tensordot(x, y, axes: int | tuple[int | Sequence[int], int | Sequence[int]] = 2):
    """np.tensordot: the sum over pairs of axes, named as (axes of x, axes of y), or the last n of x with the first n of y."""
    if isinstance(axes, int):
        if not 0 <= axes <= min(rank(x), rank(y)):
            raise OperandError(f"tensordot: {axes} axes to sum over; the operands have {rank(x)} and {rank(y)}")
        axes = tuple(range(rank(x) - axes, rank(x))), tuple(range(axes))
    if len(axes) != 2:
        raise OperandError(f"tensordot: axes {axes}; expected a number, or (axes of x, axes of y)")
    return contracted(x, y, *axes, "tensordot")


@face("einsum", "mul")
def dot(x, y):
    """np.dot: the sum over the last axis of x and the last but one of y (the only one of a vector); a scalar multiplies.

    Matrices and vectors as in `matmul`. Stacks do not pair up as there: every matrix of x meets every matrix of y.
    """
    return contracted(x, y, -1, -2 if rank(y) > 1 else -1, "dot") if rank(x) and rank(y) else mul(x, y)


@face("einsum", "mul")
def inner(x, y):
    """np.inner: the sum over the last axes of both; a scalar multiplies."""
    return contracted(x, y, -1, -1, "inner") if rank(x) and rank(y) else mul(x, y)


def contracted(x, y, left: int | Sequence[int], right: int | Sequence[int], op: str):
    """The sum over pairs of axes; the result has the other axes of x, then those of y."""
    left, right = (axes_of(a if isinstance(a, int) else tuple(a), rank(v), op) for a, v in ((left, x), (right, y)))
    if [x.shape[a] for a in left] != [y.shape[b] for b in right]:
        raise OperandError(f"{op}: axes {left} of {x.shape} against axes {right} of {y.shape}; they must be of one size, pair by pair")
    rows, columns = LETTERS[: x.ndim], list(LETTERS[x.ndim : x.ndim + y.ndim])
    for a, b in zip(left, right):
        columns[b] = rows[a]
    free = [row for a, row in enumerate(rows) if a not in left] + [column for b, column in enumerate(columns) if b not in right]
    return contraction(x, y, spec=f"{rows},{''.join(columns)}->{''.join(free)}")


@face("mul", "reshape")
def outer(x, y):
    """np.outer: z[i, j] = x[i]·y[j], with both operands flattened."""
    return mul(reshape(x, shape=(-1, 1)), reshape(y, shape=(1, -1)))
