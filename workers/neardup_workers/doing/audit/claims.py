"""What a run said about the documents: the pairs that it found, or its verdicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np

from neardup.documents.ids import full_id
from neardup.stories.verdicts.rule import DUPLICATE, KEPT, STATUSES, UNCHANGED, UPDATE
from neardup_workers.doing.audit.sample import Drawn, Flags, Read
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.objects import json_objects, pair_lines
from neardup_workers.outside.readers.paths import display

KEPT_STATUSES = frozenset(STATUSES[status] for status in KEPT)
UPDATED = STATUSES[UPDATE]
DROPPED = frozenset((STATUSES[DUPLICATE], STATUSES[UNCHANGED]))


class Said(NamedTuple):
    """What was said of the documents of a chunk, ``bool[n]`` each: whether it is kept, whether it was found, whether it
    updates an earlier one, which is kept by rule."""

    kept: Flags
    found: Flags
    updates: Flags


class ClaimedPairs:
    """The pairs in a file of ``run``: a document is found if a pair joins it with an earlier one. ``left_out`` counts
    lines that are no pairs; ``separate``: ids are of a collection, and become full ids (``neardup.documents.ids``)."""

    def __init__(self, path: str, left_out: Counter[str], *, separate: bool) -> None:
        self._path = path
        self._partners: defaultdict[str, list[str]] = defaultdict(list)
        self._places: defaultdict[str, list[int]] = defaultdict(list)  # of ids that a pair names, so far
        for older, newer, line in pair_lines(path, left_out):
            if separate:
                older, newer = (full_id(one, line.get("collection")) for one in (older, newer))
            self._partners[older].append(newer)
            self._partners[newer].append(older)
        if left_out and not self._partners:
            raise _of_another_kind(path, "older and newer", "run")

    def see(self, read: Read) -> Said:
        """Return what was said of the next documents."""
        found = np.zeros(len(read.ids), np.bool_)
        for n, id_ in enumerate(read.ids):
            if id_ in self._partners:
                found[n] = any(partner in self._places for partner in self._partners[id_])
                self._places[id_].append(int(read.places[n]))
        return Said(np.ones_like(found), found, np.zeros_like(found))

    def named(self, drawn: Drawn) -> set[int]:
        """Return the places of the documents that a pair joins with a content of the sample."""
        partners = self._partners.get(drawn.id, ())
        return {place for partner in partners for place in self._places.get(partner, ())}

    def check(self) -> None:
        """Raise ``Failure`` if a pair names a document that was not there."""
        if unknown := self._partners.keys() - self._places.keys():
            raise _of_others(self._path, "a pair of", min(unknown))


class ClaimedVerdicts:
    """The verdicts in a file of ``dedup`` about all documents: a document is found if it was dropped. The verdicts of
    one id are in the order of the documents. ``duplicates`` counts contents whose first document was dropped for an
    original, ``left_out`` lines that are no verdicts; ``separate`` is as for pairs."""

    def __init__(self, path: str, left_out: Counter[str], *, separate: bool) -> None:
        self._path = path
        self._verdicts: defaultdict[str, list[tuple[str, str | None]]] = defaultdict(list)
        self._read: defaultdict[str, int] = defaultdict(int)
        self._original_of: dict[int, str] = {}  # by the place of a duplicate
        self._places: dict[str, list[int]] = {}  # of the documents with the id of an original
        self.duplicates = 0
        for line in json_objects(path, left_out):
            id_, status, original = line.get("id"), line.get("status"), line.get("duplicate_of")
            if not isinstance(id_, str) or status not in STATUSES:
                left_out["lines of verdicts without id and status"] += 1
            elif status in KEPT_STATUSES or status in DROPPED:
                named = original if isinstance(original, str) and status == STATUSES[DUPLICATE] else None
                if separate:
                    name = line.get("collection")
                    id_, named = full_id(id_, name), None if named is None else full_id(named, name)
                self._verdicts[id_].append((status, named))
                if named is not None:
                    self._places.setdefault(named, [])
        if left_out and not self._verdicts:
            raise _of_another_kind(path, "id and status", "dedup")

    def see(self, read: Read) -> Said:
        """Return what was said of the next documents. Raises ``Failure`` for one without a verdict."""
        statuses = list[str]()
        for n, id_ in enumerate(read.ids):
            status, original = self._next(id_)
            statuses.append(status)
            if original is not None:
                self._original_of[int(read.places[n])] = original
                self.duplicates += bool(read.is_first[n] and read.in_time[n])
            if id_ in self._places:
                self._places[id_].append(int(read.places[n]))
        kept, found, updates = (
            np.array([status in of for status in statuses], np.bool_) for of in (KEPT_STATUSES, DROPPED, (UPDATED,))
        )
        return Said(kept, found, updates)

    def named(self, drawn: Drawn) -> set[int]:
        """Return the places of the documents with the id that a content of the sample was dropped for."""
        original = self._original_of.get(drawn.place)
        return set() if original is None else set(self._places[original])

    def is_duplicate(self, drawn: Drawn) -> bool:
        """Return whether a content of the sample was dropped for an original."""
        return drawn.place in self._original_of

    def _next(self, id_: str) -> tuple[str, str | None]:
        """Return the status of the next document of an id, and the original of a duplicate. Raises ``Failure`` if the
        file has none."""
        n = self._read[id_]
        self._read[id_] = n + 1
        verdicts = self._verdicts.get(id_, ())
        if n >= len(verdicts):
            raise Failure(
                Exit.UNUSABLE,
                f"{display(self._path)} has no verdict about {id_!r}, which the documents have: give the documents "
                "that it was made from",
            )
        return verdicts[n]

    def check(self) -> None:
        """Raise ``Failure`` if there is a verdict about a document that was not there."""
        for id_, verdicts in self._verdicts.items():
            if len(verdicts) > self._read[id_]:
                raise _of_others(self._path, "a verdict about", id_)


def _of_another_kind(path: str, fields: str, command: str) -> Failure:
    return Failure(
        Exit.UNUSABLE,
        f"no line of {display(path)} has {fields}: an audit reads what {command} wrote, so name that file",
    )


def _of_others(path: str, what: str, id_: str) -> Failure:
    return Failure(
        Exit.UNUSABLE,
        f"{display(path)} has {what} {id_!r}, which the documents do not have: give all documents that it is of",
    )
