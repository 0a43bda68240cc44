"""vjp, grad, value_and_grad, jvp, hvp, jacobian, hessian: what they mean against JAX, and what they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pullback as pb
from pullback import ops
from pullback.lib.errors import GraphError, OperandError
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
    for f, slope in ((lambda x: x * 2, 2), (lambda x: x, 1)):  # no rule that would cast comes after the second
        y, pullback = pb.vjp(f, X.astype("float32"))
        (x_bar,) = pullback(Y)
        assert x_bar.dtype == jnp.float32
        np.testing.assert_array_equal(x_bar, slope * Y.astype("float32"))


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
