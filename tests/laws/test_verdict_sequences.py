"""The sequences of arrivals that broke simpler rules of verdicts, on every scheme.

Numbers are those of the sequences on topics. Other files test those that need several processes or a whole corpus: 3,
4 and 11 to 14 are in ``tests/simulation/test_verdict_sequences.py`` and ``tests/kafka/test_kafka_verdicts.py``, 15 is
in ``tests/workers/commands/batch/test_batch_verdicts.py``.
"""

from __future__ import annotations

import functools
import random
from typing import NamedTuple

import pytest
from cases import CASES, Case, parameters

from neardup.stream import Deduplicator, Document, Verdict
from neardup.stream.schemes import SCHEMES

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
        "original 0, original 1, duplicate 1, duplicate 0, duplicate 0",
    ),
    "8: a new version of an original leaves it an original": (
        [A("a", "x", 0), A("a", "z", 1), A("b", "y", 2)], "original 0, original 1, duplicate 0",
    ),
    "9: the same page again and again is unchanged, for ten windows": (
        [A("a", "x", 80.0 * n) for n in range(13)], "original 0" + ", unchanged 0" * 12,
    ),
    "copies under other ids begin a new cluster when the original has left": (
        [A(f"a{n}", "x", 80.0 * n) for n in range(6)],
        "original 0, duplicate 0, original 2 related 0, duplicate 2, original 4 related 2, duplicate 4",
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
        f"{v.status} {v.cluster}" + ("" if v.related is None else f" related {v.related}") for v in verdicts
    )


# Other decisions of schemes that compare equal contents like any others: two versions of an id are never compared.
NOT_BY_CONTENT = {
    "7: content that comes back is not unchanged": "original 0, original 1, duplicate 1, original 3, duplicate 0",
}


@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize("case", parameters(CASES.values()))
def test_the_sequence_is_decided_as_it_must_be(case: Case, sequence: str) -> None:
    """Each arrival is a separate call."""
    arrivals, expected = SEQUENCES[sequence]
    dedup = Deduplicator(case.config(window_seconds=WINDOW_SECONDS))
    found: list[Verdict] = []
    for arrival in arrivals:
        if arrival.content is None:
            dedup.remove(arrival.id)
        else:
            document = contents(case.name)[arrival.content]
            found += dedup.decide([document._replace(id=arrival.id, timestamp=arrival.time)])
    if not SCHEMES[case.config().scheme].by_content:
        expected = NOT_BY_CONTENT.get(sequence, expected)
    assert shown(found) == expected
