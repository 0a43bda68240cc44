"""Module: a frozen dataclass whose fields say what is trained, kept or compiled in.

    class Scale(nn.Module):
        scale: Float[Array, " D"] = nn.param()

        @classmethod
        def init(cls, width: int):
            return cls(jnp.ones(width))

        def __call__(self, x):
            return ops.mul(x, self.scale)

Arrays go by name (`named_parameters`, `with_parameters`). A module is a pytree of its different arrays; one module object in
two places is a tie, and stays one through jit, tree.map and with_parameters. Two equal arrays are not a tie.
"""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import jax
from jax.tree_util import GetAttrKey

from ..lib.errors import near
from .construction import checking
from .entering import entering
from .fields import ModuleError, Part, buffer, param, parts_of, static
from .reflection import dissected
from .representation import described, shape_text

M = TypeVar("M", bound="Module")


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(param, buffer, static))
class Module:
    """The base of everything that holds arrays. A subclass becomes a dataclass as it is defined; `fields` says what it may hold.

    `__call__` and public methods enter a scope named after the place of the module in its owner: see `entering`.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field]]
    __parts__: ClassVar[tuple[Part, ...]] = ()

    def __init_subclass__(cls, kw_only: bool = False, **options):
        super().__init_subclass__(**options)
        if "__dataclass_fields__" not in vars(cls):  # @dataclass(slots=True) makes the class a second time
            dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=kw_only)(cls)
            del cls.__setattr__, cls.__delattr__  # Module's own say what to do instead
            for field in dataclasses.fields(cls):  # should a decorator follow, it is to find the kinds again
                if field.init and field.name in vars(cls).get("__annotations__", {}):
                    setattr(cls, field.name, field)
            for name in ("__repr__", "__eq__", "__hash__"):  # and to leave these
                setattr(cls, name, getattr(cls, name))
            for name, value in list(vars(cls).items()):
                if isinstance(value, types.FunctionType) and (name == "__call__" or not name.startswith("_")):
                    setattr(cls, name, entering(value))
            cls.__init__ = checking(cls.__init__)
        cls.__parts__ = parts_of(cls)
        jax.tree_util.register_pytree_with_keys(cls, flatten_with_names, filled, flatten)

    def __setattr__(self, name: str, value) -> None:
        raise dataclasses.FrozenInstanceError(
            f"{type(self).__name__} is frozen: {name} cannot be set; dataclasses.replace(module, {name}=...) makes another one, "
            "with_parameters(module, {...}) one with other arrays anywhere in it"
        )

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def __getstate__(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name) for part in self.__parts__}  # what was found out about this instance stays here

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return described(self)

    # What the engine asks of whatever holds parameters; the values may be tracked.

    def __named_parameters__(self) -> dict[str, Any]:
        arrays, skeleton = dissected(self)
        return {name: arrays[name] for name in skeleton.parameters}

    def __with_parameters__(self, new: Mapping[str, Any]) -> Self:
        arrays, skeleton = dissected(self)
        return skeleton.filled({**arrays, **new})


def named_parameters(m: Module) -> dict[str, Any]:
    """{name: array} of what is trained, owners before what they own, shared modules once: `blocks.3.attn.qkv.weight`."""
    return m.__named_parameters__()


def named_buffers(m: Module) -> dict[str, Any]:
    """{name: array} of what is kept and not trained."""
    arrays, skeleton = dissected(m)
    trained = set(skeleton.parameters)
    return {name: x for name, x in arrays.items() if name not in trained}


def with_parameters(m: M, new: Mapping[str, Any]) -> M:
    """m with other parameters, each under its name: the inverse of `named_parameters`.

    Raises ModuleError that lists every name that is missing, unknown (with near names), of another shape or of another dtype.
    """
    return with_arrays(m, new, named_parameters(m), "parameter")


def with_buffers(m: M, new: Mapping[str, Any]) -> M:
    """m with other buffers, each under its name: the inverse of `named_buffers`, as strict as `with_parameters`."""
    return with_arrays(m, new, named_buffers(m), "buffer")


def with_arrays(m: M, new: Mapping[str, Any], old: Mapping[str, Any], kind: str) -> M:
    wrong = [f"{kind} {name} ({shape_text(x)}) is missing" for name, x in old.items() if name not in new]
    wrong += [f"there is no {kind} {name!r}" + near(name, old) for name in new if name not in old]
    for name, x in old.items():
        if name in new and hasattr(x, "shape"):
            got = new[name]
            if not hasattr(got, "shape") or tuple(got.shape) != tuple(x.shape):
                wrong.append(f"{kind} {name} came as {shape_text(got)}, expected {shape_text(x)}")
            elif got.dtype != x.dtype:
                wrong.append(f"{kind} {name} came in {got.dtype}, expected {x.dtype}: cast it, or cast the module by jax.tree.map first")
    if wrong:
        raise ModuleError(f"{type(m).__name__}: " + "; ".join(wrong))
    arrays, skeleton = dissected(m)
    return skeleton.filled({**arrays, **new})


def flatten(m: Module) -> tuple[tuple, Any]:
    arrays, skeleton = dissected(m)
    return tuple(arrays.values()), skeleton


def flatten_with_names(m: Module) -> tuple[list, Any]:
    arrays, skeleton = dissected(m)
    return [(GetAttrKey(name), x) for name, x in arrays.items()], skeleton


def filled(skeleton, arrays) -> Any:
    return skeleton.filled(dict(zip(skeleton.names, arrays)))
