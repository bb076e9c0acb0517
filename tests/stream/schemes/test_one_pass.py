"""Texts signed in one pass: the same rows and contents as shingles, content hash and signature one after the other."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick_parameters import examples
from reference import content, one_permutation

from neardup import Config, Document, Signer
from neardup.features.texts.normalize import CodePoints, NormalForm, code_points
from neardup.features.texts.shingles import chars, words
from neardup.pairs import signing
from neardup.pairs.signing import PlainReader
from neardup.schemes.interface import sign_features
from neardup.schemes.kinds.one_pass import SignedTexts, plain_rules, sign_chars, sign_words
from neardup.schemes.rows import SCHEMES
from neardup.schemes.signatures.banding import sketch

SIGN: dict[str, tuple[Callable[..., object], Callable[..., object]]] = {
    "chars": (sign_chars, chars),
    "words": (sign_words, words),
}
every_kind = pytest.mark.parametrize("kind", SIGN)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


def prose(count: int, letters: str = "abcdefghijklmnop", seed: int = 1) -> str:
    """Random words."""
    rng = random.Random(seed)
    return " ".join("".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(count))


def codes_of(*texts: str) -> CodePoints:
    return code_points(texts, NormalForm())


def expected(
    kind: str, codes: CodePoints, k: int, bits: int, rows: int
) -> list[tuple[list[int], tuple[int, ...], int]]:
    """Row, content and number of shingles of each text, by the model in plain integers."""
    values, starts = SIGN[kind][1](codes, k, ())  # type: ignore[misc]
    out = []
    for i in range(len(codes.starts)):
        bag = [int(x) & ((1 << bits) - 1) for x in values[starts[i] : starts[i + 1]]]
        out.append((one_permutation(bag, rows, 7), content(bag), len(bag)))
    return out


def signed(kind: str, codes: CodePoints, k: int, bits: int, rows: int) -> list[tuple[list[int], tuple[int, ...], int]]:
    done: SignedTexts = SIGN[kind][0](codes, k, bits, rows, 7, 64)  # type: ignore[assignment]
    sketches, contents, counts, *sizes = done
    assert sizes == [sum(counts), sum(codes.lengths), min(counts, default=0)]
    for size in (8, 16, 32):
        part = SIGN[kind][0](codes, k, bits, rows, 7, size).sketches.tolist()  # type: ignore[attr-defined]
        assert part == sketch(sketches.view(np.uint64), size).tolist()
    found = sketches.view(np.uint64), contents, counts
    return [(row, tuple(pair), n) for row, pair, n in zip(*(x.tolist() for x in found), strict=True)]


@every_kind
@examples(60)
@given(
    texts=st.lists(TEXT.filter(lambda text: any(c.isalpha() for c in text)), min_size=1, max_size=3),
    k=st.integers(1, 12),
    rows=st.integers(1, 30),
    bits=st.sampled_from([32, 64]),
)
def test_short_texts_are_signed_by_the_definition(kind: str, texts: list[str], k: int, rows: int, bits: int) -> None:
    """Any script, any k, both widths of a shingle."""
    codes = codes_of(*texts)
    assert signed(kind, codes, k, bits, rows) == expected(kind, codes, k, bits, rows)


LONG = {
    "prose": prose(900),
    "other letters": prose(900, "абвгдежзийклмн"),
    "few words, repeated": prose(12) * 80,
    "one letter": "a" * 6000,
    "blocks and one": prose(4000)[: 1024 * 3 + 5],
    "whole blocks": prose(4000)[: 1024 * 3 + 4],
}


@every_kind
@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_long_texts_are_signed_by_the_definition(kind: str, name: str, k: int) -> None:
    """A batch also holds texts for which a bound leaves rows empty."""
    codes = codes_of(LONG["prose"], LONG[name], "x", LONG[name])
    assert signed(kind, codes, k, 64, 24) == expected(kind, codes, k, 64, 24)


@every_kind
@pytest.mark.parametrize("steps", [("case", "space"), ("case",), ("space",), ()])
def test_plain_texts_are_normalised_on_the_way(kind: str, steps: tuple[str, ...]) -> None:
    """ASCII texts where Python has them are signed as their code points are, with each step on or off."""
    texts = ["A", "  Two\tWORDS \n", LONG["prose"].title(), "x" * 5_000, prose(700).upper()]
    form = NormalForm.of(steps)
    codes = code_points(texts, form)
    expected = SIGN[kind][0](codes, 3, 64, 24, 7, 16)  # type: ignore[operator]
    reader = PlainReader(Config())
    reader._rules, reader._width = plain_rules(kind, form, 3, 64, 24, 7), 48
    sheet = reader.read([Document("", text) for text in texts])
    assert sheet is not None
    assert (sheet.shingles, sheet.characters, sheet.fewest) == (expected.shingles, expected.characters, expected.fewest)
    for one, other in zip((sheet.batch.fixed, sheet.batch.contents), expected[:2], strict=True):
        assert np.array_equal(one, other)


def test_a_call_that_comes_while_a_signer_signs_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler of a signal may sign with the same signer, between what is kept for the kernel and the kernel."""
    signer, real, left = Signer(Config()), signing._sign, [Document("b", prose(20, seed=2))]
    expected = signer.sign([Document("a", prose(20))]).batch.fixed.copy()

    def interrupted(*given: object) -> object:
        if left:
            signer.sign([left.pop()])
        return real(*given)

    monkeypatch.setattr(signing, "_sign", interrupted)
    assert np.array_equal(signer.sign([Document("a", prose(20))]).batch.fixed, expected)
    assert not left


def test_the_bound_follows_texts_that_repeat_themselves() -> None:
    """A hundred texts of few shingles, then a hundred of many: each text has the row that it has alone."""
    texts = [prose(10, seed=i) * 60 for i in range(100)] + [prose(700, seed=i) for i in range(100)]
    together = sign_chars(codes_of(*texts), 5, 64, 126, 1, 64)
    for i in (0, 50, 99, 100, 101, 150, 199):
        alone = sign_chars(codes_of(texts[i]), 5, 64, 126, 1, 64)
        assert np.array_equal(alone.sketches[0], together.sketches[i])
        assert np.array_equal(alone.contents[0], together.contents[i])


SETTINGS: list[dict[str, object]] = [
    {},
    {"shingles": "words"},
    {"scheme_options": {"shingle_bytes": 4}},
    {"shingles": "stopwords", "languages": ("en",)},
    {"scheme_options": {"shingle_bytes": 4}, "verify": "exact"},
    {"measure": "jaccard_bag", "verify": "exact"},
]


@pytest.mark.parametrize("settings_", SETTINGS, ids=str)
def test_a_signer_signs_what_features_contents_and_evidence_give(settings_: dict[str, object]) -> None:
    """A batch also holds refused texts, and some settings do not allow one pass."""
    config = Config(**settings_)
    texts = [prose(300), "", "the end of the story", "\ud800", "...", LONG["other letters"], "y" * 5000]
    documents = [Document(str(i), text) for i, text in enumerate(texts)]
    scheme = SCHEMES["one_permutation"]
    by_features = sign_features(scheme, documents, config.plan)
    found = scheme.sign(scheme, documents, config.plan)
    assert found.refused == by_features.refused
    assert (found.characters, found.features) == (by_features.characters, by_features.features)
    assert np.array_equal(found.contents, by_features.contents)
    assert all(map(np.array_equal, found.evidence, by_features.evidence))
    assert Signer(config).sign(documents).shingles == found.features
