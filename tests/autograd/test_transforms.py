"""vjp, grad, value_and_grad, jvp, hvp, jacobian, hessian: what they mean against JAX, and what they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.autograd import graph
from pullback.autograd.scope import setting
from pullback.autograd.walk import EXPANDED
from pullback.lib.errors import GraphError, OperandError, RuleOrderError
from pullback.ops.activation import gelu

pytestmark = pytest.mark.usefixtures("x64")


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)  # of NumPy: at import, JAX would make it float32


X, Y, Z = array(3), array(3, seed=1), array(3, seed=2)


def jax_gelu(x):
    return jax.nn.gelu(x, approximate=True)


def ours(x, y):
    return ops.sum(ops.tanh(x * y) * x)


def theirs(x, y):
    return jnp.sum(jnp.tanh(x * y) * x)


# Values and gradients


@pytest.mark.parametrize("argnums", [0, 1, -1, -2, (0,), (1, 0), (0, -1)], ids=str)
def test_argnums(argnums, gap):
    value, gradient = pb.value_and_grad(ours, argnums)(X, Y)
    assert gap((value, gradient), jax.value_and_grad(theirs, argnums)(X, Y)) < 1e-14
    assert gap(pb.grad(ours, argnums)(X, Y), gradient) == 0


@pytest.mark.parametrize("transform", [pb.grad, pb.value_and_grad, pb.jacobian, pb.hessian])
def test_argnums_beyond_the_arguments(transform):
    with pytest.raises(OperandError, match="asks for argument 2; the function was called with 2"):
        transform(ours, 2)(X, Y)
    with pytest.raises(OperandError, match="asks for argument -3"):
        transform(ours, (0, -3))(X, Y)


def test_trees_go_in_and_come_out(gap):
    tree = {"a": (X, [Y, None]), "n": 3, "ids": jnp.arange(3), "c": Z[0]}
    f = lambda t, scale: t["a"][0] * t["a"][1][0] * t["n"] * t["ids"] * t["c"] * scale
    gradient = pb.grad(lambda t, scale: ops.sum(f(t, scale)))(tree, 2.0)
    assert gradient["n"] is None and gradient["ids"] is None and gradient["a"][1][1] is None
    floats = lambda a, b, c: jnp.sum(f({"a": (a, [b, None]), "n": 3, "ids": jnp.arange(3), "c": c}, 2.0))
    assert gap((gradient["a"][0], gradient["a"][1][0], gradient["c"]), jax.grad(floats, (0, 1, 2))(X, Y, Z[0])) < 1e-14


@pytest.mark.parametrize("x", [2.0, np.float64(2.0), np.asarray(2.0), np.float32(2.0), np.asarray(2.0, np.float32)], ids=repr)
def test_numbers_and_numpy_arrays_are_arguments(x):
    value, gradient = pb.value_and_grad(lambda x: ops.exp(x) * x)(x)
    dtype = jnp.asarray(x).dtype
    assert isinstance(gradient, jax.Array) and gradient.dtype == value.dtype == dtype
    np.testing.assert_allclose(gradient, 3 * np.exp(2.0), rtol=1e-15 if dtype == jnp.float64 else 1e-6)


def test_numpy_arrays_in_a_tree(gap):
    tree = {"w": X, "ids": np.arange(3)}
    gradient = pb.grad(lambda t: ops.sum(t["w"] * t["w"] * t["ids"]))(tree)
    assert gap(gradient["w"], 2 * X * jnp.arange(3)) < 1e-15 and gradient["ids"] is None


def test_keywords_reach_the_function(gap):
    f = lambda x, *, power, w: ops.sum(x**power * w)
    assert gap(pb.grad(f)(X, power=3, w=Y), 3 * X**2 * Y) < 1e-15
    assert gap(pb.jacobian(lambda x, *, w: x * w)(X, w=Y), jnp.diag(Y)) < 1e-15


def test_what_is_not_reached_gets_zeros(gap):
    """In a user's dict as well: only a Module insists on being used."""
    gradient = pb.grad(lambda p: ops.sum(p["used"] * Y))({"used": X, "unused": {"w": Z}})
    assert gap(gradient, {"used": Y, "unused": {"w": jnp.zeros(3)}}) == 0
    assert gap(pb.grad(lambda x: 1.0)(X), jnp.zeros(3)) == 0
    assert gap(pb.value_and_grad(lambda x: jnp.sum(Y))(X), (jnp.sum(Y), jnp.zeros(3))) == 0
    y, pullback = pb.vjp(lambda x: Y, X)
    assert gap(pullback(Z), (jnp.zeros(3),)) == 0


