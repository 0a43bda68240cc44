"""Modules: what may be declared, names and their inverse, ties, pytrees, scopes, and the texts of errors."""

import collections
import copy
import dataclasses
import pickle
import re
import types
from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, Optional, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

import pullback as pb
from pullback import nn, ops
from pullback.autograd.scope import SCOPE
from pullback.nn.module import Module, buffer, named_buffers, named_parameters, param, static, with_buffers, with_parameters


def values(*shape: int, start: int = 0):
    """0.1, 0.2, ... with signs that alternate: no two alike."""
    n = int(np.prod(shape, dtype=int))
    return jnp.asarray((np.arange(start + 1, start + n + 1) * 0.1 * (-1.0) ** np.arange(n)).reshape(shape), jnp.float32)


class Scale(Module):
    """y = x·scale; remembers the scopes that it ran in."""

    scale: Float[Array, " D"] = param()
    log: ClassVar[list[str]] = []

    @classmethod
    def init(cls, key, width: int):
        return cls(jax.random.normal(key, (width,)))

    def __call__(self, x):
        Scale.log.append(SCOPE.get())
        return ops.mul(x, self.scale)

    def twice(self, x):
        return self(self(x))


class Pair(NamedTuple):
    left: Scale
    right: Scale


class Everything(Module):
    """One field of every kind and container."""

    one: Scale
    maybe: Scale | None
    missing: Optional[Scale]  # noqa: UP045
    many: tuple[Scale, ...]
    listed: list[Scale]
    keyed: dict[str, Scale]
    nested: dict[str, list[tuple[Scale, Scale | None]]]
    pair: Pair
    marked: Annotated[Scale, "a note"]
    either: Scale | tuple[Scale, ...]
    weight: Float[Array, "D D"] = param()
    bias: Float[Array, " D"] | None = param(default=None)
    kernels: dict[str, list[Array]] = param(default_factory=dict)
    steps: Array | None = buffer(default=None)
    rate: float = static(default=0.5, kw_only=True)
    shape: tuple[int, ...] = static(default=(1, 2), kw_only=True)


def everything() -> Everything:
    s = [Scale(values(3, start=10 * i)) for i in range(12)]
    return Everything(
        s[0],
        s[1],
        None,
        (s[2], s[3]),
        [s[4]],
        {"z": s[5], "a": s[6]},
        {"k": [(s[7], None)]},
        Pair(s[8], s[9]),
        s[10],
        (s[11],),
        values(3, 3),
        kernels={"b": [values(2), values(1)]},
        steps=jnp.asarray(4, jnp.int32),
    )


NAMES = [
    "weight",
    "kernels.b.0",
    "kernels.b.1",
    "one.scale",
    "maybe.scale",
    "many.0.scale",
    "many.1.scale",
    "listed.0.scale",
    "keyed.z.scale",
    "keyed.a.scale",
    "nested.k.0.0.scale",
    "pair.left.scale",
    "pair.right.scale",
    "marked.scale",
    "either.0.scale",
]


def test_every_container_is_found_and_the_names_are_inverses():
    m = everything()
    parameters = named_parameters(m)
    assert list(parameters) == NAMES
    assert list(named_buffers(m)) == ["steps"]
    new = {name: x + 1 for name, x in parameters.items()}
    other = with_parameters(m, dict(reversed(new.items())))  # the order does not matter, the names do
    assert type(other) is Everything and list(named_parameters(other)) == NAMES
    for name, x in named_parameters(other).items():
        assert x is new[name]
    assert other.steps is m.steps and other.bias is None and other.missing is None
    assert type(other.listed) is list and type(other.keyed) is dict and list(other.keyed) == ["z", "a"]
    assert type(other.pair) is Pair and other.pair.right.scale is new["pair.right.scale"]
    assert other.nested["k"][0][1] is None and other.kernels["b"][1] is new["kernels.b.1"]
    assert (other.rate, other.shape) == (0.5, (1, 2))
    assert all(x is y for x, y in zip(named_parameters(m).values(), parameters.values())), "the old one is untouched"
    assert with_buffers(m, {"steps": jnp.asarray(5, jnp.int32)}).steps == 5


