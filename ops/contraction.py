"""Sums of products over named axes: one op behind einsum, dot, inner and tensordot.

`einsum.py` gives it NumPy's spelling; here every axis has a letter and the result is written out.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..lib.errors import OperandError
from ..lib.precision import accumulator, policy
from .op import primitive
from .rule import is_float
from .selection import equal, where
from .shape import broadcast_to, reshape


@primitive(saves=("xs",))
def einsum(*xs: Float[Array, "..."], spec: str):
    """y[i, k] = Σⱼ x₀[i, j]·x₁[j, k] is spec="ij,jk->ik"; a letter twice in one operand ("ii->i") reads its diagonal.

    x̄₀ of "ij,jk->ik" is the einsum "ik,jk->ij" of ȳ and x₁, and so for any other. A letter that only this operand has, and
    that is summed, repeats its cotangent along that axis; a diagonal gets its cotangent on the diagonal, and 0 beside it. An
    axis of size 1 meets any size of its letter, and its cotangent is summed. float32 products have the policy's precision;
    narrow ones are added up in `accumulator(dtype)`.
    """
    check_sizes(spec, [jnp.shape(x) for x in xs])
    dtype = jnp.result_type(*xs)
    wide = accumulator(dtype) if jnp.issubdtype(dtype, jnp.floating) else None
    return jnp.einsum(spec, *xs, precision=policy().product, preferred_element_type=wide).astype(dtype)


@einsum.rule
def einsum_backward(res, y_bar, *, spec):
    inputs, output = spec.split("->")
    terms = inputs.split(",")
    return tuple(operand_bar(y_bar, output, res.xs, terms, i) if is_float(x) else None for i, x in enumerate(res.xs))


def operand_bar(y_bar, output: str, xs: tuple, terms: list[str], i: int):
    """The cotangent of the i-th operand: ȳ and all other operands multiplied, summed to the letters it shares with them."""
    term, shape = terms[i], xs[i].shape
    others = [j for j in range(len(xs)) if j != i]
    read = [output, *(terms[j] for j in others)]
    kept = [a for a, letter in enumerate(term) if term.index(letter) == a and shape[a] != 1 and letter in "".join(read)]
    x_bar = einsum(y_bar, *(xs[j] for j in others), spec=f"{','.join(read)}->{''.join(term[a] for a in kept)}")
    if x_bar.shape == shape:
        return x_bar
    sizes = dict(zip(kept, x_bar.shape))
    x_bar = broadcast_to(reshape(x_bar, shape=tuple(sizes.get(a, 1) for a in range(len(term)))), shape=shape)
    at = np.ix_(*map(range, shape))
    for a, letter in enumerate(term):
        first = term.index(letter)
        if first != a:
            x_bar = where(equal(at[first], at[a]), x_bar, 0.0)
    return x_bar


def check_sizes(spec: str, shapes: list[tuple[int, ...]]) -> None:
    """Axes of one letter agree, but for those of size 1; within one operand they agree altogether."""
    sizes: dict[str, int] = {}
    for i, (term, shape) in enumerate(zip(spec.split("->")[0].split(","), shapes)):
        own = dict(zip(term, shape))
        for letter, n in zip(term, shape):
            if n != own[letter]:
                raise OperandError(f"einsum {spec!r}: the axes {letter!r} of operand {i}, {shape}, differ; a diagonal has one size")
        for letter, n in own.items():
            known = sizes.get(letter, 1)
            if n != known and 1 not in (n, known):
                raise OperandError(f"einsum {spec!r}: {letter!r} is {n} in operand {i}, {shape}, and {known} in one before it")
            sizes[letter] = known if n == 1 else n