def test_aux(gap):
    f = lambda x: (ops.sum(x * x), {"h": ops.exp(x), "n": 3, "none": None})
    gradient, aux = pb.grad(f, has_aux=True)(X)
    assert gap(gradient, 2 * X) < 1e-15
    assert isinstance(aux["h"], jax.Array) and gap(aux["h"], jnp.exp(X)) == 0 and aux["n"] == 3 and aux["none"] is None
    (value, aux), again = pb.value_and_grad(f, has_aux=True)(X)
    assert gap((value, again), (jnp.sum(X * X), gradient)) < 1e-15 and aux["n"] == 3
    y, pullback, aux = pb.vjp(f, X, has_aux=True)
    assert gap(pullback(2.0), (4 * X,)) < 1e-15 and aux["h"].shape == (3,)
    for bad in (lambda x: ops.sum(x), lambda x: x, lambda x: (x, x, x)):
        with pytest.raises(OperandError, match="has_aux=True: the function gave a (Tensor|tuple); expected a pair"):
            pb.vjp(bad, X, has_aux=True)


def test_aux_of_an_outer_level_stays_tracked(gap):
    """grad inside grad: the inner aux is a value that the outer function goes on with."""

    def f(x):
        gradient, aux = pb.grad(lambda z: (ops.sum(z * z * x), ops.exp(z) * x), has_aux=True)(x)
        return ops.sum(gradient * aux)

    def g(x):
        gradient, aux = jax.grad(lambda z: (jnp.sum(z * z * x), jnp.exp(z) * x), has_aux=True)(x)
        return jnp.sum(gradient * aux)

    assert gap(pb.grad(f)(X), jax.grad(g)(X)) < 1e-14


# Cotangents


def test_a_pullback_may_be_called_again_and_is_linear(gap):
    y, pullback = pb.vjp(lambda x, w: ops.tanh(x) * w, X, Y)
    first, second = pullback(Z), pullback(3 * Z)
    assert gap(first, jax.vjp(lambda x, w: jnp.tanh(x) * w, X, Y)[1](Z)) < 1e-14
    assert gap(second, jax.tree.map(lambda x: 3 * x, first)) < 1e-15


def test_cotangents_in_the_structure_of_the_value(gap):
    f = lambda x: {"a": ops.exp(x), "b": (x * x, None, jnp.arange(2))}
    y, pullback = pb.vjp(f, X)
    (x_bar,) = pullback({"a": Y, "b": (Z, None, None)})
    assert gap(x_bar, Y * jnp.exp(X) + 2 * Z * X) < 1e-15
    (x_bar,) = pullback({"a": None, "b": (Z, None, np.zeros(2, jax.dtypes.float0))})  # None is no contribution
    assert gap(x_bar, 2 * Z * X) < 1e-15
    assert gap(pullback({"a": jnp.asarray(Y), "b": (None, None, None)}), (Y * jnp.exp(X),)) < 1e-15
    for wrong in ((Y, (Z, None, None)), {"a": Y}, {"a": Y, "c": (Z, None, None)}, {"a": Y, "b": [Z, None, None]}, Y):
        with pytest.raises(OperandError, match=r"the cotangent has structure .*; expected PyTreeDef\({'a': \*, 'b': \(\*, None, \*\)}\)"):
            pullback(wrong)


@pytest.mark.parametrize(
    "seed, text",
    [
        (np.ones(2), r"cotangent 0 has shape \(2,\); the value that it belongs to has shape \(3,\)"),
        (np.ones((1, 3)), r"cotangent 0 has shape \(1, 3\)"),
        (1.0, r"cotangent 0 has shape \(\)"),
        (np.arange(3), "cotangent 0 is int64; a cotangent is a float array"),
        (np.ones(3, bool), "cotangent 0 is bool"),
        (np.ones(3, complex), "cotangent 0 is complex128"),
        ([1.0, 2.0, 3.0], r"cotangent 0 is a list; expected an array of shape \(3,\)"),
        ("ones", "cotangent 0 is a str"),
    ],
    ids=str,
)
@pytest.mark.parametrize("f", [lambda x: x * x, lambda x: jnp.ones(3)], ids=["tracked", "constant"])
def test_a_wrong_cotangent_is_refused(f, seed, text):
    _, pullback = pb.vjp(f, X)
    with pytest.raises(OperandError, match=text):
        pullback(seed)


