"""Hugging Face transformers' `generate` on the CPU, in float32.

usage: python transformers_gpt2.py FOLDER
"""

# pyright: reportMissingImports=false

from pathlib import Path

import numpy as np
import torch
from transformers import GPT2LMHeadModel
from writing import run


def load(folder: Path) -> GPT2LMHeadModel:
    return GPT2LMHeadModel.from_pretrained(folder).eval()


@torch.inference_mode()
def write(model, prompts: np.ndarray, tokens: int) -> np.ndarray:
    ids = torch.from_numpy(prompts).long()
    settings = dict(max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=50256)
    return model.generate(ids, attention_mask=torch.ones_like(ids), **settings)[:, ids.shape[1] :].numpy()


if __name__ == "__main__":
    run(load, write)
