"""The precision policy at the door of a layer."""

from typing import Any

import jax.numpy as jnp

from ..lib.precision import policy
from ..ops import cast


def to_compute(x) -> Any:
    """A float32 array in the dtype that the policy computes in; under `float32` there is nothing to do and nothing is recorded.

    Only float32 is cast: float64 stays what it is (checks need it), and so does what is narrow already. `None` stays `None`.
    """
    compute = policy().compute
    if compute == "float32" or x is None or x.dtype != jnp.float32:
        return x
    return cast(x, dtype=compute)