def test_a_cotangent_takes_the_dtype_of_its_value():
    y, pullback = pb.vjp(lambda x: x * 2, X.astype("float32"))
    (x_bar,) = pullback(Y)
    assert x_bar.dtype == jnp.float32
    np.testing.assert_array_equal(x_bar, 2 * Y.astype("float32"))


# Refused functions and arguments


@pytest.mark.parametrize(
    "f, came",
    [
        (lambda x: x * x, r"shape \(3,\), float64"),
        (lambda x: ops.sum(x, keepdims=True), r"shape \(1,\), float64"),
        (lambda x: jnp.int32(3), r"shape \(\), int32"),
        (lambda x: (ops.sum(x), x), "a tuple"),
        (lambda x: None, "a NoneType"),
    ],
    ids=["vector", "one element", "integer", "tuple", "nothing"],
)
def test_a_loss_is_one_float(f, came):
    with pytest.raises(OperandError, match=f"grad needs a scalar float loss; this one has {came}: take its sum or mean, or use vjp"):
        pb.grad(f)(X)


@pytest.mark.parametrize("transform", [pb.grad, pb.jacobian, pb.hessian])
@pytest.mark.parametrize("x, came", [(3, "int"), (np.arange(3), "int64"), ({"n": np.ones(3, bool)}, "bool"), ((), "empty")], ids=str)
def test_an_argument_that_cannot_be_perturbed(transform, x, came):
    with pytest.raises(OperandError, match=f"argument 1 is {came}: nothing in it can be perturbed; cast it to a float dtype first"):
        transform(lambda w, x: ops.sum(w), 1)(X, x)


@pytest.mark.parametrize("z", [1j, np.complex64(1j), np.ones(3, complex)], ids=["number", "scalar", "array"])
def test_complex_numbers_are_refused(z):
    text = "argument 1 holds complex.*; Pullback is for real numbers: pass both parts as one array"
    with pytest.raises(OperandError, match=text):
        pb.grad(lambda x, z: ops.sum(x), 1)(X, (X, z))
    with pytest.raises(OperandError, match=text):
        pb.vjp(lambda x, z: x, X, z)
    with pytest.raises(OperandError, match="mul: operand 1 is complex"):
        pb.grad(lambda x: ops.sum(x * z))(X)


# jvp, hvp, jacobian, hessian


def test_jvp_is_two_vjps(gap):
    f = lambda ns, gelu: lambda x, w: (ns.tanh(gelu(x) * w), ns.sum(x * x))
    assert gap(pb.jvp(f(ops, gelu), (X, Y), (Z, X)), jax.jvp(f(jnp, jax_gelu), (X, Y), (Z, X))) < 1e-14
    assert gap(pb.jvp(f(ops, gelu), [X, Y], [Z, X]), pb.jvp(f(ops, gelu), (X, Y), (Z, X))) == 0


def test_jvp_of_trees_numbers_integers_and_constants(gap):
    f = lambda t, n: (ops.exp(t["a"]) * t["b"] * n, 3.0, jnp.arange(2), Y)
    y, y_dot = pb.jvp(f, ({"a": X, "b": 2.0}, 3), ({"a": Z, "b": 0.5}, None))
    assert gap(y_dot[0], jnp.exp(X) * (2.0 * Z + 0.5) * 3) < 1e-14
    assert y_dot[1] is None and y_dot[2] is None and gap(y_dot[3], jnp.zeros(3)) == 0
    assert y[1] == 3.0 and gap(y[3], Y) == 0
    assert gap(pb.jvp(lambda x: x * x, (jnp.asarray(X),), (jnp.asarray(Z),))[1], 2 * X * Z) < 1e-15
    assert gap(pb.jvp(lambda x, n: x * n, (X, 2), (Z, 0))[1], 2 * Z) < 1e-15  # whatever stands at an integer
    with pytest.raises(OperandError, match=r"tangent 0 has shape \(2,\); the value that it belongs to has shape \(3,\)"):
        pb.jvp(lambda x: x, (X,), (jnp.ones(2),))
    with pytest.raises(OperandError, match="the tangent has structure"):
        pb.jvp(lambda x, y: x, (X, Y), (X,))
    with pytest.raises(OperandError, match="tangent 0 is int64; a tangent is a float array"):
        pb.jvp(lambda x: x, (X,), (jnp.arange(3),))


