"""Passages in the texts as they were given."""

from __future__ import annotations

import random

import numpy as np
import pytest
from benchmarks.recall.passages import prose

from neardup import Config, Deduplicator, Document
from neardup.features.texts.normalize import NormalForm, normalize
from neardup.pairs.explanations.given_texts import GivenTexts, given_text, verified

FORMS = [NormalForm(), NormalForm(False, True, True), NormalForm(True, True, False), NormalForm(False, False, False)]
# Letters that become several, or that join with what stands before them; blanks of all kinds; flags of countries.
LETTERS = "aB  \n\t ßﬁ́͏각각क्षिاَﷺé0Ωㅏ゙か　‍😀🇩🇪ཱི\u09c7\u09be\u1161\x1c"


@pytest.mark.parametrize("form", FORMS)
def test_each_normalised_code_point_comes_from_a_span_of_the_given_text(form: NormalForm) -> None:
    """The spans are in order, and the span of a piece normalises to what it covers."""
    rng = random.Random(str(form))
    for _ in range(1500):
        text = "".join(rng.choices(LETTERS, k=rng.randint(0, 24)))
        found = given_text(text, form)
        assert found.codes.tobytes() == normalize(text, form).encode("utf-32-le")
        assert (found.ends > found.begins).all()
        assert (np.diff(found.begins) >= 0).all()
        assert (np.diff(found.ends) >= 0).all()


@pytest.mark.parametrize("form", FORMS[:1])
def test_a_span_of_plain_words_covers_just_those(form: NormalForm) -> None:
    """White space and letters of two characters before it shift it."""
    text = "  The  Quick\n\nﬁne Straße  ends"
    found = given_text(text, form)
    at = normalize(text, form).index("strasse")
    assert text[slice(*found.given(at, at + 7))] == "Straße"
    assert text[slice(*found.given(at - 5, at - 1))] == "ﬁne"


def codes(text: str) -> np.ndarray:
    """A text as code points."""
    return np.frombuffer(text.encode("utf-32-le"), "<u4")


def test_an_estimate_becomes_the_equal_passage_and_one_with_a_changed_word_does_not() -> None:
    """It grows to the whole common text, and loses what is beyond it."""
    rng = random.Random(1)
    common, changed = prose(rng, "az", 600), prose(rng, "az", 30)
    older, newer = f"{prose(rng, 'AZ', 100)}{common}{prose(rng, 'AZ', 90)}", f"{common}{prose(rng, 'AZ', 50)}"
    at, end = older.index(common), len(common)
    for first, last in ((0, 0), (-20, 30), (40, -50)):
        estimate = at + first, at + end + last, max(first, 0), end + last
        estimate = (at + estimate[2], *estimate[1:])
        assert verified(codes(older), codes(newer), estimate, 56) == (at, at + end, 0, end)
    broken = newer[:300] + changed + newer[300 + len(changed) :]
    assert verified(codes(older), codes(broken), (at, at + end, 0, end), 56) is None
    assert verified(codes(older), codes(newer), (at, at + end, 10, end + 9), 56) is None


def test_passages_are_those_of_the_given_texts_and_exact_where_both_are_held() -> None:
    """Of each script, in texts that normalisation changes; a text that was given up leaves the estimate."""
    config = Config(scheme="passages")
    rng = random.Random(2)
    for letters in ("az", "ая", "بي", "कह", "一龥"):
        report = prose(rng, letters, 700).replace(" ", "  \n")
        older = Document("older", f"{prose(rng, letters, 300)} ﬁß {report} {prose(rng, letters, 200)}")
        newer = Document("newer", f"Straße {prose(rng, letters, 500)} {report.upper()}")
        relation = Deduplicator(config).decide([older, newer])[1].relation
        assert relation is not None
        texts = GivenTexts(config.plan)
        texts.add("older", older.text)
        (passage,) = texts.passages(relation, newer.text)
        assert passage["exact"]
        assert newer.text[slice(*passage["given"])].strip() == report.upper()
        forgetful = GivenTexts(config.plan, bytes_max=10)
        forgetful.add("older", older.text)
        (estimate,) = forgetful.passages(relation, newer.text)
        assert "exact" not in estimate
        assert estimate["newer"] == list(relation.passages[0][2:])
