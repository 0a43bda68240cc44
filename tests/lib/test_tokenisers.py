"""Kinds of tokenisers, and their names."""

import pytest

from pullback.lib.tokenisers import KINDS, from_json, kind_of, tokeniser


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokeniser_knows_its_kind_also_when_it_was_stored(kind):
    words = tokeniser(kind, "the cat sat on the mat", 260)
    assert kind_of(words) == kind_of(from_json(words.to_json())) == kind