def test_hvp(gap):
    f = lambda ns, gelu: lambda x, w: ns.sum(gelu(x * w) * x)
    theirs = jax.jvp(jax.grad(f(jnp, jax_gelu)), (X, Y), (Z, X))[1]
    assert gap(pb.hvp(f(ops, gelu), (X, Y), (Z, X)), theirs) < 1e-13


def test_jacobian_of_trees(gap):
    f = lambda ns: lambda t, w: {"m": ns.exp(t["a"])[:2] * t["b"], "s": ns.sum(t["a"] * w)}
    t = {"a": X, "b": Y[:2]}
    assert gap(pb.jacobian(f(ops))(t, Y), jax.jacrev(f(jnp))(t, Y)) < 1e-14
    assert gap(pb.jacobian(f(ops), (0, 1))(t, Y), jax.jacrev(f(jnp), (0, 1))(t, Y)) < 1e-14
    assert gap(pb.jacobian(f(ops), -1)(t, Y), jax.jacrev(f(jnp), 1)(t, Y)) < 1e-14
    assert gap(pb.jacobian(lambda x: (x, 1.0))(X), (jnp.eye(3), jnp.zeros(3))) == 0
    for bad, came in ((lambda x: (x, jnp.arange(2)), "1 is int64"), (lambda x: (x, 3), "1 is int"), (lambda x: x > 0, "0 is bool")):
        with pytest.raises(OperandError, match=f"jacobian: output {came}, which has no derivative; leave it out"):
            pb.jacobian(bad)(X)


def test_hessian(gap):
    f = lambda ns, gelu: lambda x, w: ns.sum(gelu(x * w) * x)
    assert gap(pb.hessian(f(ops, gelu), (0, 1))(X, Y), jax.hessian(f(jnp, jax_gelu), (0, 1))(X, Y)) < 1e-13
    assert gap(pb.hessian(f(ops, gelu), -1)(X, Y), jax.hessian(f(jnp, jax_gelu), 1)(X, Y)) < 1e-13


def test_jacobian_under_an_outer_level_runs_in_a_loop(gap):
    """Its rows are tracked, which jax.vmap cannot carry; the result is the same."""
    f = lambda ns, jacobian, grad, gelu: grad(lambda w: ns.sum(ns.tanh(jacobian(lambda x: gelu(x * w))(X)) * w))
    assert gap(f(ops, pb.jacobian, pb.grad, gelu)(Y), f(jnp, jax.jacrev, jax.grad, jax_gelu)(Y)) < 1e-13


@pytest.mark.parametrize("shape", [(0,), (0, 2)], ids=str)
def test_nothing_has_derivatives_too(shape, gap):
    x = jnp.zeros(shape)
    square = lambda ns: lambda x: ns.sum(x * x)
    assert gap(pb.grad(square(ops))(x), jax.grad(square(jnp))(x)) == 0
    assert gap(pb.jvp(ops.exp, (x,), (x,)), jax.jvp(jnp.exp, (x,), (x,))) == 0
    assert gap(pb.jacobian(ops.exp)(x), jnp.zeros((*shape, *shape))) == 0
    assert gap(pb.hessian(square(ops))(x), jax.hessian(square(jnp))(x)) == 0
    assert gap(pb.jacobian(lambda x: ops.sum(x) * Y)(x), jnp.zeros((3, *shape))) == 0


# Nesting


def test_perturbations_are_not_confused(gap):
    """d/dx of x · d/dy (x·y·tanh y) at y = x²: the inner derivative must not see the outer x as its y."""
    f = lambda ns, grad: lambda x: x * grad(lambda y: x * y * ns.tanh(y))(x * x)
    for order in (1, 2, 3):
        mine, yours = f(ops, pb.grad), f(jnp, jax.grad)
        for _ in range(order):
            mine, yours = pb.grad(mine), jax.grad(yours)
        assert gap(mine(0.7), jax.jit(yours)(0.7)) < 1e-13
    constant = lambda x: pb.grad(lambda y: x)(x)  # d x / dy = 0
    assert float(constant(2.0)) == 0.0 and float(pb.grad(constant)(2.0)) == 0.0


