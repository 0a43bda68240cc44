"""From logits to the next token: a repetition penalty, a temperature, what is left out, one draw.

Axes: B rows of a batch, V vocabulary.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ..lib.errors import ConfigError


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn. A setting at `None` is off.

    The penalty comes first, on the logits of tokens that the text has already (Keskar et al. 2019, arXiv 1909.05858); then the
    temperature; then top_k, top_p (Holtzman et al. 2020, arXiv 1904.09751) and min_p (Nguyen et al. 2025, arXiv 2407.01082), each
    on what the one before it left.
    """

    temperature: float = 0.8
    """Below 1 the likelier tokens gain; 0 takes the likeliest each time."""
    top_k: int | None = None
    """Draw among so many likeliest tokens only."""
    top_p: float | None = None
    """Draw among the likeliest tokens that together have this probability; 0 leaves the likeliest."""
    min_p: float | None = None
    """Leave out tokens less likely than this fraction of the likeliest one."""
    repetition_penalty: float | None = None
    """Above 1, tokens that the text has already become less likely."""
    seed: int = 0
    """Another seed, another text."""

    def __post_init__(self):
        for name, fits, expected in (
            ("temperature", lambda x: 0 <= x <= LARGE, f"from 0 to {LARGE}"),
            ("top_k", lambda x: 1 <= x < 2**31, f"from 1 to {2**31 - 1}"),
            ("top_p", lambda x: 0 <= x <= 1, "from 0 to 1"),
            ("min_p", lambda x: 0 <= x <= 1, "from 0 to 1"),
            ("repetition_penalty", lambda x: SMALL <= x <= LARGE, f"from {SMALL} to {LARGE}"),
            ("seed", lambda x: 0 <= x < 2**31, f"from 0 to {2**31 - 1}"),
        ):
            value = getattr(self, name)
            if value is not None and not fits(value):
                raise ConfigError(f"{name} is {value}; it must be {expected}")

    def numbers(self) -> dict[str, float]:
        """What a compiled `draw` is given: the settings that are on, so that another value is not another program."""
        names = ("temperature", *FILTERS) if self.temperature else ()
        given = {name: getattr(self, name) for name in (*names, "repetition_penalty")}
        return {name: float(x) for name, x in given.items() if x not in (None, OFF.get(name))}


FILTERS = ("top_k", "top_p", "min_p")
OFF = {"top_p": 1, "min_p": 0, "repetition_penalty": 1}  # these change nothing, and leave no program to do so
SMALL, LARGE = 1e-30, 1e30  # float32s, and their reciprocals too


def draw(
    logits: Float[Array, "B V"], numbers: Mapping[str, Any], seen: Bool[Array, "B V"] | None, key: PRNGKeyArray
) -> tuple[Int[Array, " B"], Float[Array, " B"]]:
    """(ids, their log-probabilities under the logits as they came). numbers: `Sampling.numbers()`; without a temperature the
    likeliest tokens are taken, the first of equals. seen: the tokens of each text, for the penalty alone. Row b has a draw of its
    own, which does not depend on the other rows."""
    logits = logits.astype(jnp.float32)
    scores = logits
    if "repetition_penalty" in numbers and seen is not None:
        penalty = numbers["repetition_penalty"]
        scores = jnp.where(seen, jnp.where(scores > 0, scores / penalty, scores * penalty), scores)
    ids = jnp.argmax(scores, -1)
    if "temperature" in numbers:
        p = left(jax.nn.softmax((scores - scores.max(-1, keepdims=True)) / numbers["temperature"]), numbers)
        rows = jax.vmap(lambda row: jax.random.uniform(jax.random.fold_in(key, row)))(jnp.arange(len(logits)))
        ids = jnp.where((p > 0).any(-1), reached(p, rows), ids)
    chosen = jnp.take_along_axis(logits, ids[:, None], -1)[:, 0]
    return ids.astype(jnp.int32), chosen - jax.nn.logsumexp(logits, -1)


def left(p: Float[Array, "B V"], numbers: Mapping[str, Any]) -> Float[Array, "B V"]:
    """Probabilities with 0 for what is not to be drawn; they no longer sum to 1."""
    if "top_k" in numbers:
        p = jnp.where(likeliest(p, jnp.ones_like(p), numbers["top_k"]), p, 0)
    if "top_p" in numbers:
        p = jnp.where(likeliest(p, p, numbers["top_p"] * p.sum(-1, keepdims=True)), p, 0)
    if "min_p" in numbers:
        p = jnp.where(p >= numbers["min_p"] * p.max(-1, keepdims=True), p, 0)
    return p


def likeliest(p: Float[Array, "B V"], weight: Float[Array, "B V"], limit) -> Bool[Array, "B V"]:
    """Where the weights of all that is likelier add up to less than `limit`; always at the likeliest. Equals go together.

    Not by sorting, which takes a CPU 20 ms for 50,000 tokens: as an integer a float that is not negative has the same order, so
    the least probability that stays is found in 30 halvings, each one sum.
    """
    limit = jnp.maximum(limit, jnp.finfo(jnp.float32).tiny)

    def halve(_, bounds):
        low, high = bounds
        middle = low + (high - low) // 2
        above = p > jax.lax.bitcast_convert_type(middle, jnp.float32)
        enough = jnp.sum(jnp.where(above, weight, 0), -1, keepdims=True) < limit
        return jnp.where(enough, low, middle + 1), jnp.where(enough, middle, high)

    one = jax.lax.bitcast_convert_type(jnp.float32(1), jnp.int32)
    low = jnp.zeros((len(p), 1), jnp.int32)
    _, least = jax.lax.fori_loop(0, 30, halve, (low, low + one))
    return p >= jax.lax.bitcast_convert_type(least, jnp.float32)


def reached(p: Float[Array, "B V"], uniform: Float[Array, " B"]) -> Int[Array, " B"]:
    """The token at which the sum of probabilities passes a uniform number's share of the whole."""
    sums = jnp.cumsum(p, -1)
    return jnp.argmax((p > 0) & (sums > uniform[:, None] * sums[:, -1:]), -1)
