"""GPT-2: a stack of pre-norm transformer blocks over token and position embeddings, with a head that is tied to the former or not.

Axes: B batch, T time, D width, V vocabulary, L layers, H heads.

Two initialisations are published. `paper`, which nanoGPT and transformers carry out: every matrix N(0, 0.02²), the projections that
write to the residual stream divided by √(2·L), one for each of its additions. `released`, OpenAI's own code: the projections are not
divided, and positions are N(0, 0.01²). Biases are 0 and scales 1 in both.
        Radford et al. 2019, Language models are unsupervised multitask learners, section 2.3
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .. import ops
from ..autograd import checkpoint, scope
from ..lib.errors import ConfigError, OperandError, UnknownName, near
from ..lib.keys import named_key
from ..nn import MLP, Dropout, Embedding, LayerNorm, Linear, Module, SelfAttention, static, to_compute
from ..nn.initialisers import normal

INITIALISATIONS = {"paper": 0.02, "released": 0.01}  # the standard deviation of positions
LARGEST = 2**31 - 1  # of a size: ids and positions are int32


@dataclass(frozen=True)
class GPT2Config:
    """The shape of a GPT-2. The defaults are the smallest of the published ones."""

    vocab: int = 50257
    context: int = 1024
    layers: int = 12
    heads: int = 12
    width: int = 768
    bias: bool = True  # of every linear layer and layer norm
    tied: bool = True  # the head reads with the matrix of the token embedding; else it has one of its own
    dropout: float = 0.0  # on the embeddings and on each addition to the residual stream
    eps: float = 1e-5
    initialisation: str = "paper"  # of the weights: "paper", or "released", as OpenAI's code does
    checkpoint: bool = False  # run each block again in the backward instead of keeping its residuals
    chunk: int | None = None  # rows of logits that the loss holds at a time; None: what makes 2²⁴ logits

    def __post_init__(self):
        for name in ("vocab", "context", "layers", "heads", "width"):
            if not 1 <= getattr(self, name) <= LARGEST:
                raise ConfigError(f"GPT-2: {name} is {getattr(self, name)}; expected from 1 to {LARGEST}")
        if self.width % self.heads:
            raise ConfigError(f"GPT-2: {self.heads} heads do not divide the width {self.width}")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"GPT-2: dropout {self.dropout}; expected a probability from 0 to below 1")
        if not 0 <= self.eps <= float(jnp.finfo(jnp.float32).max):
            raise ConfigError(f"GPT-2: eps is {self.eps}; expected a float32, 0 or more")
        if self.initialisation not in list(INITIALISATIONS):
            raise UnknownName(f"GPT-2: no initialisation {self.initialisation!r}" + near(str(self.initialisation), INITIALISATIONS))
        if self.chunk is not None and self.chunk < 1:
            raise ConfigError(f"GPT-2: chunk is {self.chunk}; expected a number of rows, at least 1")

    def demand_layers(self, tensors: int, where: str) -> None:
        """ConfigError where so many tensors cannot be all layers. To be asked before a template of so many layers is made."""
        if tensors < (12 if self.bias else 6) * self.layers:
            raise ConfigError(f"{where} holds {tensors} tensors, too few for {self.layers} layers")


SIZES = {
    "gpt2-124m": GPT2Config(),
    "gpt2-355m": GPT2Config(layers=24, heads=16, width=1024),
    "gpt2-774m": GPT2Config(layers=36, heads=20, width=1280),
    "gpt2-1558m": GPT2Config(layers=48, heads=25, width=1600),
}


class Block(Module):
    """h ← h + attn(ln1(h)),   h ← h + mlp(ln2(h))."""

    ln1: LayerNorm
    attn: SelfAttention
    ln2: LayerNorm
    mlp: MLP

    @classmethod
    def init(cls, key: PRNGKeyArray, config: GPT2Config, dtype: DTypeLike = jnp.float32) -> "Block":
        norm = LayerNorm.init(config.width, bias=config.bias, eps=config.eps, dtype=dtype)
        other = LayerNorm.init(config.width, bias=config.bias, eps=config.eps, dtype=dtype)
        drawn: dict[str, Any] = dict(
            bias=config.bias,
            dropout=config.dropout,
            initialiser=normal(0.02),
            proj_initialiser=normal(0.02 / (math.sqrt(2 * config.layers) if config.initialisation == "paper" else 1)),
            dtype=dtype,
        )
        attn = SelfAttention.init(named_key(key, "attn"), config.width, config.heads, causal=True, **drawn)
        return cls(norm, attn, other, MLP.init(named_key(key, "mlp"), config.width, 4 * config.width, **drawn))

    def __call__(self, h: Float[Array, "B T D"], *, train: bool = False):
        h = ops.add(h, self.attn(self.ln1(h), train=train))
        return ops.add(h, self.mlp(self.ln2(h), train=train))

    def extend(self, h: Float[Array, "B T D"], keys: Float[Array, "B H S K"], values: Float[Array, "B H S K"], start: Int[Array, " B"]):
        """(h, keys, values): see SelfAttention.extend."""
        y, keys, values = self.attn.extend(self.ln1(h), keys, values, start)
        h = ops.add(h, y)
        return ops.add(h, self.mlp(self.ln2(h))), keys, values


class GPT2(Module):
    """`model(ids)` gives logits, `model.loss(ids, targets)` the mean cross-entropy without ever holding all logits.

    `train=True` turns dropout on, which then needs `pb.keys` (see nn.Dropout); at rate 0 it changes nothing.
    """

    wte: Embedding
    wpe: Embedding
    dropout: Dropout
    blocks: tuple[Block, ...]
    ln: LayerNorm
    head: Linear | None = None  # none where it is tied
    config: GPT2Config = static(kw_only=True)

    @classmethod
    def init(cls, key: PRNGKeyArray, config: GPT2Config = GPT2Config(), dtype: DTypeLike = jnp.float32) -> "GPT2":
        """Each module draws from a key made from its name, so a layer more or less leaves the draws of the others alone."""
        drawn: dict[str, Any] = dict(initialiser=normal(0.02), dtype=dtype)
        positions = normal(INITIALISATIONS[config.initialisation])
        head = None if config.tied else Linear.init(named_key(key, "head"), config.width, config.vocab, bias=False, **drawn)
        return cls(
            Embedding.init(named_key(key, "wte"), config.vocab, config.width, **drawn),
            Embedding.init(named_key(key, "wpe"), config.context, config.width, initialiser=positions, dtype=dtype),
            Dropout(config.dropout),
            tuple(Block.init(named_key(key, f"blocks.{i}"), config, dtype) for i in range(config.layers)),
            LayerNorm.init(config.width, bias=config.bias, eps=config.eps, dtype=dtype),
            head,
            config=config,
        )

    def features(self, ids: Int[Array, "B T"], *, train: bool = False) -> Float[Array, "B T D"]:
        """What the head reads: the residual stream after the last block, normalised."""
        if ids.ndim != 2 or ids.shape[1] > self.config.context:
            raise OperandError(f"GPT-2 takes ids (batch, time) of at most {self.config.context} tokens, not {ids.shape}")
        h = ops.add(self.wte(ids), self.wpe.rows(ids.shape[1]))
        h = self.dropout(h, train=train)
        for block in self.blocks:
            h = checkpoint(block)(h, train=train) if self.config.checkpoint else block(h, train=train)
        return self.ln(h)

    def __call__(self, ids: Int[Array, "B T"], *, train: bool = False) -> Float[Array, "B T V"]:
        """Logits of the next token after each."""
        return self.logits(self.features(ids, train=train))

    def logits(self, h: Float[Array, "... D"]) -> Float[Array, "... V"]:
        """What the head makes of features."""
        with scope("head"):
            return ops.linear(h, to_compute(self.reading))

    @property
    def reading(self) -> Float[Array, "V D"]:
        """The matrix of the head."""
        return self.wte.weight if self.head is None else self.head.weight

    def loss(
        self, ids: Int[Array, "B T"], targets: Int[Array, "B T"], weights: Float[Array, "B T"] | None = None, *, train: bool = False
    ) -> Float[Array, ""]:
        """Mean cross-entropy in nats, Σ w·ℓ / Σ w; weights of 0 leave targets out."""
        h = self.features(ids, train=train)
        with scope("head"):
            return ops.linear_softmax_cross_entropy(h, to_compute(self.reading), targets, weights, chunk=self.config.chunk)

    def cache(self, rows: int, places: int) -> "Cache":
        """Room for so many positions of each of so many texts."""
        config = self.config
        shape = rows, config.heads, places, config.width // config.heads
        dtype = jnp.result_type(to_compute(self.wte.weight))
        room = lambda: tuple(jnp.zeros(shape, dtype) for _ in self.blocks)
        return Cache(room(), room())

    def extend(self, ids: Int[Array, "B T"], cache: "Cache", start: Int[Array, " B"]) -> tuple[Float[Array, "B T D"], "Cache"]:
        """Features of T further tokens of each text, and the cache with them in it. Row b has start[b] tokens there already."""
        position = start[:, None] + jnp.arange(ids.shape[1])
        h = ops.add(self.wte(ids), self.wpe(position))
        keys, values = list(cache.keys), list(cache.values)
        for i, block in enumerate(self.blocks):
            h, keys[i], values[i] = block.extend(h, keys[i], values[i], start)
        return self.ln(h), Cache(tuple(keys), tuple(values))


class Cache(NamedTuple):
    """Keys and values of what a model has read, by block, each (B, H, S, K) with S places."""

    keys: tuple[Float[Array, "B H S K"], ...]
    values: tuple[Float[Array, "B H S K"], ...]