def test_third_order(gap):
    c = jnp.float64(0.3)
    f = lambda ns, gelu: lambda x: ns.sum(gelu(x) * ns.tanh(x) * c)
    third = lambda ns, grad, f: lambda x: grad(lambda x: ns.sum(grad(lambda x: ns.sum(grad(f)(x) * Y))(x) * Z))(x)
    assert gap(third(ops, pb.grad, f(ops, gelu))(X), jax.jit(third(jnp, jax.grad, f(jnp, jax_gelu)))(X)) < 1e-12


def mixed(ns, grad, gelu):
    """d/dc d/dx of c·gelu(x): at the walk only the cotangent of gelu is tracked, its operand is not."""
    return lambda c: ns.sum(grad(lambda x: ns.sum(c * gelu(x)))(X) * Y)


def penalty(ns, grad, gelu):
    """A gradient penalty: d/dw of |d/dx f(x, w)|², with a fused op first."""
    return lambda w: ns.sum(grad(lambda x: ns.sum(ns.tanh(gelu(x) * w)))(X) ** 2)


def through_jvp(ns, jvp, gelu):
    return lambda w: ns.sum(jvp(lambda x: gelu(x) * w, (X,), (Z,))[1] ** 2)


def test_mixed_partials_through_fused_ops(gap):
    for f in (mixed, penalty):
        expanded = []
        with setting(EXPANDED, expanded):
            ours = pb.grad(f(ops, pb.grad, gelu))(Y)
        assert gap(ours, jax.grad(f(jnp, jax.grad, jax_gelu))(Y)) < 1e-13
        assert expanded == ["gelu"]
    assert gap(pb.grad(through_jvp(ops, pb.jvp, gelu))(Y), jax.grad(through_jvp(jnp, jax.jvp, jax_gelu))(Y)) < 1e-13


def test_mixed_partials_with_a_leaf_of_the_exploring_face(gap):
    """`pb.tensor` watches from outside of every function."""
    c = pb.tensor(Y)
    mixed(ops, pb.grad, gelu)(c).backward()
    assert gap(c.grad, jax.grad(mixed(jnp, jax.grad, jax_gelu))(Y)) < 1e-13


def test_first_order_expands_no_composite():
    expanded = []
    with setting(EXPANDED, expanded):
        pb.grad(lambda x: ops.sum(gelu(x)))(X)
        pb.jacobian(gelu)(X)
        pb.vjp(pb.checkpoint(gelu), X)[1](Y)
    assert expanded == []


def test_a_closed_vjp_cannot_be_differentiated_in_its_seed(monkeypatch):
    monkeypatch.setattr(graph, "explored", False)
    _, pullback = pb.vjp(gelu, X)
    with pytest.raises(RuleOrderError, match="'gelu'.*call vjp inside the function that you differentiate"):
        pb.grad(lambda s: ops.sum(pullback(s * X)[0]))(2.0)
    with pytest.raises(RuleOrderError, match="call vjp inside"):
        pb.jvp(lambda s: pullback(s * X)[0], (2.0,), (1.0,))


def test_a_vjp_used_inside_an_outer_function(gap):
    f = lambda vjp, ns, gelu: lambda x: ns.sum(vjp(lambda z: gelu(z) * x, x)[1](ns.exp(x))[0])
    assert gap(pb.grad(f(pb.vjp, ops, gelu))(X), jax.grad(f(jax.vjp, jnp, jax_gelu))(X)) < 1e-13


# JAX's transforms around and inside


def test_jax_transforms_around_ours(gap):
    batch = array(4, 3, seed=3)
    f = lambda ns, gelu: lambda x: ns.sum(gelu(x) * ns.tanh(x))
    mine, yours = f(ops, gelu), f(jnp, jax_gelu)
    assert gap(jax.vmap(pb.grad(mine))(batch), jax.vmap(jax.grad(yours))(batch)) < 1e-14
    assert gap(jax.jit(pb.value_and_grad(mine))(X), jax.value_and_grad(yours)(X)) < 1e-14
    assert gap(jax.jit(jax.vmap(pb.hessian(mine)))(batch), jax.vmap(jax.hessian(yours))(batch)) < 1e-13
    assert gap(jax.vmap(lambda x: pb.jvp(mine, (x,), (Z,))[1])(batch), jax.vmap(lambda x: jax.jvp(yours, (x,), (Z,))[1])(batch)) < 1e-14