def test_as_a_pytree_it_is_its_arrays_by_name():
    m = everything()
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(m)]
    assert paths == [f".{name}" for name in [NAMES[0], *NAMES[1:3], "steps", *NAMES[3:]]]
    doubled = jax.tree.map(lambda x: 2 * x, m)
    for name, x in named_parameters(doubled).items():
        np.testing.assert_array_equal(x, 2 * named_parameters(m)[name])
    assert int(doubled.steps) == 8
    assert jax.tree.structure(doubled) == jax.tree.structure(m) == jax.tree.structure(everything())
    assert hash(jax.tree.structure(m)) == hash(jax.tree.structure(everything()))


def test_leaves_may_become_anything_and_come_back():
    m = Everything(**{f.name: getattr(everything(), f.name) for f in dataclasses.fields(Everything)})
    for leaf in (None, (1, 2), [3], {"a": 4}, "text"):
        strange = jax.tree.map(lambda x, leaf=leaf: leaf, m)
        assert strange.listed[0].scale is leaf and named_parameters(strange)["many.1.scale"] is leaf
        back = jax.tree.map(lambda x: x, strange)
        assert type(back) is Everything and back.listed[0].scale == leaf
    halves = jax.tree.map(lambda x: (x, x + 1), m)
    first, second = jax.tree.transpose(jax.tree.structure(m), jax.tree.structure((0, 0)), halves)
    assert first.weight is m.weight and float(second.weight[0, 0]) == pytest.approx(1.1)


def test_inherited_fields_keyword_fields_and_defaults():
    class Base(Module):
        weight: Array = param()
        rate: float = static(default=0.1)

    class Child(Base, kw_only=True):
        bias: Array = param()
        inner: Scale

    class Fresh(Module):
        scales: list[Scale] = dataclasses.field(default_factory=list)
        table: Array = buffer(default_factory=lambda: jnp.arange(3))

    m = Child(values(2), bias=values(3), inner=Scale(values(1)))
    assert list(named_parameters(m)) == ["weight", "bias", "inner.scale"] and m.rate == 0.1
    assert Fresh().scales == [] and Fresh().scales is not Fresh().scales and list(named_buffers(Fresh())) == ["table"]
    assert dataclasses.replace(m, rate=0.2).rate == 0.2 and dataclasses.replace(m, rate=0.2).inner is m.inner
    with pytest.raises(nn.ModuleError, match="is made from values for weight, rate, bias, inner: .*positional"):
        Child(values(2), 0.1, values(3))  # type: ignore[call-arg]


@pytest.mark.parametrize("decorate", [dataclasses.dataclass(frozen=True), dataclasses.dataclass(frozen=True, slots=True)])
def test_a_dataclass_decorator_changes_nothing(decorate):
    @decorate
    class Decorated(Module):
        inner: Scale
        weight: Array = param()
        scales: tuple[Scale, ...] = dataclasses.field(default_factory=tuple)
        rate: float = static(default=2.0)

        def __call__(self, x):
            return self.inner(x)

    m = Decorated(Scale(values(2)), values(3))
    assert list(named_parameters(m)) == ["weight", "inner.scale"] and m.scales == () and m.rate == 2.0
    assert named_parameters(jax.tree.map(jnp.negative, m))["weight"][0] == -m.weight[0]
    assert m == m and m != Decorated(m.inner, m.weight) and len({m}) == 1, "identity"
    assert repr(m) == "Decorated(inner=Scale(scale=float32[2]), weight=float32[3], scales=(), rate=2.0)"
    with pytest.raises(nn.ModuleError, match="expected an array"):
        Decorated(m.inner, 3)  # type: ignore[arg-type]
    Scale.log.clear()
    m(values(2))
    assert Scale.log == ["inner"]
    assert type(copy.copy(m)) is Decorated and copy.deepcopy(m).rate == 2.0


T = TypeVar("T", bound=Module)


class Wrapper(Module, Generic[T]):
    inner: T

    def __call__(self, x):
        return self.inner(x)  # type: ignore[operator]


class Layer(Module):
    @abstractmethod
    def __call__(self, x): ...


class Later(Module):
    later: "Last | None" = None  # is defined below
    again: "tuple[Later, ...]" = ()


class Last(Module):
    weight: Array = param()


def test_generic_abstract_and_forward_references():
    m = Wrapper[Scale](Scale(values(2)))
    assert list(named_parameters(m)) == ["inner.scale"]
    gradient = pb.grad(lambda m: ops.sum(m(values(2))))(m)
    assert list(gradient) == ["inner.scale"], "a generic module is a module to the engine"

    class Holder(Module):
        layer: Layer
        alias: Wrapper[Scale]
        local: "Holder | None" = None

    h = Holder(Wrapper(Scale(values(1))), m)  # type: ignore[arg-type]
    assert list(named_parameters(h)) == ["layer.inner.scale", "alias.inner.scale"]
    assert list(named_parameters(Later(Last(values(2)), (Later(),)))) == ["later.weight"]


