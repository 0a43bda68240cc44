"""Random specifications of einsum: values against np.einsum, cotangents against jax.vjp of jnp.einsum."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pullback import ops
from pullback.autograd.differences import FAST
from pullback.lib.errors import OperandError
from pullback.ops.contraction import einsum as contraction
from pullback.ops.einsum import explicit

LETTERS = "abcB"


class Expression(NamedTuple):
    spec: str
    shapes: tuple[tuple[int, ...], ...]


@st.composite
def expressions(draw) -> Expression:
    """One to three operands over four letters: repeated ones, `...`, axes of size 0 and 1, the result written out or not."""
    size = st.sampled_from((2, 3) * 4 + (1, 0))  # where one size is 0, nothing is told by numbers
    sizes = {letter: draw(size) for letter in LETTERS}
    unnamed = [draw(size) for _ in range(draw(st.integers(0, 2)))]
    terms, shapes, dots = [], [], False
    for _ in range(draw(st.integers(1, 3))):
        term = draw(st.lists(st.sampled_from(LETTERS), max_size=3))
        ones = {letter for letter in term if draw(st.integers(0, 5)) == 5}
        shape = [1 if letter in ones else sizes[letter] for letter in term]
        if draw(st.booleans()):
            dots = True
            at = draw(st.integers(0, len(term)))
            rest = [draw(st.sampled_from((n, n, 1))) for n in unnamed[draw(st.integers(0, len(unnamed))) :]]
            term[at:at], shape[at:at] = ["..."], rest
        terms.append("".join(term))
        shapes.append(tuple(shape))
    spec = ",".join(terms)
    if draw(st.booleans()):
        named = sorted(set(spec) & set(LETTERS))
        result = draw(st.permutations(draw(st.lists(st.sampled_from(named), unique=True)) if named else []))
        if dots:
            result = [*result, "..."] if draw(st.booleans()) else ["...", *result]
        spec += "->" + "".join(result)
    return Expression(spec, tuple(shapes))


@given(expressions(), st.integers(0, 2**32 - 1))
def test_values_and_cotangents(forget, expression, seed):
    forget()
    spec, shapes = expression
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        xs = [jnp.asarray(rng.normal(size=shape)) for shape in shapes]
        right = np.einsum(spec, *xs)
        y_bar = jnp.asarray(rng.normal(size=right.shape))
        statics = {"spec": explicit(spec, tuple(map(len, shapes)))}

        def program(xs, y_bar):
            y, res = contraction.evaluate(*xs, **statics)
            ours = contraction.find("exact").pull(res, y_bar, (True,) * len(xs), statics)
            return y, ours, jax.vjp(lambda *xs: jnp.einsum(spec, *xs, precision="highest"), *xs)[1](y_bar)

        y, ours, theirs = jax.jit(program, compiler_options=FAST)(xs, y_bar)
    assert y.shape == right.shape
    np.testing.assert_allclose(y, right, rtol=1e-12, atol=1e-12)
    for x, x_bar, expected in zip(xs, ours, theirs, strict=True):
        assert x_bar.shape == x.shape
        np.testing.assert_allclose(x_bar, expected, rtol=1e-10, atol=1e-12)


@given(expressions(), st.data())
def test_sizes_that_do_not_fit(expression, data):
    """NumPy and we refuse the same: one axis is made longer. (NumPy takes a diagonal of sizes 0 and 2; we do not.)"""
    spec, shapes = expression
    i = data.draw(st.integers(0, len(shapes) - 1))
    if not shapes[i]:
        return
    shape = list(shapes[i])
    shape[data.draw(st.integers(0, len(shape) - 1))] += 2
    xs = [np.zeros(tuple(shape) if j == i else one) for j, one in enumerate(shapes)]

    def refuses(f, error) -> bool:
        try:
            f()
        except error:
            return True
        return False

    ours = refuses(lambda: jax.eval_shape(lambda: ops.einsum(spec, *xs)), OperandError)
    theirs = refuses(lambda: np.einsum(spec, *xs), ValueError)
    assert ours == theirs or (ours and any(0 in x.shape for x in xs))
