"""The table of a model: every place, ties, buffers, totals."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from pullback import nn


class Model(nn.Module):
    table: nn.Embedding
    norms: list[nn.LayerNorm]
    drop: nn.Dropout
    head: nn.Embedding
    seen: Array = nn.buffer()


def model() -> Model:
    table = nn.Embedding.init(jax.random.key(0), 1000, 16)
    return Model(table, [nn.LayerNorm.init(16, bias=False), nn.LayerNorm.init(16)], nn.Dropout(0.1), table, jnp.zeros(3, jnp.int32))


TABLE = """\
module   class      arrays                             parameters      size
---------------------------------------------------------------------------
(model)  Model      seen int32[3] (buffer)                             12 B
table    Embedding  weight float32[1000,16]                16,000  62.5 KiB
norms.0  LayerNorm  scale float32[16]                          16      64 B
norms.1  LayerNorm  scale float32[16], bias float32[16]        32     128 B
drop     Dropout
head     Embedding  = table, counted there
---------------------------------------------------------------------------
parameters: 16,048 numbers in 4 arrays, 62.7 KiB
buffers: 3 numbers in 1 arrays, 12 B"""


def squeezed(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if set(line) != {"-"}]


def test_every_place_is_a_line_and_what_is_shared_counts_once():
    text = nn.summary(model())
    assert squeezed(text) == squeezed(TABLE)
    assert nn.param_count(model()) == 1000 * 16 + 3 * 16
    lines = text.splitlines()
    ends = {line.index(end) + len(end) for line, end in ((lines[0], "parameters"), (lines[3], "16,000"), (lines[5], "32 "))}
    assert len({lines[0].index("class"), lines[3].index("Embedding"), lines[6].index("Dropout")}) == 1, "columns are aligned"
    assert max(ends) - min(ends) <= 1, "numbers to the right"


def test_shapes_are_enough():
    assert nn.summary(jax.eval_shape(model)) == nn.summary(model())


def test_sizes_have_readable_units():
    shapes = lambda n, dtype: jax.eval_shape(lambda: nn.Embedding(jnp.zeros((n, 1024), dtype)))
    assert "128.0 MiB" in nn.summary(shapes(2**15, jnp.float32)) and "4.0 GiB" in nn.summary(shapes(2**21, jnp.bfloat16))
    assert nn.summary(nn.Dropout(0.0)).endswith("parameters: 0 numbers in 0 arrays, 0 B")