@pytest.mark.parametrize(
    "annotation",
    [Array, "Array", int, list, tuple, list[Array], tuple[Scale, int], dict[str, Array], Scale | int, object, collections.OrderedDict],
)
def test_a_field_without_a_kind_must_hold_modules(annotation):
    with pytest.raises(pb.PullbackError, match=r"Wrong\.thing is annotated .*declare its kind: thing = param\(\)") as caught:
        type("Wrong", (Module,), {"__annotations__": {"thing": annotation}, "__module__": __name__})
    assert isinstance(caught.value, TypeError)


KEY = jax.random.key(0)
untyped: Any = types.SimpleNamespace(Linear=nn.Linear, LayerNorm=nn.LayerNorm, Wrapper=Wrapper, Later=Later)  # pyright would refuse too


@pytest.mark.parametrize(
    "build, text",
    [
        (lambda: untyped.Linear(768, 3072), "Linear.weight is the int 768; expected an array; .*Linear.init(key, 768, 3072)"),
        (lambda: untyped.Linear(KEY, 768, 3072), "made from values for weight, bias: .*Linear.init(key, 768, 3072)"),
        (lambda: untyped.Linear(KEY, 768), "Linear.weight is a random key; expected an array; .*Linear.init(key, 768)"),
        (lambda: untyped.Linear(KEY, 8, 9, bias=False), "made from values for weight, bias: .*Linear.init(key, 8, 9, bias=False)"),
        (lambda: untyped.Linear(3, 4, bias=False), "multiple values for argument 'bias'; .*Linear.init(key, 3, 4, bias=False)"),
        (lambda: untyped.Linear(), "missing 1 required positional argument: 'weight'; .*Linear.init(key)"),
        (lambda: untyped.LayerNorm(768), "LayerNorm.scale is the int 768; expected an array; .*LayerNorm.init(768)"),
        (lambda: untyped.Linear(None), "Linear.weight is None; annotate it `... | None`"),
        (lambda: untyped.Linear(values(2, 2), 3.0), "Linear.bias is the float 3.0; expected an array"),
        (
            lambda: untyped.Linear(jnp.arange(4)),
            "Linear.weight is int32[4]: a parameter .* is floating; declare it buffer()",
        ),
        (lambda: untyped.Wrapper(values(2)), "Wrapper.inner is an array float32[2], but inner holds modules"),
        (lambda: untyped.Wrapper(None), "Wrapper.inner is None"),
        (lambda: untyped.Later(again=(Later(), 3)), "Later.again.1 is the int 3, but again holds modules"),
        (lambda: keyed({"a.b": Scale(values(1))}), "keyed has the key 'a.b'; keys become parts of names"),
        (lambda: keyed({3: Scale(values(1))}), "keyed has the key 3;"),
        (lambda: dataclasses.replace(everything(), kernels={"": []}), "kernels has the key '';"),
        (lambda: dataclasses.replace(everything(), rate=[1]), "rate is the list [1]: a static .* must be hashable; write it with tuples"),
        (lambda: dataclasses.replace(everything(), rate=values(2)), "rate is an array float32[2]: .*buffer() is for arrays"),
        (lambda: dataclasses.replace(everything(), rate=Scale(values(2))), "rate is a module, whose arrays would be compiled in"),
    ],
)
def test_wrong_values_are_named(build, text):
    with pytest.raises(nn.ModuleError, match=".*".join(map(re.escape, text.split(".*")))):
        build()


def keyed(modules: dict) -> Everything:
    return dataclasses.replace(everything(), keyed=modules)


def test_an_error_of_the_modules_own_is_left_alone():
    class Strict(Module):
        weight: Array = param()

        def __post_init__(self):
            raise TypeError("mine")

    with pytest.raises(TypeError, match="^mine$"):
        Strict(values(1))


