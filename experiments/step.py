"""One update of the weights, and one look at validation text, each as one compiled program."""

import fnmatch
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int

from .. import nn, ops
from ..autograd import Compiled, compile, keys, scope, value_and_grad
from ..lib.errors import UnknownName, near
from ..lib.tokens import windows
from ..models.gpt2 import GPT2
from .config import RunConfig

Params = dict[str, Array]


class State(NamedTuple):
    """What a step changes: the weights by name, those that stay as they are among them, the optimiser's state of the others, and
    in float16 the loss scale."""

    params: Params
    optimiser: Any
    scale: nn.LossScale | None = None


class Measured(NamedTuple):
    """What a step says of itself: the loss before its update, the norm of its gradients before clipping, the learning rate and,
    in float16, the loss scale that it was taken with."""

    loss: Float[Array, ""]
    grad_norm: Float[Array, ""]
    lr: Float[Array, ""]
    scale: Float[Array, ""] | None = None


def template_of(config: RunConfig) -> GPT2:
    """The model with shapes in place of arrays: what a program needs to know of it, and no memory."""
    return jax.eval_shape(lambda key: GPT2.init(key, config.model), jax.random.key(0))


def first_params(config: RunConfig) -> Params:
    """Weights from the run's seed. Not compiled as one: layers share small programs."""
    return nn.named_parameters(GPT2.init(jax.random.key(config.seed), config.model))


def first_state(config: RunConfig, params: Params | None = None) -> State:
    """These weights, or those of the run's seed, and an optimiser that has seen nothing."""
    if params is None:
        params = first_params(config)
    scale = config.loss_scale.init() if config.precision == "float16" else None
    return State(params, optimiser_of(config, jnp.float32(0)).init(trained(config, params)), scale)


def trained(config: RunConfig, params: Params) -> Params:
    """The weights that a step changes: all of them, or those whose names a pattern of `trainable` matches."""
    if config.trainable is None:
        return params
    chosen: set[str] = set()
    for pattern in config.trainable.split(","):
        found = fnmatch.filter(params, pattern.strip())
        if not found:
            raise UnknownName(f"trainable: no parameter matches {pattern.strip()!r}" + near(pattern.strip(), params))
        chosen.update(found)
    return {name: x for name, x in params.items() if name in chosen}


def schedule_of(config: RunConfig) -> nn.Schedule:
    """Step, counted from 0, to learning rate."""
    s, steps = config.schedule, config.schedule_length
    warmup = min(s.warmup, steps // 2)
    first = s.peak / (warmup + 1)
    if s.kind == "constant":
        return nn.warmup_constant_schedule(first, s.peak, warmup)
    if s.kind == "linear":
        return nn.warmup_linear_decay_schedule(first, s.peak, warmup, steps, s.end)
    return nn.warmup_cosine_decay_schedule(first, s.peak, warmup, steps, s.end)


def optimiser_of(config: RunConfig, learning_rate) -> nn.Optimiser:
    """AdamW after clipping. The learning rate may be traced: it is the one setting that changes from step to step."""
    o = config.optimiser
    adamw = nn.adamw(learning_rate, o.b1, o.b2, o.eps, o.weight_decay, mask=nn.matrices)
    return nn.chain(nn.clip_by_global_norm(o.clip), adamw) if o.clip else adamw


def training_step(config: RunConfig, options: Mapping[str, Any] = MappingProxyType({})) -> Compiled:
    """`step(state, number, inputs, targets, weights=None) -> (state, measured)`; the state that it is given is used up.

    number: of the step, from 0; with the run's seed it decides what dropout drops. inputs, targets: int32 (B, T); weights of 0
    leave targets out. A step in float16 whose gradients are not all finite changes only the loss scale: to the optimiser and to
    the schedule it was none. options: of XLA.
    """
    template, schedule = template_of(config), schedule_of(config)

    def step(state: State, number, inputs: Int[Array, "B T"], targets: Int[Array, "B T"], weights: Float[Array, "B T"] | None = None):
        changing = trained(config, state.params)

        def of_part(first, inputs, targets, weights):
            def loss_of(changing):
                loss = nn.with_parameters(template, {**state.params, **changing}).loss(inputs, targets, weights, train=True)
                return loss if state.scale is None else ops.mul(loss, state.scale.scale)

            with keys(config.seed, number, first):
                return value_and_grad(loss_of)(changing), targets.size if weights is None else jnp.sum(weights)

        loss, grads = nn.accumulate(of_part, config.accumulate, inputs, targets, weights)
        with scope("update"):
            return updated(state, number, changing, loss, grads)

    def updated(state: State, number, changing: Params, loss, grads: Params) -> tuple[State, Measured]:
        """What the gradients of `changing` make of the state."""
        done = number  # updates so far
        if state.scale is not None:
            (loss, grads), done = nn.unscaled((loss, grads), state.scale), number - state.scale.skipped
        rate = schedule(done)
        updates, optimiser = optimiser_of(config, rate).update(grads, state.optimiser, changing)
        new = State({**state.params, **nn.apply_updates(changing, updates)}, optimiser)
        measured = Measured(loss, nn.global_norm(grads), jnp.float32(rate))
        if state.scale is None:
            return new, measured
        finite, old = nn.all_finite(grads), state._replace(scale=None)
        return nn.kept(finite, new, old)._replace(scale=config.loss_scale.update(state.scale, finite)), measured._replace(
            scale=state.scale.scale
        )

    return compile(step, donate=0, options=options)


def validation(config: RunConfig, tokens: Int[np.ndarray, " N"], options: Mapping[str, Any] = MappingProxyType({})) -> Callable[..., float]:
    """`evaluate(params, batches=None)`: mean loss over the split, consecutive windows of one context, each target once.

    batches: look at no more than about so many batches, spread evenly; `None` is all of them.
    """
    template = template_of(config)
    batch_loss = compile(lambda params, *batch: nn.with_parameters(template, params).loss(*batch), options=options)
    count = -(-(len(tokens) - 1) // config.tokens_per_step)

    def evaluate(params: Params, batches: int | None = None) -> float:
        every = 1 if batches is None else max(1, count // batches)
        total, weight = [], 0.0
        for i, window in enumerate(windows(tokens, config.window, config.batch)):
            if i % every == 0:
                n = float(window.weights.sum())
                total.append((batch_loss(params, *window), n))  # not waited for: the device has the next one already
                weight += n
        return sum(float(loss) * n for loss, n in total) / weight

    return evaluate