REMEDY = (
    r"met a tracked value\. Call ops from pullback\.ops on it; differentiate inside the transform.*jax\.vmap\(pb\.grad\(f\)\).*\.detach\(\)"
)

REFUSED = {
    "jax.vmap": lambda x: jax.vmap(jnp.sin)(x),
    "jax.jit": lambda x: jax.jit(jnp.sin)(x),
    "jax.grad": lambda x: jax.grad(jnp.sum)(x),
    "jax.lax.scan": lambda x: jax.lax.scan(lambda c, y: (c, y), x, Y),
    "jax.lax.stop_gradient": lambda x: jax.lax.stop_gradient(x),
    "jax.device_put": lambda x: jax.device_put(x),
    "jnp.sin": lambda x: jnp.sin(x),
    "jnp.sum": lambda x: jnp.sum(x),
    "jnp.where": lambda x: jnp.where(X > 0, x, X),
    "jnp.asarray": lambda x: jnp.asarray(x),
    "jnp.stack": lambda x: jnp.stack([x, x]),
    "jnp.einsum": lambda x: jnp.einsum("i,i", x, X),
    "array[x]": lambda x: jnp.asarray(X)[x],
    "array.at": lambda x: jnp.asarray(X).at[0].set(x[0]),
    "closed over by jit": lambda x: jax.jit(lambda y: y * x)(X),
    "closed over by vmap": lambda x: jax.vmap(lambda y: y * x)(X),
    "np.asarray": lambda x: np.asarray(x),
    "np.exp": lambda x: np.exp(x),
    "np.multiply": lambda x: np.multiply(np.ones(3), x),
    "np.sum": lambda x: np.sum(x),
    "np.mean": lambda x: np.mean(x),
    "np.max": lambda x: np.max(x),
    "np.dot": lambda x: np.dot(np.ones(3), x),
    "np.concatenate": lambda x: np.concatenate([x, x]),
    "np.where": lambda x: np.where(np.ones(3, bool), x, 0.0),
    "np.testing": lambda x: np.testing.assert_allclose(x, X),
}


@pytest.mark.parametrize("name", REFUSED)
def test_foreign_functions_on_a_tracked_value_say_what_to_do(name):
    with pytest.raises(GraphError, match=REMEDY):
        pb.grad(lambda x: ops.sum(REFUSED[name](x)))(X)


def test_ours_around_a_jax_transform_says_what_to_do():
    with pytest.raises(GraphError, match=REMEDY):
        pb.grad(jax.jit(lambda x: ops.sum(x * x)))(X)
    with pytest.raises(GraphError, match=REMEDY):
        pb.grad(lambda x: ops.sum(jax.vmap(lambda x: x * x)(x)))(X)


# Operators


BINARY = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
}


def test_operators_with_arrays_and_numbers_on_either_side(gap):
    """One function of all of them, so that one program of each side is compiled."""
    x, others = Z**2 + 0.5, (jnp.asarray(X**2 + 1), Y**2 + 1, np.float64(1.5), np.float32(1.5), 1.5, 2)

    def f(x):
        return sum(op(x, other) + op(other, x) for op in BINARY.values() for other in others)

    ours = pb.grad(lambda x: ops.sum(f(x) * Y))
    theirs = jax.jit(jax.grad(lambda x: jnp.sum(f(x) * Y)))(x)
    assert gap(ours(x), theirs) < 1e-13
    assert gap(jax.jit(ours)(x), theirs) < 1e-13


def test_matmul_index_and_methods(gap):
    m, n = jnp.asarray(array(3, 3)), array(3, 3, seed=1)

    def f(ns, x):
        y = m @ x + x @ m + n @ x + x @ n - (-x) + abs(x) + (+x)
        y = y + x.T + x.reshape(9).reshape(3, -1) + x.transpose(1, 0) + x[::-1, [2, 0, 1]] + x[0][None] + x.astype("float64")
        return (y.sum() + y.mean(axis=0).sum() + y.max() - y.min(axis=1, keepdims=True).sum()) * ns.sum(ns.tanh(x))

    x = array(3, 3, seed=2)
    theirs = jax.jit(jax.grad(lambda x: f(jnp, x)))
    assert gap(pb.grad(lambda x: f(ops, x))(x), theirs(x)) < 1e-13