def test_with_parameters_lists_everything_that_is_wrong():
    m = everything()
    new = dict(named_parameters(m))
    del new["weight"]
    new["one.scael"] = new.pop("one.scale")
    new["maybe.scale"] = values(4)
    new["many.0.scale"] = new["many.0.scale"].astype(jnp.bfloat16)
    new["many.1.scale"] = 3.0  # type: ignore[assignment]
    with pytest.raises(nn.ModuleError) as caught:
        with_parameters(m, new)
    for text in (
        "parameter weight (float32[3,3]) is missing",
        "parameter one.scale (float32[3]) is missing",
        "there is no parameter 'one.scael'; did you mean 'one.scale'",
        "parameter maybe.scale came as float32[4], expected float32[3]",
        "parameter many.0.scale came in bfloat16, expected float32",
        "parameter many.1.scale came as 3.0, expected float32[3]",
    ):
        assert text in str(caught.value)
    with pytest.raises(nn.ModuleError, match="there is no buffer 'weight'"):
        with_buffers(m, {**named_buffers(m), "weight": values(3, 3)})


def test_numpy_values_become_jax_arrays():
    m = untyped.Linear(np.ones((2, 3), np.float32), bias=np.zeros(2, np.float32))
    assert isinstance(m.weight, jax.Array) and isinstance(m.bias, jax.Array)


def test_frozen_copied_and_pickled():
    m = everything()
    with pytest.raises(dataclasses.FrozenInstanceError, match=r"Everything is frozen.*dataclasses.replace\(module, rate=\.\.\.\)"):
        m.rate = 1.0  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot be deleted"):
        del m.rate  # type: ignore[misc]
    tied = Wrapper(Tied.of(Scale(values(2))))
    tied(values(2))  # what a call finds out about one instance must not travel with a copy
    for other in (copy.deepcopy(tied), pickle.loads(pickle.dumps(tied))):
        assert other.inner.first is other.inner.last is not tied.inner.first
        Scale.log.clear()
        other(values(2))
        assert Scale.log == ["inner.first", "inner.middle.0", "inner.first"]


class Tied(Module):
    first: Scale
    middle: tuple[Scale, ...]
    last: Scale

    @classmethod
    def of(cls, scale: Scale) -> "Tied":
        return cls(scale, (Scale(scale.scale),), scale)  # middle has an equal array: not a tie

    def __call__(self, x):
        x = self.first(x)
        for m in self.middle:
            x = m(x)
        return self.last(x)


def test_a_tie_is_one_module_object_and_its_gradients_add():
    m, x = Tied.of(Scale(values(3))), values(3, start=5)
    assert list(named_parameters(m)) == ["first.scale", "middle.0.scale"] and len(jax.tree.leaves(m)) == 2
    gradient = pb.grad(lambda m: ops.sum(m(x)))(m)
    apart = jax.grad(lambda a, b, c: (x * a * b * c).sum(), argnums=(0, 1, 2))(m.first.scale, m.middle[0].scale, m.last.scale)
    np.testing.assert_allclose(gradient["first.scale"], apart[0] + apart[2], rtol=1e-6)
    np.testing.assert_allclose(gradient["middle.0.scale"], apart[1], rtol=1e-6)


def test_ties_survive_jit_and_tree_map_and_with_parameters():
    m = Tied.of(Scale(values(3)))
    traces = []
    step = jax.jit(lambda m: traces.append(1) or jax.tree.map(lambda x: x - 0.1, m))
    for other in (step(m), step(step(m)), jax.tree.map(lambda x: x, m), with_parameters(m, named_parameters(m))):
        assert other.first is other.last and other.middle[0] is not other.first
    assert len(traces) == 1
    inside = []
    jax.jit(lambda m: inside.append(m.first is m.last) or m)(m)
    assert inside == [True]


def test_jit_traces_once_for_one_structure_and_anew_for_another():
    traces = []

    @jax.jit
    def run(m):
        traces.append(1)
        return ops.sum(m(values(3)))

    scale = Scale(values(3))
    for m in (Tied.of(scale), Tied.of(Scale(values(3, start=7)))):
        for same in (m, with_parameters(m, named_parameters(m)), copy.deepcopy(m)):
            run(same)
    assert len(traces) == 1
    untied = Tied(scale, (Scale(scale.scale),), Scale(scale.scale))
    run(untied)
    assert len(traces) == 2, "sharing is part of the structure"
    run(Tied(scale, (scale,), Scale(scale.scale)))
    assert len(traces) == 3, "two arrays, as in the first one, but shared by others"
    run(Tied(scale, (), scale))
    assert len(traces) == 4

    count = []
    dropped = jax.jit(lambda m: count.append(1))
    for rate in (0, 0.0, 0, 0.5):
        dropped(nn.Dropout(rate))
    assert len(count) == 3, "0 and 0.0 are equal, but not the same static"


