"""Sequences of arrivals that broke simpler rules of verdicts, as a table; each way to decide is a driver of it.

The numbers are those of the design. Some sequences need several processes, logs that a test writes, or a corpus at
rest: 3, 5 and 10 to 14 are in ``tests/simulation/test_verdict_sequences.py`` too, 15 is in
``tests/workers/commands/batch/test_batch_verdicts.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

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
    "a removed original hands its story to the next member": (
        [A("a", "x", 0), A("b", "y", 1), A("a", None), A("b", "y", 2), A("c", "x", 3), A("a", "x", 4)],
        "original 0, duplicate 0, unchanged 0, duplicate 0, duplicate 0",
    ),
    "an old date is late: it is compared, and changes nothing": (
        [A("a", "x", 1000), A("b", "z", 0), A("c", "z", 1), A("d", "z", 1001), A("e", "y", 950)],
        "original 0, original 1 late, original 2 late, original 3, duplicate 0",
    ),
    "an old version with the same content is late, and not unchanged": (
        [A("a", "x", 1000), A("a", "x", 0), A("a", "x", 1001)], "original 0, original 1 related 0 late, unchanged 0",
    ),
    "9: the same page again and again is unchanged, for ten windows": (
        [*(A("a", "x", 80.0 * n) for n in range(13)), A("b", "y", 1050)],
        "original 0" + ", unchanged 0" * 12 + ", duplicate 0",
    ),
    "a story lives as long as copies come, and ends when none has come for a window": (
        [*(A(f"a{n}", "x", 80.0 * n) for n in range(6)), A("b", "x", 501)],
        "original 0, duplicate 0, duplicate 0, duplicate 0, duplicate 0, duplicate 0, original 6",
    ),
    "near-copies find the original after it has left the window": (
        [*(A(f"a{n}", "x" if n < 4 else "y", 80.0 * n) for n in range(8))],
        "original 0" + ", duplicate 0" * 7,
    ),
    "10: what is near a duplicate of a removed original is a duplicate of that": (
        [A("a", "x", 0), A("b", "y", 1), A("a", None), A("c", "x", 2), A("d", "z", 3)],
        "original 0, duplicate 0, duplicate 0, original 3",
    ),
    "when all of a cluster is removed, nothing of it is left": (
        [A("a", "x", 0), A("b", "y", 1), A("a", None), A("b", None), A("c", "x", 2)],
        "original 0, duplicate 0, original 2",
    ),
}  # fmt: skip


# The same with novelty: r is a report, l a longer one, m nearly l, p and q thirds of l, c a correction of r, o another
# report in its form.
NEW_SEQUENCES: dict[str, tuple[list[Arrival], str]] = {
    "a longer report by anyone is an update, and copies of it are duplicates": (
        [A("a", "r", 0), A("b", "l", 1), A("c", "l", 2), A("d", "m", 3), A("e", "r", 4)],
        "original 0, update 0, duplicate 0, duplicate 0, duplicate 0",
    ),
    "the first and the middle third of a report are duplicates": (
        [A("a", "l", 0), A("b", "p", 1), A("c", "q", 2)],
        "original 0, duplicate 0, duplicate 0",
    ),
    "a report that has a part before it is related": (
        [A("a", "p", 0), A("b", "l", 1)],
        "original 0, original 1 related 0",
    ),
    "a correction by anyone is an update": ([A("a", "r", 0), A("b", "c", 1)], "original 0, update 0"),
    "another report in the same form begins a story": (
        [A("a", "r", 0), A("b", "o", 1)],
        "original 0, original 1 related 0",
    ),
    "an update that comes again is unchanged": (
        [A("a", "r", 0), A("b", "l", 1), A("b", "l", 2)],
        "original 0, update 0, unchanged 0",
    ),
    "a story goes on without an update that is removed, whose copy is an update again": (
        [A("a", "r", 0), A("b", "l", 1), A("e", "l", 1), A("b", None), A("c", "l", 2), A("d", "r", 3), A("f", "m", 4)],
        "original 0, update 0, duplicate 0, update 0, duplicate 0, duplicate 0",
    ),
    "a removal of what only repeated a story ends nothing": (
        [A("a", "r", 0), A("b", "l", 1), A("c", "m", 2), A("c", None), A("d", "m", 3)],
        "original 0, update 0, duplicate 0, duplicate 0",
    ),
}

_REPORT = "the port of {} moved {} containers, {} ships, {} trucks and {} trains in May, {} percent more than in {}, "
_PORT = _REPORT.format("Volterra", "1,204", 33, 512, 49, 18, 2024) + "its director said on Monday in the old town"
_LONGER = _PORT + ", and workers agreed to run the new cranes at night from next spring on"

# The contents as texts.
TEXTS = {
    "r": _PORT,
    "l": _LONGER,
    "m": _LONGER.replace("old town", "town"),
    "p": " ".join(_LONGER.split()[:14]),
    "q": " ".join(_LONGER.split()[15:29]),
    "c": _PORT.replace("33 ships", "35 ships"),
    "o": _REPORT.format("Ancona", "2,731", 71, 208, 63, 25, 2023) + "its director said on Monday in the old town",
    "x": "the quick brown fox jumps over the lazy dog while nothing moves at all in the small village of the north",
    "y": "the quick brown fox jumps over the lazy cat while nothing moves at all in the small village of the north",
    "z": "an old owl sits upon the oak and says nothing until it has heard enough of what the people talk about",
}


def lines_of(arrivals: Iterable[Arrival]) -> list[dict[str, Any]]:
    """The documents of a sequence without removals, as lines of JSON have them."""
    return [{"id": one.id, "text": TEXTS[one.content or ""], "timestamp": one.time} for one in arrivals]


def words_of(verdicts: Iterable[Mapping[str, Any]]) -> str:
    """Verdicts in the words of the table, by the fields of a line; clusters are numbers of documents."""
    return ", ".join(
        f"{fields['status']} {fields['cluster']}"
        + ("" if fields.get("related") is None else f" related {fields['related']}")
        + " late" * bool(fields.get("late"))
        for fields in verdicts
    )
