"""The deduplicator: wrong values, exceptions of the caller, threads."""

from __future__ import annotations

from datetime import datetime
from threading import Thread

import numpy as np
import pytest

from stream import Config, Deduplicator, Document, Pair, Refusal
from stream.documents import REASONS

STORY = "The quick brown fox jumps over the lazy dog, and the dog does not mind it at all, says the owner of the dog."


def names(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.older, pair.newer) for pair in pairs]


WRONG = {
    "text_type": [Document("x", b"bytes"), Document("x", 7), Document("x", ["a"])],
    "no_text": [Document("x", None)],
    "id_type": [Document(None, STORY), Document(7, STORY), Document(b"x", STORY)],
    "timestamp_type": [Document("x", STORY, "2024-01-01"), Document("x", STORY, datetime(2024, 1, 1)),
                       Document("x", STORY, True)],
}  # fmt: skip


def test_a_wrong_value_is_a_refusal_and_the_documents_around_it_are_processed():
    """Each with its place and reason, as a line of JSON has; nothing raises."""
    for reason, documents in WRONG.items():
        for wrong in documents:
            dedup = Deduplicator()
            pairs = dedup.process([Document("a", STORY), wrong, Document("", ""), Document("b", STORY)])
            assert names(pairs) == [("a", "b")]
            assert dedup.refusals == [Refusal(1, str(wrong.id), reason), Refusal(2, "", "empty")]
            assert {refusal.reason for refusal in dedup.refusals} <= REASONS.keys()
            assert dedup.counts()["refused"] == 2


def test_wrong_tokens_vectors_and_fields_are_refusals_too():
    """Nested, of other types, or missing."""
    for config, wrong in (
        (Config(shingles="tokens"), [{"tokens": [["a"], ["b", "c"]]}, {"tokens": "ab"}, {"tokens": [None]}, {}]),
        (Config(scheme="hyperplane", dimension=2), [{"vector": [[1, 2], [3]]}, {"vector": "ab"},
                                                    {"vector": [None, 1]}, {}]),
        (Config(scheme="records", record_fields=("name",), record_keys=("name",)),
         [{"fields": {"name": 7}}, {"fields": ["name"]}, {"fields": {"name": None}}, {}]),
    ):  # fmt: skip
        dedup = Deduplicator(config)
        assert dedup.process([Document(f"{i}", **values) for i, values in enumerate(wrong)]) == []
        assert [refusal.place for refusal in dedup.refusals] == [0, 1, 2, 3]
        assert {refusal.reason for refusal in dedup.refusals} <= REASONS.keys()


def test_numbers_of_numpy_are_timestamps():
    """As they come out of a column."""
    dedup = Deduplicator(Config(window_seconds=10))
    assert dedup.process([Document("a", STORY, np.float64(0)), Document("b", STORY, np.int64(20))]) == []
    assert dedup.refused == 0


def test_an_exception_of_the_iterable_carries_the_pairs_of_what_was_added():
    """The documents before it are in the table; a second call goes on after them."""

    def documents():
        for i in range(600):
            yield Document(f"d{i}", STORY)
        raise RuntimeError("the source broke")

    dedup = Deduplicator()
    with pytest.raises(RuntimeError, match="the source broke") as raised:
        dedup.process(documents())
    assert len(raised.value.pairs) == 599
    assert names(dedup.process([Document("last", STORY)])) == [("d599", "last")]


def test_threads_share_one_deduplicator():
    """Every document is in the table once, and every copy has its link."""
    dedup = Deduplicator()
    found: list[Pair] = []

    def work(name):
        found.extend(dedup.process(Document(f"{name}-{i}", STORY) for i in range(400)))

    threads = [Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1599
    assert dedup.counts()["items"] == 1600
