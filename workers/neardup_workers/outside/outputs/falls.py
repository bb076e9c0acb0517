"""What falls to one original: nearly all documents of a run, or of a source, are duplicates of one text.

Such a text is a notice of consent, a block page or what an extractor leaves, and the documents would be lost in
silence. The share is that of the brake of sources (``neardup.stories.sources.brake``).

Sources cost more than a verdict, so they are named only where they may matter: of a chunk that has duplicates of a
story with ``_SUSPECT`` of them, or that mentions a source with such duplicates. So the documents of a source count from
the chunk on in which the first of these duplicates is. Memory has a bound: the smaller half of too many stories is
forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from neardup.documents.document import Document
from neardup.errors import Reason
from neardup.pairs.json_lines import Fields, decode_document
from neardup.stories.sources.brake import REPEATED_DOCUMENTS, REPEATED_PERCENT
from neardup.stories.verdicts.fields import Verdicts
from neardup.stories.verdicts.rule import DUPLICATE, REFUSED
from neardup_workers.outside.outputs.sources import sources_among, sources_of
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.process.printable import printable
from neardup_workers.outside.readers.entries import Entry, LineRows, TableRows

# Duplicates after which a story is watched, a tenth of those that matter.
_SUSPECT = REPEATED_DOCUMENTS // 10
_STORIES_MAX = 1 << 16
_SOURCES_MAX = 64
# Characters of the text that a note shows.
_SHOWN_CHARACTERS = 100


class Fall(NamedTuple):
    """So many documents of a source (empty: of all) are duplicates of one original, whose text begins so."""

    source: str
    number: int
    documents: int
    text: str

    def sentence(self) -> str:
        """Say it."""
        whose = f"of {self.source!r}" if self.source else "of all"
        return (
            f"{self.number:,} of {self.documents:,} documents {whose} are duplicates of one text, as block pages, "
            f"notices and what extractors leave are: {self.text!r}"
        )


class Falls:
    """Counts the verdicts of a run. ``add`` them in order, then read what was ``found``."""

    def __init__(self) -> None:
        self._documents = 0
        self._stories: Counter[int] = Counter()  # duplicates
        self._texts: dict[int, str] = {}  # of stories that are watched
        self._fallen: Counter[tuple[str, int]] = Counter()  # duplicates of a source in a watched story
        self._of_source: Counter[str] = Counter()  # documents of the sources of these

    def add(
        self,
        verdicts: Verdicts,
        text: Callable[[int], str],
        names: Callable[[], Sequence[str]],
        mentions: Callable[[str], bool] = lambda name: True,
    ) -> None:
        """Count n verdicts. ``text`` returns the text of a document by its position, ``names`` the sources of all,
        empty for none; ``mentions`` says whether documents of a source may be among them."""
        accepted = verdicts.statuses != REFUSED
        self._documents += int(np.count_nonzero(accepted))
        falls = np.flatnonzero((verdicts.statuses == DUPLICATE) & ~verdicts.late)
        places, first, counts = np.unique(verdicts.clusters[falls], return_index=True, return_counts=True)
        is_watched = False
        for place, at, number in zip(places.tolist(), falls[first].tolist(), counts.tolist(), strict=True):
            self._stories[place] += number
            if place not in self._texts and self._stories[place] >= _SUSPECT:
                self._texts[place] = beginning(text(at))
            is_watched = is_watched or place in self._texts
        if is_watched or any(map(mentions, self._of_source)):
            stories = dict(zip(falls.tolist(), verdicts.clusters[falls].tolist(), strict=True))
            self._count(names(), accepted.tolist(), stories)
        if len(self._stories) > _STORIES_MAX:
            self._stories = Counter(dict(self._stories.most_common(_STORIES_MAX // 2)))

    def _count(self, names: Sequence[str], accepted: list[bool], places: dict[int, int]) -> None:
        """Count the documents of watched stories by source, and all of these sources."""
        for at, place in places.items():
            name, is_full = names[at], len(self._of_source) >= _SOURCES_MAX
            if place in self._texts and name and (name in self._of_source or not is_full):
                self._fallen[name, place] += 1
                self._of_source[name] += 0
        for name, is_document in zip(names, accepted, strict=True):
            if is_document and name in self._of_source:
                self._of_source[name] += 1

    def found(self) -> list[Fall]:
        """Return what nearly all documents of the run, and of each source, fall to; the greatest first."""
        every = [("", place, number, self._documents) for place, number in self._stories.items()]
        every += [(name, place, number, self._of_source[name]) for (name, place), number in self._fallen.items()]
        found = [
            Fall(name, number, documents, self._texts.get(place, ""))
            for name, place, number, documents in every
            if documents >= REPEATED_DOCUMENTS and 100 * number >= REPEATED_PERCENT * documents
        ]
        return sorted(found, key=lambda fall: -fall.number)


def late_sources(entries: Sequence[Entry], fields: Fields) -> list[str]:
    """Return the source of each entry, empty for none; ``fields`` name it, though the entries were read without."""
    if isinstance(entries, TableRows):
        return sources_of(entries)
    found = (
        entry.found if entry.raw is None or isinstance(entry.found, Reason) else decode_document(entry.raw, fields, "")
        for entry in entries
    )
    return sources_among(found)


def mentions_in(entries: Sequence[Entry]) -> Callable[[str], bool]:
    """Return the function that says whether documents of a source may be among entries, without naming them all."""
    if not isinstance(entries, LineRows):
        return lambda name: True
    run = entries.run
    joined = cache(lambda: run.data[run.starts[0] : run.starts[-1]])

    def mentions(name: str) -> bool:
        if not name.isascii() or "xn--" in name or " " in name:  # it may be written in other ways
            return True
        return any(one.encode() in joined() for one in (name, name.capitalize()))

    return mentions


def beginning(text: str) -> str:
    """Return the beginning of a text, as a note shows it."""
    return printable(" ".join(text[: 4 * _SHOWN_CHARACTERS].split()))[:_SHOWN_CHARACTERS]


def text_of(entries: Sequence[Entry], at: int) -> str:
    """Return the text of an entry, or its line if the scheme compares no texts."""
    entry = entries[at]
    text = entry.found.text if isinstance(entry.found, Document) else ""
    return text or (entry.raw or b"").decode(errors="replace")


def loss_failure(option: str, lost: Sequence[str]) -> Failure:
    """Return the failure of an output that would lose nearly all documents of a source; ``lost`` says what."""
    return Failure(
        Exit.REFUSED,
        f"{option} is not written: {'; '.join(lost)}; look at them, leave the sources out of the input, or add "
        "--allow-loss",
    )
