"""Vectors of texts by a static model: a sum of the vectors of pieces."""

from __future__ import annotations

import importlib.util
import tracemalloc

import numpy as np
import pytest

from neardup import ConfigError
from neardup.features.meaning import static_model
from neardup.features.meaning.static_model import DIMENSION, WORDS_MAX, StaticModel, model_of

_TITLES = ["Halt of all flights at El Paso airport", "Flights at El Paso airport closed", "Minister resigns"]


def model(kept: list[str] | None = None) -> StaticModel:
    """Two pieces a word: its first and its last letter, of 26."""

    def pieces(word: str) -> list[int]:
        if kept is not None:
            kept.append(word)
        return [ord(word[0]) - 97, ord(word[-1]) - 97]

    return StaticModel(np.random.default_rng(1).normal(size=(26, 8)).astype(np.float16), pieces)


def test_a_vector_is_the_sum_of_the_pieces_of_the_first_words() -> None:
    """However the texts are divided into calls, to the bit; a word is looked up once."""
    seen: list[str] = []
    one, texts = model(seen), ["ferry stays in port", "", "port ferry", " ".join(["abc"] * (WORDS_MAX + 5))]
    texts += ["port\x85in\xa0ferry", "\u3000ferry\u2028stays", "abc " * WORDS_MAX + "\U0001f6a2"]  # as ``split`` does
    found = one.vectors(texts)
    weights = one._weights.astype(np.float32)
    expected = [
        sum((weights[ord(c) - 97] for word in text.split()[:WORDS_MAX] for c in (word[0], word[-1])), np.zeros(8))
        for text in texts
    ]
    assert np.allclose(found, expected, atol=1e-3)
    assert np.array_equal(found, np.concatenate([model().vectors([text]) for text in texts]))
    assert sorted(seen) == sorted({"ferry", "stays", "in", "port", "abc"})


def test_the_words_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are looked up again then, with the same sums."""
    monkeypatch.setattr(static_model, "_KEPT_MAX", 10)
    one, words = model(), [f"{chr(97 + n % 26)}x{n}z" for n in range(3_000)]
    assert np.array_equal(np.concatenate([one.vectors([word]) for word in words]), model().vectors(words))
    assert one._known <= 12


def test_the_pieces_of_new_words_are_looked_up_by_parts() -> None:
    """A word of 64 rare characters has 257 pieces; 640 of them are a quarter of a gigabyte at once."""
    words, weights = [f"w{n}" for n in range(640)], np.ones((1, 256), np.float16)
    tracemalloc.start()
    found = StaticModel(weights, lambda _: [0] * 257).vectors([" ".join(words[n::20]) for n in range(20)])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found == 32 * 257).all()
    assert most < 80 << 20


def test_a_model_whose_package_is_absent_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And weights of another version are refused: they make other vectors."""
    monkeypatch.setitem(static_model.MODELS, "absent", ("no_such_package", "", "", 0))
    with pytest.raises(ConfigError, match="needs the package no_such_package"):
        model_of("absent")
    monkeypatch.setitem(static_model.MODELS, "other", ("numpy", "", "numpy/version.py", 0))
    with pytest.raises(ConfigError, match="are others, which make other vectors"):
        model_of("other")


@pytest.mark.skipif(importlib.util.find_spec("wordllama") is None, reason="wordllama is not installed")
def test_wordllama_knows_what_is_about_the_same() -> None:
    """Without a network, from its wheel."""
    found = model_of("wordllama").vectors(_TITLES)
    assert found.shape == (3, DIMENSION)
    unit = found / np.linalg.norm(found, axis=1, keepdims=True)
    assert unit[0] @ unit[1] > 0.5 > 0.2 > unit[0] @ unit[2]
