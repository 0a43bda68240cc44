"""`pullback generate` and `pullback eval`: folders and runs in, text and figures out, and what is refused."""

import io
import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pullback.experiments.cli import main
from pullback.experiments.evaluate import evaluate, sliding
from pullback.experiments.generate import lines_of, stream
from pullback.lib import bpe_files, bpe_train
from pullback.lib.bpe import BPE, END
from pullback.lib.characters import Bytes
from pullback.models import gpt2_weights
from pullback.models.decoding import Token
from pullback.models.gpt2 import GPT2, GPT2Config

TEXT = Path(__file__).read_text()


@pytest.fixture(scope="module")
def words():
    return bpe_train.train(TEXT, 300)


@pytest.fixture(scope="module")
def folder(words, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2")
    model = GPT2.init(jax.random.key(0), GPT2Config(vocab=words.vocabulary + 5, context=80, layers=2, heads=2, width=16))
    gpt2_weights.save(jax.tree.map(lambda x: 9 * x if x.ndim > 1 else x, model), folder)
    bpe_files.save(words, folder)
    return folder


def answer(capsys, *argv) -> dict:
    assert main([*map(str, argv), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys, *argv) -> str:
    assert main([*map(str, argv)]) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith("pullback: ") and err.count("\n") == 1
    return err


def test_a_folder_writes(folder, words, capsys):
    came = answer(capsys, "generate", folder, "--prompt", "The cat", "--tokens", 12, "--temperature", 0)
    [text] = came["texts"]
    assert text["prompt"] == "The cat" and len(text["ids"]) == len(text["logprobs"]) == 12 and max(text["logprobs"]) <= 0
    assert (
        text["text"] == words.decode([i for i in text["ids"] if i != words.specials[END]])
        and came["temperature"] == 0
        and came["tokens_per_s"] > 0
    )
    assert main(["generate", str(folder), "--prompt", "The cat", "--tokens", "12", "--temperature", "0"]) == 0
    assert capsys.readouterr().out == "The cat" + text["text"] + "\n"
    assert main(["generate", str(folder), "--prompt", "The cat", "--tokens", "12", "--temperature", "0", "--stream"]) == 0
    assert capsys.readouterr().out == "The cat" + text["text"] + "\n"


def test_prompts_of_a_file_and_of_standard_input(folder, capsys, tmp_path, monkeypatch):
    (tmp_path / "prompts.txt").write_text("The cat\n\nThe kettle sang.\n")
    came = answer(capsys, "generate", folder, "--file", tmp_path / "prompts.txt", "--tokens", 9, "--temperature", 0)
    given = lambda data: monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    given(b"The cat\nThe kettle sang.")
    assert answer(capsys, "generate", folder, "--file", "-", "--tokens", 9, "--temperature", 0)["texts"] == came["texts"]
    for text in came["texts"]:
        alone = answer(capsys, "generate", folder, "--prompt", text["prompt"], "--tokens", 9, "--temperature", 0)
        assert alone["texts"][0]["ids"] == text["ids"]
    for data, says in ((b"", "standard input has no prompt"), (b"caf\xe9", "standard input is not UTF-8: byte 0xe9 at offset 3")):
        given(data)
        assert says in refused(capsys, "generate", folder, "--file", "-")


def test_a_prompt_ends_where_its_line_does(tmp_path):
    (tmp_path / "prompts.txt").write_bytes("\ufeffone\x0ctwo\x85three\u2028four\x1cfive\rsix\r\n\r\nseven\n".encode())
    assert lines_of(str(tmp_path / "prompts.txt")) == ["one\x0ctwo\x85three\u2028four\x1cfive\rsix", "seven"]


def test_an_empty_prompt_begins_where_texts_begin(folder, words, capsys):
    [empty] = answer(capsys, "generate", folder, "--prompt", "", "--tokens", 5, "--temperature", 0)["texts"]
    model = gpt2_weights.load(folder)
    logits = model(jnp.asarray([[words.specials[END]]]))[0, -1, : words.vocabulary]
    assert empty["ids"][0] == int(jnp.argmax(logits))


def test_a_text_ends_at_its_stop(folder, words, capsys):
    [free] = answer(capsys, "generate", folder, "--prompt", "The", "--tokens", 40, "--seed", 3, "--temperature", 2)["texts"]
    stop = next(words.decode([i]) for i in free["ids"][3:] if "\ufffd" not in words.decode([i]))
    [text] = answer(capsys, "generate", folder, "--prompt", "The", "--tokens", 40, "--seed", 3, "--temperature", 2, "--stop", stop)["texts"]
    assert words.decode(text["ids"][-1:]) == stop and text["ids"] == free["ids"][: len(text["ids"])]


def test_as_many_tokens_as_there_is_room_for(folder, capsys):
    [text] = answer(capsys, "generate", folder, "--prompt", "The cat", "--temperature", 0, "--repetition-penalty", 1.3)["texts"]
    came = answer(capsys, "generate", folder, "--prompt", "The cat", "--tokens", 300, "--temperature", 0, "--window")
    assert 70 < len(text["ids"]) < 80 and len(came["texts"][0]["ids"]) <= 300


BAD = {
    "no prompt": (["FOLDER"], "expected --prompt TEXT or --file FILE"),
    "two prompts": (["FOLDER", "--prompt", "x", "--file", "y"], "expected --prompt TEXT or --file FILE"),
    "temperature": (["FOLDER", "--prompt", "x", "--temperature", "-1"], "temperature is -1.0; it must be from 0 to 1e+30"),
    "top_p below": (["FOLDER", "--prompt", "x", "--top-p", "-0.5"], "top_p is -0.5; it must be from 0 to 1"),
    "top_p above": (["FOLDER", "--prompt", "x", "--top-p", "1.5"], "top_p is 1.5; it must be from 0 to 1"),
    "top_k": (["FOLDER", "--prompt", "x", "--top-k", "0"], "top_k is 0; it must be from 1 to 2147483647"),
    "top_k above": (["FOLDER", "--prompt", "x", "--top-k", "301"], "top_k is 301; the vocabulary has 300 tokens"),
    "a long prompt": (["FOLDER", "--prompt", "x" * 100, "--tokens", "5"], "the prompt has 100 tokens, and the context of the model 80"),
    "too many tokens": (["FOLDER", "--prompt", "x", "--tokens", "81"], "ask for 80 or fewer, or let a window slide"),
    "no such folder": (["nowhere", "--prompt", "x"], "nowhere is no model: there is no config.json in it"),
    "an empty name": (["", "--prompt", "x"], "the name of the model is empty"),
    "no such file": (["FOLDER", "--file", "nowhere.txt"], "cannot read nowhere.txt: No such file"),
    "a stop of two": (["FOLDER", "--prompt", "x", "--stop", "xyz"], "stop is 'xyz', which is 3 tokens; expected one"),
    "a stream of JSON": (["FOLDER", "--prompt", "x", "--stream", "--json"], "leave --json and --file out"),
    "bytes that are no UTF-8": (["FOLDER", "--prompt", "a\udcffb"], "the text is not UTF-8: it has the byte 0xff at position 1"),
    "half a surrogate": (["FOLDER", "--prompt", "a\ud800b"], "half a surrogate pair at position 1"),
}


@pytest.mark.parametrize("argv, says", BAD.values(), ids=BAD)
def test_bad_input(argv, says, folder, capsys):
    assert says in refused(capsys, "generate", *[str(folder) if word == "FOLDER" else word for word in argv])


def test_a_vocabulary_that_the_model_has_no_room_for(folder, capsys, tmp_path):
    bpe_files.save(bpe_train.train(TEXT, 320), tmp_path)
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).symlink_to(folder / name)
    assert "has 320 tokens and the model 305" in refused(capsys, "generate", tmp_path, "--prompt", "x")
    for name in ("vocab.json", "merges.txt", "tokenizer.json"):
        (tmp_path / name).unlink()
    assert "has no vocabulary" in refused(capsys, "generate", tmp_path, "--prompt", "x")


def test_a_folder_without_a_vocabulary_has_that_of_gpt2(tmp_path, capsys):
    gpt2_weights.save(GPT2.init(jax.random.key(0), GPT2Config(vocab=50304, context=8, layers=1, heads=1, width=4)), tmp_path)
    [text] = answer(capsys, "generate", tmp_path, "--prompt", "Hello world", "--tokens", 4)["texts"]
    assert text["text"] == BPE.gpt2().decode(text["ids"]) and max(text["ids"]) < 50257


def test_a_stream_never_shows_half_a_character(capsys):
    pieces = []

    def tokens():
        for byte in "é你\U0001f600!".encode() + b"\xe4":
            yield Token(np.array([byte]), np.zeros(1), np.ones(1, bool))
            pieces.append(capsys.readouterr().out)

    assert stream("> ", tokens(), Bytes()) == 0
    assert [piece for piece in pieces if piece] == ["> ", "é", "你", "\U0001f600", "!"]
    assert capsys.readouterr().out == "\ufffd\n"


def test_eval_counts_each_token_once():
    ids = np.arange(1, 38, dtype=np.int32)
    for window, stride in ((5, 1), (5, 4), (8, 3), (64, 9), (2, 1), (37, 5), (36, 1)):
        targets = []
        for one in sliding(ids, window, stride, 3):
            assert ((one.targets - one.inputs)[one.weights > 0] == 1).all()
            targets += one.targets[one.weights > 0].tolist()
        assert targets == list(range(2, 38)), (window, stride)


def test_a_batch_has_no_more_rows_than_there_are_windows():
    [one] = sliding(np.arange(9, dtype=np.int32), 16, 8, 2**31 - 1)
    assert one.inputs.shape == (1, 8) and one.weights.all()


def test_eval_is_the_mean_over_tokens_of_what_a_window_says(folder, words, capsys, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT[:400])
    ids, model = words.encode(TEXT[:400]), gpt2_weights.load(folder)
    window, stride, total, done = 16, 6, 0.0, 1
    for start in range(0, len(ids), stride):  # one window after the other
        there = ids[start : start + window]
        logp = jax.nn.log_softmax(model(jnp.asarray(there[None, :-1]))[0])
        for place in range(max(done - start, 1), len(there)):
            total -= float(logp[place - 1, there[place]])
        done = start + len(there)
        if done == len(ids):
            break
    came = answer(capsys, "eval", folder, tmp_path / "text.txt", "--window", 16, "--stride", 6)
    assert came["tokens"] == len(ids) - 1 and came["loss"] == pytest.approx(total / (len(ids) - 1), rel=1e-5)
    assert came["perplexity"] == pytest.approx(math.exp(came["loss"]))
    assert evaluate(model, ids, 16, 6, batch=1).loss == pytest.approx(came["loss"], rel=1e-6)
    assert main(["eval", str(folder), str(tmp_path / "text.txt")]) == 0
    assert capsys.readouterr().out.startswith("perplexity ")


@pytest.mark.parametrize(
    "argv, says",
    [
        (["--window", "81"], "window is 81; it must be from 2 to 80"),
        (["--window", "1"], "window is 1"),
        (["--window", "10", "--stride", "10"], "stride is 10; it must be from 1 to 9"),
        (["--stride", "0"], "stride is 0"),
        (["--batch", "0"], "batch is 0"),
    ],
)
def test_windows_that_will_not_do(argv, says, folder, tmp_path, capsys):
    (tmp_path / "text.txt").write_text(TEXT)
    assert says in refused(capsys, "eval", folder, tmp_path / "text.txt", *argv)


def test_a_text_of_one_token(folder, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("x")
    assert "the text has 1 tokens; expected at least 2" in refused(capsys, "eval", folder, tmp_path / "text.txt")
