"""Rival: how often `torch.autograd.gradcheck`, fast and slow, with its defaults, rejects a right and several wrong derivatives.

usage: python gradcheck.py [--seeds 100]
"""

import argparse
import json
import math

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

N = 100  # elements
OFF = 37  # the element that is off


def with_slope(f, slope):
    """f whose derivative is said to be `slope(x)`."""

    class Wrapped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return f(x)

        @staticmethod
        def backward(ctx, y_bar):
            return y_bar * slope(*ctx.saved_tensors)

    return Wrapped.apply


def one_off(x):
    slope = 1 - torch.tanh(x) ** 2
    slope[OFF] *= 1 + 1e-5
    return slope


def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


def gelu_slope(x):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad(gelu(x).sum(), x)[0]


def erf_slope(x):
    return 0.5 * (1 + torch.erf(x / math.sqrt(2))) + x * torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


SUBJECTS = {
    "right": (torch.tanh, lambda x: 1 - torch.tanh(x) ** 2),
    "uniform 1e-6": (torch.tanh, lambda x: (1 - torch.tanh(x) ** 2) * (1 + 1e-6)),
    "one element 1e-5": (torch.tanh, one_off),
    "gelu, right": (gelu, gelu_slope),
    "gelu, erf slope": (gelu, erf_slope),
}


def rejected(f, slope, fast: bool, seeds: int) -> int:
    """In float64, as its documentation asks."""
    count, wrapped = 0, with_slope(f, slope)
    for seed in range(seeds):
        torch.manual_seed(seed)
        x = torch.tensor(np.random.default_rng(1000 + seed).normal(size=N), requires_grad=True)
        count += not torch.autograd.gradcheck(wrapped, (x,), fast_mode=fast, raise_exception=False)
    return count


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=100)
    seeds = parser.parse_args().seeds
    modes = {"fast": True, "slow": False}
    print(
        json.dumps({mode: {name: rejected(f, slope, fast, seeds) for name, (f, slope) in SUBJECTS.items()} for mode, fast in modes.items()})
    )
