"""Hashes of whole texts and of fixed random positions."""

from __future__ import annotations

import random

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from neardup.features.texts.normalize import NormalForm, code_points
from neardup.schemes.kinds.identical import hash_keys, position_hashes, random_positions, text_hashes

AS_IS = NormalForm(nfkc=False, fold_case=False, fold_space=False)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40) | st.text("ab\0", max_size=8)


def hashes(*texts: str, form: NormalForm = AS_IS) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in text_hashes(code_points(texts, form))]


@given(st.lists(TEXT, max_size=8))
def test_a_hash_matches_the_definition(texts: list[str]) -> None:
    """For texts of any code points and lengths."""
    assert hashes(*texts) == [reference.text_hash(text) for text in texts]


def test_a_hash_has_a_known_answer() -> None:
    """Hashes are a format: these numbers change only with ``SIGNING_VERSION``."""
    assert hashes("near-duplicate", "文書") == [
        (13039846842196176239, 18282646378543009755),
        (2075118125578633350, 1981714985234284002),
    ]


@given(st.lists(TEXT, min_size=2, max_size=30, unique=True))
def test_different_texts_have_different_hashes(texts: list[str]) -> None:
    """In both halves: NULs at the end, order and length count."""
    for half in (0, 1):
        assert len({found[half] for found in hashes(*texts)}) == len(texts)


def test_a_hash_depends_on_every_bit_of_every_place() -> None:
    """One code point exchanged anywhere, or two for each other: about half of 128 bits change."""
    rng = random.Random(1)
    base = "".join(rng.choices("abcdefgh", k=60))
    (first,) = hashes(base)
    changed = [base[:i] + chr(ord(base[i]) ^ 1 << bit) + base[i + 1 :] for i in range(60) for bit in range(4)]
    changed += [base[:i] + base[i + 1] + base[i] + base[i + 2 :] for i in range(58) if base[i] != base[i + 1]]
    flips = [[(x ^ y).bit_count() for x, y in zip(first, found, strict=True)] for found in hashes(*changed)]
    assert np.min(flips) >= 10  # of 64: less than that by chance in one of 10^8
    assert np.abs(np.mean(flips, axis=0) - 32).max() < 2


def test_a_text_has_one_hash_however_it_is_stored() -> None:
    """A text in ASCII and one that only becomes so by folding white space are stored differently."""
    codes = code_points(["a b", "a\u3000b"], NormalForm(nfkc=False))
    assert codes.is_wide.tolist() == [False, True]
    assert text_hashes(codes)[0].tolist() == text_hashes(codes)[1].tolist()
    positions = np.arange(5)
    assert len(set(position_hashes(codes, positions).tolist())) == 1


def test_positions_are_of_every_magnitude() -> None:
    """About as many positions lie below 2 as from 2^19 on; the seed decides them."""
    found = random_positions(4000, seed=3)
    assert found.min() == 0
    assert 1 << 19 <= found.max() < 1 << 20
    below = [(found < 1 << bits).mean() for bits in range(1, 21)]
    # Each magnitude m has 1/20 of them, uniform below 2^m; four standard deviations are .032.
    expected = [sum(min(1.0, 2.0 ** (bits - m)) for m in range(1, 21)) / 20 for bits in range(1, 21)]
    assert np.abs(np.array(below) - expected).max() < 0.032
    assert random_positions(4000, seed=3).tolist() == found.tolist()
    assert random_positions(4000, seed=4).tolist() != found.tolist()


def test_a_position_hash_reads_the_positions_and_the_length_alone() -> None:
    """Other places of the text make no difference; the length distinguishes a text that is too short for a position."""
    positions = np.array([0, 3, 50])

    def found(text: str) -> int:
        return int(position_hashes(code_points([text], AS_IS), positions)[0])

    assert found("abcdef") == found("a__d__")
    assert len({found(text) for text in ("abcdef", "abceef", "xbcdef", "abcde", "abcdefg", "abcd", "a", "")}) == 8
    assert found("a" * 51) != found("a" * 50 + "b")


@pytest.mark.parametrize("width", [1, 2])
def test_a_key_depends_on_the_hash_and_the_seed(width: int) -> None:
    """On every column; equal hashes have equal keys."""
    rows = np.array([[1, 2], [1, 3], [4, 2], [1, 2]], np.uint64)[:, :width]
    keys = hash_keys(np.ascontiguousarray(rows), seed=5)
    assert keys[0] == keys[3]
    assert len(set(keys.tolist())) == len({tuple(row) for row in rows.tolist()})
    assert set(hash_keys(np.ascontiguousarray(rows), seed=6).tolist()).isdisjoint(keys.tolist())
