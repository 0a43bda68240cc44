"""Rival: one GPT-2 training step in PyTorch on the CPU, float32, fused AdamW, eager or under `torch.compile`.

usage: python torch_gpt2.py [--mode eager|compile] [--shape gpt2-124m|shakespeare-char] [--batch 4 --time 64 ...]     needs: torch
"""
# pyright: reportMissingImports=false

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from recipe import Recipe, from_command_line, run, tokens, weights


class Block(nn.Module):
    def __init__(self, recipe: Recipe):
        super().__init__()
        C, bias = recipe.width, recipe.bias
        self.heads = recipe.heads
        self.ln1, self.ln2 = nn.LayerNorm(C, bias=bias), nn.LayerNorm(C, bias=bias)
        self.qkv, self.proj = nn.Linear(C, 3 * C, bias=bias), nn.Linear(C, C, bias=bias)
        self.fc, self.out = nn.Linear(C, 4 * C, bias=bias), nn.Linear(4 * C, C, bias=bias)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in self.qkv(self.ln1(x)).split(C, 2))
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, C))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, recipe: Recipe):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(recipe.vocab, recipe.width), nn.Embedding(recipe.context, recipe.width)
        self.h = nn.ModuleList(Block(recipe) for _ in range(recipe.layers))
        self.lnf = nn.LayerNorm(recipe.width, bias=recipe.bias)

    def forward(self, x, y):
        h = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
        for block in self.h:
            h = block(h)
        return F.cross_entropy(F.linear(self.lnf(h), self.wte.weight).flatten(0, 1), y.flatten())


@torch.no_grad()
def load(model: GPT2, values: dict[str, Any]) -> None:
    """Give the model the weights that the other rivals start from; theirs are (in, out)."""

    def put(layer: nn.Module, pair: tuple) -> None:
        for target, value in zip((layer.weight, layer.bias), pair):
            if value is not None:
                target.copy_(torch.tensor(value.T))  # type: ignore[union-attr, operator]

    model.wte.weight.copy_(torch.tensor(values["wte"]))
    model.wpe.weight.copy_(torch.tensor(values["wpe"]))
    put(model.lnf, values["lnf"])
    for block, pairs in zip(model.h, values["h"]):
        for name, pair in pairs.items():
            put(getattr(block, name), pair)


def optimiser_of(model: GPT2, recipe: Recipe) -> torch.optim.Optimizer:
    """Fused AdamW; of the parameters only matrices decay."""
    matrices, vectors = ([p for p in model.parameters() if (p.dim() > 1) == wide] for wide in (True, False))
    groups = [dict(params=matrices, weight_decay=recipe.decay), dict(params=vectors, weight_decay=0.0)]
    return torch.optim.AdamW(groups, lr=recipe.lr, betas=(recipe.b1, recipe.b2), eps=recipe.eps, fused=True)


def train(model: GPT2, forward: Callable, optimiser: torch.optim.Optimizer, x, y, recipe: Recipe) -> float:
    """One step; the loss before it."""
    optimiser.zero_grad(set_to_none=True)
    loss = forward(x, y)
    loss.backward()
    if recipe.clip:
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
    optimiser.step()
    return loss.item()


if __name__ == "__main__":
    recipe, given = from_command_line(__doc__ or "", extra=(("--mode", dict(choices=("eager", "compile"), default="eager")),))
    model = GPT2(recipe)
    load(model, weights(recipe))
    optimiser = optimiser_of(model, recipe)
    x, y = (torch.from_numpy(ids).long() for ids in tokens(recipe))
    forward, started = model, time.perf_counter()
    if given.mode == "compile":
        forward = torch.compile(model)
        forward(x, y).backward()  # compiles
    cost = dict(compile_s=time.perf_counter() - started, temp_bytes=None, threads=torch.get_num_threads())
    run(f"torch-{given.mode}", recipe, lambda _: train(model, forward, optimiser, x, y, recipe), dict(torch=torch.__version__), **cost)
