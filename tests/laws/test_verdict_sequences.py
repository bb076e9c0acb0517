"""The sequences of arrivals that broke simpler rules of verdicts, on every scheme.

Numbers are those of the sequences on topics. Other files test those that need several processes or a whole corpus: 3,
4 and 11 to 14 are in ``tests/simulation/test_verdict_sequences.py`` and ``tests/kafka/workers/test_kafka_verdicts.py``,
15 is in ``tests/workers/commands/batch/test_batch_verdicts.py``.
"""

from __future__ import annotations

import functools
import random
from typing import NamedTuple

import pytest
from cases import CASES, Case, every_case

from neardup import Deduplicator, Document, Verdict
from neardup.pairs.pair_rule import compares_directly
from neardup.schemes.rows import SCHEMES

WINDOW_SECONDS = 100.0


class Arrival(NamedTuple):
    """A document: its id, its content, its time in seconds. Without content, all versions of the id are removed."""

    id: str
    content: str | None
    time: float = 0.0


A = Arrival
# Name -> the arrivals (x is near y, z is far from both) and the decisions: status and cluster of each document.
SEQUENCES: dict[str, tuple[list[Arrival], str]] = {
    "1: what is near a copy of an original is a duplicate of the original": (
        [A("a", "x", 0), A("b", "x", 1), A("c", "y", 2)], "original 0, duplicate 0, duplicate 0",
    ),
    "2: copies have one original": (
        [A("a", "x", 0), A("b", "x", 1), A("c", "x", 2)], "original 0, duplicate 0, duplicate 0",
    ),
    "copies of a duplicate are duplicates of its original": (
        [A("a", "y", 0), A("b", "x", 1), A("c", "x", 2)], "original 0, duplicate 0, duplicate 0",
    ),
    "5: what has left the window counts for nothing": (
        [A("a", "x", 0), A("b", "z", 250), A("c", "y", 251)], "original 0, original 1, original 2",
    ),
    "6: an unchanged version of a duplicate stays one": (
        [A("a", "x", 0), A("b", "y", 1), A("b", "y", 2), A("c", "y", 3)],
        "original 0, duplicate 0, unchanged 0, duplicate 0",
    ),
    "7: content that comes back is not unchanged": (
        [A("a", "x", 0), A("a", "z", 1), A("b", "z", 2), A("a", "x", 3), A("c", "x", 4)],
        "original 0, original 1 related 0, duplicate 1, update 0, duplicate 0",
    ),
    "8: a new version of an original leaves it an original": (
        [A("a", "x", 0), A("a", "z", 1), A("b", "y", 2)], "original 0, original 1 related 0, duplicate 0",
    ),
    "a new version near the old one is an update, and what is near either is a duplicate": (
        [A("a", "x", 0), A("a", "y", 1), A("b", "x", 2), A("c", "y", 3)],
        "original 0, update 0, duplicate 0, duplicate 0",
    ),
    "a far version begins a story, and the old one is continued": (
        [A("a", "x", 0), A("a", "z", 1), A("a", "x", 2), A("b", "z", 3)],
        "original 0, original 1 related 0, update 0, duplicate 1",
    ),
    "a duplicate that changes beyond its story begins another": (
        [A("a", "x", 0), A("b", "y", 1), A("b", "x", 2), A("b", "z", 3)],
        "original 0, duplicate 0, duplicate 0, original 3 related 0",
    ),
    "a removal ends the stories that the id began": (
        [A("a", "x", 0), A("b", "y", 1), A("a", None), A("b", "y", 2), A("c", "x", 3), A("a", "x", 4)],
        "original 0, duplicate 0, original 2 related 0, duplicate 2, duplicate 2",
    ),
    "an old date is late: it is compared, and changes nothing": (
        [A("a", "x", 1000), A("b", "z", 0), A("c", "z", 1), A("d", "z", 1001), A("e", "y", 950)],
        "original 0, original 1 late, original 2 late, original 3, duplicate 0",
    ),
    "9: the same page again and again is unchanged, for ten windows": (
        [A("a", "x", 80.0 * n) for n in range(13)], "original 0" + ", unchanged 0" * 12,
    ),
    "a story lives as long as copies come, and ends when none has come for a window": (
        [*(A(f"a{n}", "x", 80.0 * n) for n in range(6)), A("b", "x", 501)],
        "original 0, duplicate 0, duplicate 0, duplicate 0, duplicate 0, duplicate 0, original 6",
    ),
    "near-copies find the original after it has left the window": (
        [*(A(f"a{n}", "x" if n < 4 else "y", 80.0 * n) for n in range(8))],
        "original 0" + ", duplicate 0" * 7,
    ),
    "10: what is near a duplicate of a removed original is an original": (
        [A("a", "x", 0), A("b", "y", 1), A("a", None), A("c", "x", 2), A("d", "z", 3)],
        "original 0, duplicate 0, original 2 related 0, original 3",
    ),
    "when all of a cluster is removed, nothing of it is left": (
        [A("a", "x", 0), A("b", "y", 1), A("a", None), A("b", None), A("c", "x", 2)],
        "original 0, duplicate 0, original 2",
    ),
}  # fmt: skip


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


def shown(verdicts: list[Verdict]) -> str:
    """Verdicts in the words of the table."""
    return ", ".join(
        f"{v.status} {v.cluster}" + ("" if v.related is None else f" related {v.related}") + " late" * v.late
        for v in verdicts
    )


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
    assert shown(found) == expected


@pytest.mark.parametrize("name", ["one_permutation chars", "prefix chars", "records exact"])
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
