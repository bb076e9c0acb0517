"""The sequences of arrivals that broke simpler rules of verdicts, on every scheme and by every way to decide."""

from __future__ import annotations

import functools
import random

import pytest
from cases import CASES, Case, every_case
from quick_parameters import quick_first
from verdict_sequences import SEQUENCES, WINDOW_SECONDS, words_of

from neardup import Deduplicator, Document, Verdict
from neardup.pairs.pair_rule import compares_directly
from neardup.schemes.rows import SCHEMES


@functools.cache
def contents(name: str) -> dict[str, Document]:
    """A pair of documents x and y, with different contents if the scheme finds such pairs, and z far from both."""
    case = CASES[name]
    config = case.config()
    documents = case.stream(random.Random(7), 120)
    dedup = Deduplicator(config)
    pairs = dedup.process(documents)
    by_id = {document.id: document for document in documents}
    near = {frozenset((pair.older, pair.newer)) for pair in pairs}
    x, y = min(pairs, key=lambda pair: (pair.similarity == 1.0, pair.similarity))[:2]
    refused = {refusal.id for refusal in dedup.refusals}
    z = next(
        id_ for id_ in by_id if id_ not in refused and not {frozenset((id_, x)), frozenset((id_, y))} & near
        and id_ not in (x, y)
        and not Deduplicator(config).process([by_id[x], by_id[y]._replace(id="y"), by_id[id_]._replace(id="z")])[1:]
    )  # fmt: skip
    return {"x": by_id[x], "y": by_id[y], "z": by_id[z]}


# Other decisions of schemes that compare nothing directly: only pairs count, and two versions of an id make none.
WITHOUT_COMPARISON = {
    "a new version near the old one is an update, and what is near either is a duplicate": (
        "original 0, original 1 related 0, duplicate 0, duplicate 1"
    ),
}
# Of those that also compare equal contents like any others.
NOT_BY_CONTENT = {
    "7: content that comes back is not unchanged": (
        "original 0, original 1 related 0, duplicate 1, original 3 related 1, duplicate 0"
    ),
    "a far version begins a story, and the old one is continued": (
        "original 0, original 1 related 0, original 2 related 1, duplicate 1"
    ),
    "a story lives as long as copies come, and ends when none has come for a window": (
        "original 0, duplicate 0, original 2 related 0, duplicate 2, original 4 related 2, duplicate 4, original 6"
    ),
    "near-copies find the original after it has left the window": (
        "original 0, duplicate 0, original 2 related 0, duplicate 2, original 4 related 2, duplicate 4, "
        "original 6 related 4, duplicate 6"
    ),
}
# Of a scheme whose pairs have equal contents.
IDENTICAL = {
    "a new version near the old one is an update, and what is near either is a duplicate": (
        "original 0, unchanged 0, duplicate 0, duplicate 0"
    ),
    "a duplicate that changes beyond its story begins another": (
        "original 0, duplicate 0, unchanged 0, original 3 related 0"
    ),
}


@pytest.mark.parametrize("sequence", SEQUENCES)
@every_case
def test_the_sequence_is_decided_as_it_must_be(case: Case, sequence: str) -> None:
    """Each arrival is a separate call."""
    arrivals, expected = SEQUENCES[sequence]
    config = case.config(window_seconds=WINDOW_SECONDS)
    dedup = Deduplicator(config)
    found: list[Verdict] = []
    for arrival in arrivals:
        if arrival.content is None:
            dedup.remove(arrival.id)
        else:
            document = contents(case.name)[arrival.content]
            found += dedup.decide([document._replace(id=arrival.id, timestamp=arrival.time)])
    if not compares_directly(config):
        expected = WITHOUT_COMPARISON.get(sequence, expected)
        if not SCHEMES[config.scheme].by_content:
            expected = NOT_BY_CONTENT.get(sequence, expected)
    if config.scheme == "identical":
        expected = IDENTICAL.get(sequence, expected)
    assert words_of(verdict._asdict() for verdict in found) == expected


@pytest.mark.parametrize("name", quick_first(["one_permutation chars", "prefix chars", "records exact"], 1))
def test_a_stream_that_is_saved_after_each_arrival_is_decided_alike(name: str) -> None:
    """Stories go on from their files, also those whose originals have left the window."""
    config = CASES[name].config(window_seconds=WINDOW_SECONDS)
    for arrivals, _ in SEQUENCES.values():
        whole, part = Deduplicator(config), Deduplicator(config)
        for arrival in arrivals:
            before, part = part, Deduplicator(config)
            part.load(before.save())
            if arrival.content is None:
                assert part.remove(arrival.id) == whole.remove(arrival.id)
                continue
            document = contents(name)[arrival.content]._replace(id=arrival.id, timestamp=arrival.time)
            assert part.decide([document]) == whole.decide([document])
