"""What a run said about the sample: the partners that it named, or the verdicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from neardup.documents.ids import full_id
from neardup.stories.verdicts.rule import DUPLICATE, KEPT, STATUSES, UNCHANGED, UPDATE
from neardup_workers.doing.audit.sample import Drawn
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.objects import json_objects
from neardup_workers.outside.readers.paths import display

KEPT_STATUSES = frozenset(STATUSES[status] for status in KEPT)
UPDATED = STATUSES[UPDATE]
DROPPED = frozenset((STATUSES[DUPLICATE], STATUSES[UNCHANGED]))


class ClaimedPairs:
    """The pairs of ``run`` that name a document of the sample.

    Args:
        path: what ``run`` wrote.
        sample: the sample.
        left_out: counts lines that are no pairs.
        separate: whether ids are those of a collection; then they are full ids (``neardup.documents.ids``).
    """

    def __init__(self, path: str, sample: Sequence[Drawn], left_out: Counter[str], *, separate: bool) -> None:
        by_id: defaultdict[str, list[int]] = defaultdict(list)
        for n, drawn in enumerate(sample):
            for id_ in drawn.ids:
                by_id[id_].append(n)
        self._path = path
        self._named: defaultdict[str, set[int]] = defaultdict(set)
        self._unknown: set[str] = set()  # named by a pair, and of no document so far
        for line in json_objects(path, left_out):
            older, newer = line.get("older"), line.get("newer")
            if not isinstance(older, str) or not isinstance(newer, str):
                left_out["lines of pairs without older and newer"] += 1
                continue
            if separate:
                older, newer = (full_id(one, line.get("collection")) for one in (older, newer))
            self._unknown.update((older, newer))
            for one, other in ((older, newer), (newer, older)):
                self._named[other].update(by_id.get(one, ()))

        if left_out and not self._unknown:
            raise _of_another_kind(path, "older and newer", "run")

    def with_id(self, id_: str) -> set[int]:
        """Return the contents of the sample that a pair joins with a document of this id."""
        return self._named.get(id_, set())

    def see(self, ids: Sequence[str]) -> None:
        """Note that documents have these ids."""
        self._unknown.difference_update(ids)

    def check(self) -> None:
        """Raise ``Failure`` if a pair names a document that was not there."""
        if self._unknown:
            raise _of_others(self._path, "a pair of", min(self._unknown))


class ClaimedVerdicts:
    """The verdicts of ``dedup`` about all documents. Those of one id are in the order of the documents.

    Args:
        path: what ``dedup`` wrote.
        sample: the sample; ``originals`` are the ids that its documents were dropped for.
        left_out: counts lines that are no verdicts.
        separate: as for pairs.
    """

    def __init__(self, path: str, sample: Sequence[Drawn], left_out: Counter[str], *, separate: bool) -> None:
        self._path = path
        self._verdicts: defaultdict[str, list[tuple[str, str | None]]] = defaultdict(list)
        self._read: Counter[str] = Counter()
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
        if left_out and not self._verdicts:
            raise _of_another_kind(path, "id and status", "dedup")
        verdicts = (verdict for drawn in sample for verdict in self._verdicts.get(drawn.ids[0], ()))
        self.originals = frozenset(original for _, original in verdicts if original is not None)

    def next(self, id_: str) -> tuple[str, str | None]:
        """Return the status of the next document of an id, and the original of a duplicate. Raises ``Failure`` if the
        file has none."""
        n = self._read[id_]
        self._read[id_] += 1
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
