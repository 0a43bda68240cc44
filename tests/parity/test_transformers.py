"""Ours against transformers: logits, blocks, greedy texts, gradients, losses in a row, and folders both ways."""

# pyright: reportMissingImports=false

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback import nn
from pullback.autograd import compile, value_and_grad
from pullback.experiments.evaluate import evaluate
from pullback.lib import bpe_files, bpe_train
from pullback.lib.bpe import BPE
from pullback.lib.precision import precision
from pullback.models import gpt2_weights
from pullback.models.decoding import Decoder
from pullback.models.sampling import Sampling

torch = pytest.importorskip("torch", reason="torch is not installed: nothing to compare with (make parity)")


def ids_for(pair, rows: int, length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, pair.ours.config.vocab, (rows, min(length, pair.ours.config.context)))


def their_logits(pair, ids) -> np.ndarray:
    with torch.no_grad():
        return pair.theirs(torch.from_numpy(np.asarray(ids, np.int64))).logits.numpy()


@pytest.fixture(params=["full", "trained"])
def real(request):
    return request.getfixturevalue(request.param)


def compare_logits(pair, figures) -> None:
    """Block after block; the first output that differs is named."""
    ids = ids_for(pair, 2, 64)
    with torch.no_grad():
        out = pair.theirs(torch.from_numpy(ids), output_hidden_states=True)
    h = pair.ours.wte(jnp.asarray(ids)) + pair.ours.wpe.rows(ids.shape[1])
    states = [("embeddings", h)]
    for i, block in enumerate(pair.ours.blocks):
        h = block(h)
        states.append((f"blocks.{i}", h))
    states[-1] = "ln", pair.ours.ln(h)  # theirs lists the last one normalised
    for (name, ours), theirs in zip(states, out.hidden_states, strict=True):
        gap = np.abs(np.asarray(ours) - theirs.numpy()).max()
        assert gap <= 2e-4, f"{pair.name}: {name} is the first to differ, by {gap}"
    gap = np.abs(np.asarray(pair.ours(jnp.asarray(ids))) - out.logits.numpy()).max()
    assert figures.largest("logit_gap", gap) <= 2e-4


def test_logits(real, figures):
    compare_logits(real, figures)


def test_logits_of_odd_models(odd, figures):
    compare_logits(odd, figures)


def compare_texts(pair, figures, rows: int, tokens: int) -> None:
    """Token for token what `generate` writes; the margin is the least lead of a chosen token over the next, in logits."""
    context = pair.ours.config.context
    prompts = ids_for(pair, rows, max(1, min(16, context - tokens)), seed=1)
    tokens = min(tokens, context - prompts.shape[1])
    settings = dict(max_new_tokens=tokens, do_sample=False, pad_token_id=0)
    with torch.no_grad():
        there = torch.from_numpy(prompts)
        written = pair.theirs.generate(there, attention_mask=torch.ones_like(there), **settings).numpy()
    texts = Decoder(pair.ours, Sampling(temperature=0)).write(list(prompts), tokens)
    for row, text in zip(written, texts):
        logits = their_logits(pair, row[None, :-1])[0, prompts.shape[1] - 1 :]
        best = np.sort(logits, -1)
        lead = best[:, -1] - best[:, -2]
        apart = np.flatnonzero(row[prompts.shape[1] :] != text.ids)
        assert not len(apart), f"{pair.name}: token {apart[0]} of {tokens} differs, where the margin is {lead[apart[0]]}"
        figures.smallest("smallest_margin", lead.min())
    figures.count("tokens_compared", rows * tokens)


def test_texts(real, figures, short):
    compare_texts(real, figures, 3 if short else 8, 64 if short else 256)


def test_texts_of_odd_models(odd, figures, short):
    compare_texts(odd, figures, 3 if short else 8, 64 if short else 256)


def test_a_long_text_is_the_argmax_of_one_forward(real, figures):
    """1,000 tokens from the cache, or as many as the context has room for, against one pass over all of them."""
    tokens = min(1000, real.ours.config.context - 1)
    [text] = Decoder(real.ours, Sampling(temperature=0)).write([[7]], tokens)
    logits = np.asarray(jax.jit(lambda ids: real.ours(ids))(jnp.asarray([[7, *text.ids[:-1]]]))[0])
    np.testing.assert_array_equal(text.ids, logits.argmax(-1))
    figures.count("tokens_teacher_forced", tokens)


