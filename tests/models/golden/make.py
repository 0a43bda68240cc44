"""Makes the golden files beside this script with torch and transformers: python tests/models/golden/make.py

A random GPT-2 of theirs in their folder, and expected.npz with what torch computes of it: logits, the loss and its gradients under
their names, ten losses under AdamW, and a greedy text.
"""

# pyright: reportMissingImports=false

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

HERE = Path(__file__).parent


def main() -> None:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=37,
        n_positions=24,
        n_layer=2,
        n_head=3,
        n_embd=12,
        attn_pdrop=0,
        resid_pdrop=0,
        embd_pdrop=0,
        bos_token_id=0,
        eos_token_id=0,
    )
    model: Any = transformers.GPT2LMHeadModel(config).eval()
    model.generation_config.eos_token_id = None  # a text ends at no token
    with torch.no_grad():
        for x in model.parameters():
            x.add_(torch.randn(x.shape) * 0.3)
    model.save_pretrained(HERE)
    (HERE / "generation_config.json").unlink(missing_ok=True)
    ids = torch.randint(0, 37, (2, 17))

    def loss_of():
        return torch.nn.functional.cross_entropy(model(ids[:, :-1]).logits.flatten(0, 1), ids[:, 1:].flatten())

    logits = model(ids[:, :-1]).logits.detach().numpy()
    text = model.generate(ids[:1, :4], attention_mask=torch.ones(1, 4), max_new_tokens=20, do_sample=False, pad_token_id=0)
    loss_of().backward()
    gradients = {f"gradient.{name.removeprefix('transformer.')}": x.grad.numpy().copy() for name, x in model.named_parameters()}
    parameters = list(model.parameters())
    groups = [{"params": [x for x in parameters if (x.dim() > 1) == matrix], "weight_decay": 0.1 * matrix} for matrix in (True, False)]
    optimiser, losses = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), eps=1e-8), []
    for _ in range(10):
        optimiser.zero_grad()
        loss = loss_of()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    expected: dict[str, Any] = dict(ids=ids.numpy(), logits=logits, text=text[0].numpy(), losses=np.array(losses), **gradients)
    np.savez_compressed(HERE / "expected.npz", **expected)


if __name__ == "__main__":
    main()