def test_comparisons_are_plain_booleans(gap):
    def f(x):
        for other in (jnp.asarray(Y), Y, 0.0, x):
            for result in (x < other, x <= other, x > other, x >= other, x == other, x != other, other < x, other >= x):
                assert isinstance(result, jax.Array) and result.dtype == bool
        assert bool((x == x).all()) and not bool((x != x).any()) and bool((X == x).all())
        assert x[0] if X[0] else not x[0]
        assert float(x[0]) == float(X[0]) and int(x[0]) == int(X[0]) and x[0].item() == float(X[0])
        assert f"{x[0]:.3f}" == f"{float(X[0]):.3f}"
        assert len(x) == 3 and [float(row) for row in x] == X.tolist() and len({x: 1}) == 1
        assert np.shape(x) == (3,) and np.ndim(x) == 1
        return ops.sum(ops.where(x > 0, x * x, 0.0) + x.astype(int) + x.astype(bool))

    assert gap(pb.grad(f)(X), jnp.where(X > 0, 2 * X, 0)) < 1e-15
    with pytest.raises(TypeError, match="0-d"):
        pb.grad(lambda x: len(x))(1.0)


# Modules, by their protocol


class Model:
    """Holds parameters by name and says so."""

    def __init__(self, **parameters):
        self.parameters = parameters

    def __named_parameters__(self):
        return dict(self.parameters)

    def __with_parameters__(self, new):
        return Model(**{**self.parameters, **new})

    def __call__(self, ns, x):
        return ns.sum(ns.tanh(self.parameters["w"] * x) + self.parameters["b"] * self.parameters["w"])


MODEL, PARAMETERS, DIRECTION = Model(w=X, b=Y), {"w": X, "b": Y}, {"w": Z, "b": X}


def plain(parameters, x=Z):
    return Model(**parameters)(jnp, x)


def test_a_module_stands_for_its_parameters(gap):
    f = lambda m, x=Z: m(ops, x)
    gradient = jax.grad(plain)(PARAMETERS)
    assert gap(pb.grad(f)(MODEL), gradient) < 1e-14
    assert gap(pb.grad(lambda t: f(t[0]) * t[1]["c"])((MODEL, {"c": 2.0}))[0], jax.tree.map(lambda x: 2 * x, gradient)) < 1e-14
    assert gap(pb.vjp(f, MODEL)[1](1.0), (gradient,)) < 1e-14
    theirs = jax.jvp(jax.grad(plain), (PARAMETERS,), (DIRECTION,))[1]
    assert gap(pb.hvp(f, (MODEL,), (DIRECTION,)), theirs) < 1e-13
    assert gap(pb.jvp(f, (MODEL,), (DIRECTION,)), jax.jvp(plain, (PARAMETERS,), (DIRECTION,))) < 1e-14
    assert gap(pb.hessian(f)(MODEL), jax.hessian(plain)(PARAMETERS)) < 1e-13
    with pytest.raises(OperandError, match="the tangent has structure"):
        pb.jvp(f, (MODEL,), ({"w": Z},))


def test_a_parameter_that_nothing_reaches_is_an_error(gap):
    """The forgotten one is named; a dict of the user's own is not judged."""
    model = Model(w=X, b=Y, forgotten=Z, **{f"p{i}": X for i in range(9)})
    f = lambda m: m(ops, Z)
    with pytest.raises(GraphError, match=r"no gradient reaches the parameters forgotten, p0, .*, p6 and 2 more; .*allow_unused=True"):
        pb.grad(f)(model)
    with pytest.raises(GraphError, match="forgotten"):
        pb.vjp(lambda t: f(t["m"]), {"m": model})[1](1.0)
    gradient = pb.grad(f, allow_unused=True)(model)
    assert gap(gradient["forgotten"], jnp.zeros(3)) == 0
    assert gap({name: gradient[name] for name in ("w", "b")}, jax.grad(plain)(PARAMETERS)) < 1e-14
    assert gap(pb.jvp(f, (model,), (model.__named_parameters__(),))[1], jax.jvp(plain, (PARAMETERS,), (PARAMETERS,))[1]) < 1e-14