def test_a_prompt_split_at_every_boundary(real):
    compare_split(real)


def test_a_prompt_split_at_every_boundary_for_odd_models(odd):
    compare_split(odd)


def compare_split(pair) -> None:
    """Both parts are read with room for the whole, as prompts are whose lengths share a program; what fills the first part up is
    written over by the second."""
    n = min(64, pair.ours.config.context // 2)
    ids = ids_for(pair, 1, n, seed=3)
    extend = jax.jit(lambda ids, cache, start: pair.ours.extend(ids, cache, start))
    features = lambda ids, cache, start: extend(jnp.asarray(np.pad(ids, ((0, 0), (0, n - ids.shape[1])))), cache, jnp.array([start]))
    head = jax.jit(lambda h: pair.ours.logits(h).argmax(-1))
    room = pair.ours.cache(1, 2 * n)
    whole = np.asarray(head(features(ids, room, 0)[0]))
    for cut in range(1, n):
        first, cache = features(ids[:, :cut], room, 0)
        second, _ = features(ids[:, cut:], cache, cut)
        np.testing.assert_array_equal(head(jnp.concatenate([first[:, :cut], second[:, : n - cut]], 1)), whole)


def their_gradients(pair, inputs, targets) -> tuple[float, dict[str, np.ndarray]]:
    """Under our names, turned as ours are."""
    pair.theirs.zero_grad()
    logits = pair.theirs(torch.from_numpy(inputs)).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(targets).flatten())
    loss.backward()
    theirs = {name.removeprefix("transformer."): x.grad.numpy() for name, x in pair.theirs.named_parameters()}
    found = {}
    for name in nn.named_parameters(pair.ours):
        x = theirs[gpt2_weights.theirs(name)]
        found[name] = x.T if gpt2_weights.is_turned(name) else x
    return loss.item(), found


def gap(ours, theirs) -> float:
    return float(np.linalg.norm(np.asarray(ours, np.float64) - theirs) / np.linalg.norm(theirs))


def compare_gradients(pair, figures) -> None:
    """‖difference‖/‖reference‖ of every parameter."""
    ids = ids_for(pair, 2, 65, seed=4)
    loss, theirs = their_gradients(pair, ids[:, :-1], ids[:, 1:])
    ours_loss, ours = compile(lambda model, x, y: value_and_grad(lambda model: model.loss(x, y))(model))(pair.ours, ids[:, :-1], ids[:, 1:])
    assert float(ours_loss) == pytest.approx(loss, rel=1e-5)
    assert ours.keys() == theirs.keys()
    worst = max(ours, key=lambda name: gap(ours[name], theirs[name]))
    assert figures.largest("gradient_gap", gap(ours[worst], theirs[worst])) <= 1e-5, worst


def test_gradients(real, figures):
    compare_gradients(real, figures)


def test_gradients_of_odd_models(odd, figures):
    compare_gradients(odd, figures)


def test_gradients_in_bfloat16(trained, figures):
    """Each of the 12·L + 2 products and casts between a weight and the loss rounds to 8 bits, a relative 2⁻⁹ each time, as often as
    not in other directions: √(12·L + 2)·2⁻⁹ for a whole gradient, and four times that for the worst parameter."""
    ids = ids_for(trained, 4, 65, seed=4)
    _, theirs = their_gradients(trained, ids[:, :-1], ids[:, 1:])
    with precision("bfloat16"):
        _, ours = compile(lambda model, x, y: value_and_grad(lambda model: model.loss(x, y))(model))(trained.ours, ids[:, :-1], ids[:, 1:])
    bound = np.sqrt(12 * trained.ours.config.layers + 2) * 2.0**-9
    whole = lambda grads: np.concatenate([np.ravel(np.asarray(grads[name], np.float64)) for name in theirs])
    assert figures.largest("bfloat16_gradient_gap", gap(whole(ours), whole(theirs))) <= bound
    for name in theirs:
        assert gap(ours[name], theirs[name]) <= 4 * bound, name