def test_a_list_that_changes_is_seen():
    m = everything()
    assert jax.tree.structure(m) == jax.tree.structure(everything())
    m.listed.append(Scale(values(3)))
    assert "listed.1.scale" in named_parameters(m) and len(jax.tree.leaves(m)) == 17
    m.keyed["z"] = m.one
    assert "keyed.z.scale" not in named_parameters(m)
    assert jax.tree.structure(m) != jax.tree.structure(everything())
    other = jax.tree.map(lambda x: x, m)
    other.listed.pop()
    assert "listed.1.scale" not in named_parameters(other) and "listed.1.scale" in named_parameters(m)


class Inner(Module):
    scale: Scale

    def __call__(self, x):
        return self.scale(x)


class Outer(Module):
    inners: tuple[Inner, ...]
    shared: Scale
    keyed: dict[str, Inner]

    def __call__(self, x):
        for inner in self.inners:
            x = inner(x)
        x = self.inners[0].scale(x)  # past Inner.__call__
        x = self.keyed["k"](x)
        x = self.shared(x)
        with pb.scope("named"):
            x = self.shared(x)
        return Scale(values(3))(x)  # made on the fly

    def loss(self, x):
        return ops.sum(self(x))


SCOPES = ["inners.0.scale", "inners.1.scale", "inners.0.scale", "keyed.k.scale", "shared", "named.shared", "scale"]


def outer() -> Outer:
    shared = Scale(values(3))
    return Outer((Inner(Scale(values(3))), Inner(shared)), shared, {"k": Inner(Scale(values(3)))})


def test_scopes_are_the_paths_of_the_calls():
    m, x = outer(), values(3)
    assert list(named_parameters(m)) == ["inners.0.scale.scale", "inners.1.scale.scale", "keyed.k.scale.scale"]

    def scopes(call) -> list[str]:
        Scale.log.clear()
        call()
        return list(Scale.log)

    # `shared` has one name as a parameter; as a part of the second Inner it runs in that Inner's scope, else in its own first place
    expected = [s.replace("named.shared", "named.inners.1.scale").replace("shared", "inners.1.scale") for s in SCOPES]
    assert scopes(lambda: m(x)) == expected
    assert scopes(lambda: m.loss(x)) == expected, "any public method is a way in"
    assert scopes(lambda: pb.grad(lambda m: m.loss(x))(m)) == expected
    assert scopes(lambda: pb.compile(lambda m: m.loss(x))(m)) == expected
    assert scopes(lambda: jax.jit(lambda m: m.loss(x))(m)) == expected
    assert scopes(lambda: pb.checkpoint(m.inners[0])(x)) == ["scale"], "a module that nobody holds is the root"
    with pb.scope("teacher"):
        assert scopes(lambda: m(x)) == [f"teacher.{s}" for s in expected]
    assert SCOPE.get() == ""
    assert scopes(lambda: Scale(values(3)).twice(x)) == ["", ""]


def test_scopes_of_a_shared_module_follow_its_two_owners():
    shared = Scale(values(2))

    class Two(Module):
        left: Inner
        right: Inner

        def __call__(self, x):
            return self.right(self.left(x))

    m = Two(Inner(shared), Inner(shared))
    assert list(named_parameters(m)) == ["left.scale.scale"]
    Scale.log.clear()
    m(values(2))
    assert Scale.log == ["left.scale", "right.scale"]
    with pb.rules({"right.scale/mul": "flipped"}):  # a rule chooses one of the two uses
        gradient = pb.grad(lambda m: ops.sum(m(values(2))))(m)["left.scale.scale"]
    s, x = shared.scale, values(2)
    np.testing.assert_allclose(gradient, x * s - x * s, atol=1e-7)  # + from the left, − from the right


@ops.REGISTRY["mul"].rule("flipped", contract="surrogate")
def mul_flipped(res, z_bar):
    """x̄ = z̄·y, ȳ = −z̄·x: only a test asks for it."""
    return ops.mul(z_bar, res.y), ops.neg(ops.mul(z_bar, res.x))


