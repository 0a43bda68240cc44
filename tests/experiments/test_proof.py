"""The long proofs leave what came of them, and one that fails leaves nothing."""

import json

import pytest

from pullback.experiments import proof
from pullback.lib.errors import ConfigError, UnknownName


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty repository with proofs that take no time."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path)
    printed = 'python -c "import json; print(1); print(json.dumps(dict(summary=dict(score=1.0), rows=[1, 2])))"'
    monkeypatch.setattr(proof, "PROOFS", {"json": printed, "text": "echo 3 passed", "broken": "echo 1 failed; exit 1", "silent": "true"})
    return tmp_path


def test_a_summary_is_kept_or_the_last_line(root):
    assert proof.main(["json", "text"]) == 0
    proofs = json.loads((root / "docs/proof.json").read_text())
    assert {name: one["figures"] for name, one in proofs.items()} == {"json": {"score": 1.0}, "text": "3 passed"}
    assert proofs["text"]["command"] == "echo 3 passed" and proofs["text"]["seconds"] == 0


@pytest.mark.parametrize("name, said", [("broken", "code 1: 1 failed"), ("silent", "it said nothing")])
def test_one_that_fails_leaves_the_others_as_they_were(root, name, said):
    proof.main(["text"])
    before = (root / "docs/proof.json").read_text()
    with pytest.raises(ConfigError, match=said):
        proof.main([name])
    assert (root / "docs/proof.json").read_text() == before


def test_names_and_places(root, monkeypatch):
    with pytest.raises(UnknownName, match="no proof 'jsn'.*json"):
        proof.main(["jsn"])
    monkeypatch.chdir(root / "docs")
    with pytest.raises(ConfigError, match="root of the repository"):
        proof.main(["text"])
