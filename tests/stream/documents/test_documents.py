"""Documents, pairs and refusals: plain values."""

from __future__ import annotations

from neardup import Document, Pair, Refusal
from neardup.documents.document import REASONS


def test_a_document_needs_no_time() -> None:
    """Without a timestamp it counts as of when it arrives."""
    assert Document("a", "text") == Document(id="a", text="text", timestamp=None)


def test_a_pair_unpacks_in_the_order_of_the_output() -> None:
    """older, newer, similarity, buckets: the keys of a line of output, in this order."""
    assert Pair._fields == ("older", "newer", "similarity", "buckets")
    older, newer, similarity, buckets = Pair("a", "b", 0.9, 4)
    assert (older, newer, similarity, buckets) == ("a", "b", 0.9, 4)


def test_refusals_sort_by_place() -> None:
    """The place in the batch comes first."""
    assert sorted([Refusal(2, "a", "empty"), Refusal(1, "b", "empty")])[0].id == "b"


def test_every_reason_is_a_short_name_and_a_sentence() -> None:
    """Metrics carry the name, people read the sentence."""
    assert all(name.isidentifier() and name == name.lower() for name in REASONS)
    assert all(len(sentence.split()) > 3 and not sentence.endswith(".") for sentence in REASONS.values())