def test_scopes_reach_the_graph_and_the_program():
    m, x = outer(), values(3)
    labels = pb.draw(m(pb.tensor(x)))
    assert "inners.0.scale/mul" in labels and "keyed.k.scale/mul" in labels
    text = jax.jit(pb.grad(lambda m, x: m.loss(x))).lower(m, x).as_text(debug_info=True)
    for name in ("/inners.0/scale/jit(mul)", "/keyed.k/scale/jit(mul)", "/keyed.k.scale/backward/jit(mul_backward)"):
        assert name in text


def test_scopes_inside_callbacks_checkpoint_and_scan():
    class Caller(Module):
        inner: Inner
        own: Scale

        def __call__(self, x):
            return pb.checkpoint(lambda x: self.inner(self.helper(x)))(x)

        def helper(self, x):
            return self.own(x)

        def looped(self, x):
            return pb.scan(lambda x, _: (self.inner(x), None), x, length=2)[0]

    m, x = Caller(Inner(Scale(values(3))), Scale(values(3))), values(3)
    Scale.log.clear()
    pb.grad(lambda m: ops.sum(m(x)))(m)
    assert Scale.log == ["own", "inner.scale"] * 2, "the second run has the scopes of the first"
    Scale.log.clear()
    jax.jit(pb.grad(lambda m: ops.sum(m.looped(x)), allow_unused=True))(m)
    assert set(Scale.log) == {"inner.scale"}


def test_a_compiled_step_does_not_see_who_called_it():
    inner = Inner(Scale(values(3)))
    step = pb.compile(lambda m, x: m(x))

    class Caller(Module):
        inner: Inner

        def __call__(self, x):
            with pb.scope("around"):
                return step(self.inner, x)

    class Root(Module):
        caller: Caller

        def __call__(self, x):
            return self.caller(x)

    Scale.log.clear()
    Root(Caller(inner))(values(3))
    assert Scale.log == ["scale"]


def test_an_error_leaves_the_scope_as_it_was():
    with pytest.raises(pb.PullbackError):
        outer()(values(4, 5))
    assert SCOPE.get() == ""
    Scale.log.clear()
    Scale(values(3))(values(3))
    assert Scale.log == [""]


def test_methods_keep_their_names_and_signatures():
    assert Outer.loss.__name__ == "loss" and Outer.loss.__qualname__ == "Outer.loss"
    assert Scale.twice.__wrapped__.__code__.co_varnames == ("self", "x")  # type: ignore[attr-defined]


def test_repr_shows_shapes_ties_and_repeats():
    assert repr(Scale(values(3))) == "Scale(scale=float32[3])"
    assert repr(Tied.of(Scale(values(3)))) == ("Tied(first=Scale(scale=float32[3]), middle=(Scale(scale=float32[3]),), last=<first again>)")
    m = dataclasses.replace(everything(), many=tuple(Scale(values(3)) for _ in range(5)), steps=None)
    text = repr(m)
    assert "  many=(5 × Scale(scale=float32[3])),\n" in text and "  keyed={'z': Scale(scale=float32[3]), 'a': Scale(" in text
    assert "kernels={'b': [float32[2], float32[1]]}" in text and text.endswith("rate=0.5,\n  shape=(1, 2),\n)")
    shapes = jax.eval_shape(lambda m: m, m)
    assert repr(shapes) == text


def test_the_engine_takes_modules_inside_other_arguments():
    m, x = Scale(values(3)), values(3, start=4)
    gradient = pb.grad(lambda args: ops.sum(args["m"](args["x"])))({"m": m, "x": x})
    np.testing.assert_allclose(gradient["m"]["scale"], x)
    np.testing.assert_allclose(gradient["x"], m.scale)
    with pytest.raises(pb.PullbackError, match="no gradient reaches the parameters .*weight"):
        pb.grad(lambda m: ops.sum(m.one(x)))(everything())


def test_buffers_come_back_as_aux():
    class Counter(Module):
        scale: Array = param()
        calls: Array = buffer()

        def __call__(self, x):
            return ops.mul(x, self.scale), with_buffers(self, {"calls": self.calls + 1})

    m = Counter(values(2), jnp.zeros((), jnp.int32))

    def loss(m):
        y, m = m(values(2))
        return ops.sum(y), m

    (_, after), gradient = pb.value_and_grad(loss, has_aux=True)(m)
    assert list(gradient) == ["scale"] and int(after.calls) == 1 and int(m.calls) == 0
    assert isinstance(after.scale, jax.Array), "no tracked value leaves"
