"""Functions with a bend: relu, leaky_relu, elu and clip. Each text says what the slope is at the bend."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .arithmetic import exp, maximum, minimum, mul
from .op import primitive
from .selection import greater, less, where
from .shape import unbroadcast


@primitive(saves=("out",))
def relu(x: Float[Array, "..."]):
    """y = max(x, 0);   x̄ = ȳ where y > 0, else 0. At the bend 0, the smallest of its subgradients."""
    return jnp.maximum(x, 0)


@relu.rule
def relu_backward(res, y_bar):
    return (where(greater(res.out, 0), y_bar, 0.0),)


@primitive(saves=("x",))
def leaky_relu(x: Float[Array, "..."], *, negative_slope: float = 0.01):
    """y = x where x > 0, else negative_slope·x;   x̄ = ȳ or negative_slope·ȳ likewise. At the bend the slope of the left side."""
    return jnp.where(x > 0, x, negative_slope * x)


@leaky_relu.rule
def leaky_relu_backward(res, y_bar, *, negative_slope):
    return (where(greater(res.x, 0), y_bar, mul(negative_slope, y_bar)),)


@primitive(saves=("x",))
def elu(x: Float[Array, "..."], *, alpha: float = 1.0):
    """y = x where x > 0, else α·(eˣ − 1);   x̄ = ȳ where x > 0, else ȳ·α·eˣ.

    At 0 the slope of the left side, α; for α = 1 there is no bend.        Clevert et al. 2016, arXiv 1511.07289, eq. 15
    """
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.minimum(x, 0)))


@elu.rule
def elu_backward(res, y_bar, *, alpha):
    steep = where(greater(res.x, 0), y_bar, mul(alpha, y_bar))
    return (mul(steep, exp(minimum(res.x, 0.0))),)


@primitive(saves=("x", "min", "max"))
def clip(x: Float[Array, "..."], min: Float[Array, "..."] | None = None, max: Float[Array, "..."] | None = None):
    """y = x held to min … max; `None` is no bound, and max wins where the two cross. NaN stays NaN.

    x̄ = ȳ where min ≤ x ≤ max, at both bounds too, else 0;   each bound gets the ȳ of the elements that it holds.
    """
    y = x if min is None else jnp.maximum(x, min)
    return y if max is None else jnp.minimum(y, max)


@clip.rule
def clip_backward(res, y_bar):
    # y = min(max(x, low), high): first past high, then past low
    x, low, high = res.x, res.min, res.max
    y_bar, max_bar = parted(y_bar, x if low is None else maximum(x, low), high, greater)
    x_bar, min_bar = parted(y_bar, x, low, less)
    return x_bar, min_bar, max_bar


def parted(y_bar, x, bound, beyond):
    """ȳ to the bound where x is beyond it, else to x: (x̄, cotangent of the bound). Written in ops."""
    if bound is None:
        return y_bar, None
    held = beyond(x, bound)
    return unbroadcast(where(held, 0.0, y_bar), x), unbroadcast(where(held, y_bar, 0.0), bound)
