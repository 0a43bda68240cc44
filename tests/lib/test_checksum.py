"""Equal sums for equal trees, other sums after any small change, and the same sum eager, compiled and on every run."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from pullback.lib.checksum import checksum, hexadecimal

RNG = np.random.default_rng(0)
TREE = {
    "weight": RNG.normal(size=(3, 5)).astype("float32"),
    "half": (RNG.normal(size=7).astype("float16"), RNG.normal(size=4).astype(ml_dtypes.bfloat16)),
    "count": np.int32(7),
    "mask": np.array([True, False, True]),
    "nothing": np.zeros((0, 2), "float32"),
    "none": None,
}


def of(tree) -> str:
    return hexadecimal(checksum(tree))


def test_is_known():
    """Written down: it must mean the same in every version, or old runs could not be verified."""
    assert of(TREE) == of(jax.tree.map(jnp.asarray, TREE)) == hexadecimal(jax.jit(checksum)(TREE)) == "7c1674524bfda021"


def test_wide_numbers_and_keys_count_whole():
    with jax.enable_x64(True):
        wide = np.array([1.0, 2.0 + 2**-50])
        assert of({"x": jnp.asarray(wide)}) != of({"x": jnp.asarray(np.round(wide))})
    assert of({"k": jax.random.key(0)}) != of({"k": jax.random.key(1)})


def changed():
    """(what was changed, the tree) for every bit of every array, and for what leaves all bits there."""
    flat, structure = jax.tree.flatten(TREE)
    for i, x in enumerate(flat):
        x = np.asarray(x)
        for byte in range(x.nbytes):
            for bit in range(8) if x.dtype != bool else (0,):
                raw = bytearray(x.tobytes())
                raw[byte] ^= 1 << bit
                yield (
                    f"bit {bit} of byte {byte} of leaf {i}",
                    structure.unflatten(flat[:i] + [np.frombuffer(raw, x.dtype).reshape(x.shape)] + flat[i + 1 :]),
                )
    yield "transposed", TREE | {"weight": np.ascontiguousarray(TREE["weight"].T)}
    yield "reshaped", TREE | {"weight": TREE["weight"].reshape(5, 3)}
    yield "swapped rows", TREE | {"weight": TREE["weight"][[1, 0, 2]]}
    yield "another dtype", TREE | {"count": np.uint32(7)}
    yield "another name", {("weight2" if name == "weight" else name): x for name, x in TREE.items()}
    yield "swapped arrays", TREE | {"half": TREE["half"][::-1]}
    yield "one more zero", TREE | {"more": np.zeros(1, "float32")}


def test_sees_every_change():
    """No two of hundreds of near trees have one sum, in either of its halves."""
    program = jax.jit(checksum)
    sums = {what: hexadecimal(program(tree) if what.startswith("bit") else checksum(tree)) for what, tree in changed()}
    sums["as it was"] = of(TREE)
    assert len(sums) > 600
    for half in (slice(0, 8), slice(8, 16)):
        assert len({x[half] for x in sums.values()}) == len(sums)


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
def test_order_and_cancelling_changes_show(value):
    """Additions that only summed words would not see these."""
    x = np.full(1000, value, "float32")
    x[[3, 700]] = [2.0, -2.0]
    y = x.copy()
    y[[3, 700]] = y[[700, 3]]
    assert of(x) != of(y) and of(np.float32(0.0)) != of(np.float32(-0.0))