def test_ten_losses_in_a_row(real, figures):
    """AdamW, decay on matrices alone, from the same weights on the same tokens."""
    named = dict(real.theirs.named_parameters())
    before = {name: x.detach().clone() for name, x in named.items()}
    groups = [
        {"params": [x for x in named.values() if x.dim() > 1], "weight_decay": 0.1},
        {"params": [x for x in named.values() if x.dim() < 2], "weight_decay": 0.0},
    ]
    their_optimiser = torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), eps=1e-8)
    optimiser = nn.adamw(3e-4, 0.9, 0.95, 1e-8, 0.1, mask=nn.matrices)
    params = nn.named_parameters(real.ours)
    state = optimiser.init(params)

    def step(params, state, x, y):
        loss, grads = value_and_grad(lambda model: model.loss(x, y))(nn.with_parameters(real.ours, params))
        updates, state = optimiser.update(grads, state, params)
        return nn.apply_updates(params, updates), state, loss

    step = compile(step)
    try:
        for i in range(10):
            ids = ids_for(real, 2, 33, seed=i)
            theirs, _ = their_gradients(real, ids[:, :-1], ids[:, 1:])
            their_optimiser.step()
            params, state, ours = step(params, state, ids[:, :-1], ids[:, 1:])
            assert figures.largest("loss_gap", abs(float(ours) - theirs) / theirs) <= 1e-5, i
    finally:
        with torch.no_grad():
            for name, x in named.items():
                x.copy_(before[name])


def test_a_folder_of_ours_is_read_by_them(real, tmp_path):
    compare_saved(real, tmp_path)


def test_a_folder_of_ours_is_read_by_them_for_odd_models(odd, tmp_path):
    compare_saved(odd, tmp_path)


def compare_saved(pair, folder) -> None:
    import transformers

    gpt2_weights.save(pair.ours, folder)
    again = pair._replace(theirs=transformers.GPT2LMHeadModel.from_pretrained(folder).eval())
    ids = ids_for(pair, 2, 24, seed=5)
    np.testing.assert_array_equal(their_logits(again, ids), their_logits(pair, ids))


def test_narrow_files_and_shards_of_theirs(sharded):
    assert (sharded.folder / "model.safetensors.index.json").is_file()
    ours, came = nn.named_parameters(sharded.ours), nn.named_parameters(gpt2_weights.load(sharded.folder))
    for name, x in came.items():
        np.testing.assert_array_equal(x, ours[name].astype(jnp.bfloat16).astype(jnp.float32))


def test_perplexity_of_a_sliding_window(trained, corpus):
    """The sum that transformers' documentation makes, with each token counted once."""
    ids = np.frombuffer(corpus[5000:6200].encode(), np.uint8).astype(np.int32)
    window, stride, total, done = 320, 150, 0.0, 1
    for start in range(0, len(ids), stride):
        there = ids[start : start + window]
        logits = torch.from_numpy(their_logits(trained, there[None]))[0, :-1]
        losses = torch.nn.functional.cross_entropy(logits, torch.from_numpy(there[1:].astype(np.int64)), reduction="none").double()
        total += float(losses[max(done - start, 1) - 1 :].sum())
        done = start + len(there)
        if done == len(ids):
            break
    assert evaluate(trained.ours, ids, window, stride).loss == pytest.approx(total / (len(ids) - 1), rel=1e-5)


def test_a_vocabulary_of_ours_is_read_by_tokenizers(tmp_path, corpus, figures):
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed: its reading of our files is not compared")
    text = corpus[:200_000]
    for i, bpe in enumerate((BPE.gpt2(), bpe_train.train(text, 1000))):
        folder = tmp_path / str(i)
        folder.mkdir()
        bpe_files.save(bpe, folder)
        theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        ids = bpe.encode(text).tolist()
        assert theirs.encode(text).ids == ids
        figures.count("tokens_of_tokenizers", len(ids))


def test_the_walk_of_a_frozen_model_is_theirs(trained):
    """Gradients of some parameters alone are those of all, restricted."""
    ids = ids_for(trained, 2, 33, seed=6)
    _, theirs = their_gradients(trained, ids[:, :-1], ids[:, 1:])
    every, x, y = nn.named_parameters(trained.ours), jnp.asarray(ids[:, :-1]), jnp.asarray(ids[:, 1:])
    chosen = {name: p for name, p in every.items() if name.startswith("blocks.2.")}
    loss_of = lambda some: nn.with_parameters(trained.ours, {**every, **some}).loss(x, y)
    _, ours = compile(lambda some: value_and_grad(loss_of)(some))(chosen)
    for name, x in ours.items():
        assert gap(x, theirs[name]) <= 1e-5, name
