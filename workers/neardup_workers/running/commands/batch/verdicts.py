"""``neardup batch --verdicts``: the rule of verdicts over a corpus at rest, in an order of preference.

The rule is the same as in ``dedup`` (``neardup.stories.verdicts.rule``); only the order differs. The documents are
decided in order of arrival (``first``), by length (``longest``) or by a number in a field, the greatest first; ties in
order of arrival. So the preferred document of a cluster is its original. No document expires, because the whole corpus
is known.
Two documents that are farther apart than the window are still not a pair. A content has the pairs of all its copies.

Memory holds about 130 bytes a document; pairs and evidence are on disk.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from neardup.documents.document import Document
from neardup.pairs.batches import CONTENT_HALF, id_columns, id_hashes
from neardup.pairs.explanations.relations import Relations, closest
from neardup.pairs.json_lines import named_collection
from neardup.pairs.pair_rule import deciding_parts
from neardup.pairs.signing import Signed
from neardup.stories.sources.representatives import FIRST, LONGEST, length_of
from neardup.stories.verdicts.deciding import Decided
from neardup.stories.verdicts.decisions import Decisions
from neardup.stories.verdicts.fields import Verdicts, blank_verdicts, join_verdicts
from neardup.stories.verdicts.row_columns import Found, VerdictLimits
from neardup.stories.verdicts.rule import DOCUMENT, DUPLICATE, REFUSED, STATUSES, Arrivals
from neardup.window import NO_TIME
from neardup_workers.doing.session.session import Chunk, judged
from neardup_workers.outside.outputs.clusters import LARGEST
from neardup_workers.outside.outputs.falls import Fall, Falls
from neardup_workers.outside.outputs.output import OutputFile
from neardup_workers.outside.outputs.sources import Sources, sources_of
from neardup_workers.outside.outputs.verdict_lines import Named, counts_of, named_lines
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.entries import Entry, LineRows
from neardup_workers.outside.readers.lines import BOM
from neardup_workers.running.commands.batch.content_pairs import ContentPairs, ranges
from neardup_workers.running.commands.batch.rows import ROWS, RowFiles, Rows

# A window in which no row expires: stream time never exceeds a time by this many microseconds.
_NEVER = 1 << 61

# Returns the relations of rows, by their index in the argument.
RelationsOf = Callable[[Rows], Relations]


class CorpusLinks:
    """The pairs of a corpus as the rule reads them.

    Where the scheme knows what texts share, ``part_min`` is the part of a text that makes it a duplicate (``None``:
    only copies are duplicates). ``times`` are the effective times of rows.
    """

    def __init__(self, pairs: ContentPairs, times: Rows, *, shares: bool, part_min: float | None) -> None:
        self.pairs, self.times = pairs, times
        self._shares, self._part_min = shares, part_min
        self._foremost = np.empty(0, np.int64)

    def rank(self, order: Rows) -> None:
        """Set the order of decisions, a list of rows. Call it after the last pair was added."""
        self.pairs.seal()
        self._foremost = np.full(len(order), -1)
        self._foremost[self.pairs.contents[order[::-1]]] = np.arange(len(order))[::-1]  # the last assignment stays

    def found(self, order: Rows, first: int, end: int) -> Found:
        """Return the pairs of the rows at positions ``first`` to ``end`` of the order with rows before them: of each
        other content, the first decided row."""
        distinct, back = np.unique(self.pairs.contents[order[first:end]], return_inverse=True)
        partners = self.pairs.of(distinct)
        lengths = np.diff(partners.starts)[back]
        at = ranges(partners.starts[back], lengths)
        numbers, others = np.repeat(np.arange(first, end), lengths), self._foremost[partners.others[at]]
        similarity = partners.similarity[at]
        decides = others < numbers
        if self._shares:
            similarity = deciding_parts(similarity, partners.own[at], self._part_min)
            decides &= similarity >= 0
        kept = np.flatnonzero(decides)
        kept = kept[np.lexsort((others[kept], numbers[kept]))]
        return Found(numbers[kept] - first, others[kept], similarity[kept].astype(np.float32))

    def partners(self, order: Rows) -> Rows:
        """Return for each row the one decided before it that it shares most with, ``int64[n]``, -1 for none."""
        number_of, best, parts = np.empty_like(order), np.full(len(order), -1), np.zeros((len(order), 2))
        number_of[order] = np.arange(len(order))
        for links in self.pairs.links():
            near = np.flatnonzero(links.similarity < 1)
            newer, older = number_of[links.newer[near]], number_of[links.older[near]]
            both = np.column_stack([links.older_part[near], links.newer_part[near]])
            both[newer < older] = both[newer < older, ::-1]
            numbers, others = np.maximum(newer, older), np.minimum(newer, older)
            known = np.unique(numbers)
            known = known[best[known] >= 0]
            numbers, others = np.concatenate([known, numbers]), np.concatenate([best[known], others])
            both = np.concatenate([parts[known], both])
            chosen = closest(numbers, others, both)
            best[numbers[chosen]], parts[numbers[chosen]] = others[chosen], both[chosen]
        partners = np.full(len(order), -1)
        related = np.flatnonzero(best >= 0)
        partners[order[related]] = order[best[related]]
        return partners


class Preference:
    """The preference (``first``, ``longest`` or the name of a field), and the value of each document."""

    def __init__(self, prefer: str) -> None:
        self._prefer = prefer
        self._values = array("d")

    def value_of(self, entry: Entry, document: Document) -> float:
        """Return the value of a document."""
        if self._prefer == FIRST:
            return 0.0
        return length_of(document) if self._prefer == LONGEST else _number(entry, self._prefer)

    def add(self, value: float) -> None:
        """Add the value of the next document."""
        self._values.append(value)

    def add_equal(self, count: int) -> bool:
        """Add the values of the next documents, if those of all documents are equal; returns whether they are."""
        if self._prefer == FIRST:
            self._values.extend(repeat(0.0, count))
        return self._prefer == FIRST

    def order(self) -> Rows:
        """Return the rows in the order of decisions. Raises ``Failure`` if no document has the field."""
        values = np.frombuffer(self._values, np.float64) if self._values else np.empty(0)
        if len(values) and np.isneginf(values).all():
            raise Failure(
                Exit.USAGE,
                f"--prefer {self._prefer}: no document has a number there; name another field, {FIRST} or {LONGEST}",
            )
        return np.argsort(-values, kind="stable")


def _number(entry: Entry, name: str) -> float:
    """Return the number in a field; without one, minus infinity."""
    try:
        value = orjson.loads((entry.raw or b"").removeprefix(BOM)).get(name)
        number = float(value) if isinstance(value, int | float | str) else -np.inf
    except (orjson.JSONDecodeError, ValueError):
        return -np.inf
    return -np.inf if np.isnan(number) else number


class Places:
    """The positions of all entries of the input, including refused ones; ``rows`` are the places of the documents,
    ``named`` the sources of the entries if ``with_sources``, by their index in ``names``."""

    def __init__(self, *, with_sources: bool = False) -> None:
        self.rows = array("q")
        self.with_sources, self.named = with_sources, array("i")
        self.names: dict[str, int] = {}
        self._sources: list[str] = []
        self._source, self._line = array("i"), array("q")
        # By place of a refused entry: the reason, id and collection.
        self.refused: dict[int, tuple[str, str | None, str | None]] = {}

    def add(self, chunk: Chunk, signed: Signed, preference: Preference) -> None:
        """Add the entries of a chunk."""
        entries, reasons = judged(chunk, signed)
        if self.with_sources:
            for name in sources_of(entries):
                self.add_source(name)
        if isinstance(entries, LineRows) and not reasons and preference.add_equal(len(entries)):
            self.rows.extend(range(len(self), len(self) + len(entries)))
            self._add(entries.source, entries.first, len(entries))
            return
        for n, entry in enumerate(entries):
            found = entry.found
            if n in reasons:
                named = (found.id, found.collection) if isinstance(found, Document) else (None, None)
                self.add_refused(entry.source, entry.line, reasons[n], *named)
            elif isinstance(found, Document):
                self.add_document(entry.source, entry.line)
                preference.add(preference.value_of(entry, found))

    def sources(self, at: Rows) -> list[str]:
        """Return the sources of the entries at places."""
        names, named = list(self.names), np.array(self.named, np.int32)
        return [names[n] for n in named[at].tolist()]

    def add_document(self, source: str, line: int) -> None:
        """Add an entry that is a document."""
        self.rows.append(len(self))
        self._add(source, line)

    def add_source(self, name: str) -> None:
        """Add the source of the next entry."""
        self.named.append(self.names.setdefault(name, len(self.names)))

    def add_refused(self, source: str, line: int, reason: str, id_: str | None, collection: str | None) -> None:
        """Add a refused entry."""
        self.refused[len(self)] = reason, id_, collection
        self._add(source, line)

    def _add(self, source: str, line: int, lines: int = 1) -> None:
        if not self._sources or self._sources[-1] != source:
            self._sources.append(source)
        self._source.extend(repeat(len(self._sources) - 1, lines))
        self._line.extend(range(line, line + lines))

    def shown(self, first: int, end: int, documents: Iterator[tuple[str, str | None]]) -> Iterator[Named]:
        """Yield what a line says of the entries at places ``first`` to ``end``; ``documents`` has id and collection of
        each document."""
        for place in range(first, end):
            named = self.refused[place][1:] if place in self.refused else next(documents)
            yield self._sources[self._source[place]], self._line[place], *named, ""

    def __len__(self) -> int:
        return len(self._line)


def decide(
    links: CorpusLinks,
    rows: RowFiles,
    order: Rows,
    places: Rows,
    limits: VerdictLimits,
    compare: Callable[[Rows, Rows], npt.NDArray[np.float32]] | None,
) -> Verdicts:
    """Return the verdicts of all rows, by row, decided in this order; ``originals`` are rows. ``places`` are those of
    the rows. ``compare`` compares rows directly, as ``Matcher.compared`` does; without it only pairs count."""
    count = len(order)
    decisions = Decisions(limits._replace(lateness=_NEVER, rows=count + 1))
    links.rank(order)
    parts = []
    for first, end in pairwise([*range(0, max(count, 1), ROWS), count]):
        at = order[first:end]
        ids = id_hashes(*id_columns(rows.id_bytes(at)))
        kinds = np.full(len(at), DOCUMENT, np.uint8)
        contents = rows.contents(at)[:, CONTENT_HALF].copy()
        arrivals = Arrivals(places[at], kinds, ids, links.times[at], contents, np.zeros(len(at), np.int64))
        decisions.begin()
        direct = partial(_compared, compare, order, first) if compare else None
        parts.append(decisions.decide(arrivals, links.found(order, first, end), direct))
        decisions.commit()
    decided = join_verdicts(parts)
    originals = np.where(decided.originals >= 0, order[decided.originals], -1)
    by_row = np.empty(count, np.int64)
    by_row[order] = np.arange(count)
    return decided._replace(originals=originals).select(by_row)


def _compared(
    compare: Callable[[Rows, Rows], npt.NDArray[np.float32]], order: Rows, first: int, items: Rows, numbers: Rows
) -> npt.NDArray[np.float32]:
    return compare(order[first + items], order[numbers])


def write(file: OutputFile, rows: RowFiles, places: Places, verdicts: Verdicts, relations: RelationsOf | None) -> None:
    """Write the verdicts in the format of ``dedup``, in order of arrival."""
    for first in range(0, len(places), ROWS):
        end = min(first + ROWS, len(places))
        decided = decided_between(rows, places, verdicts, relations, first, end)
        at = np.arange(decided.first_row, decided.first_row + np.count_nonzero(decided.verdicts.statuses != REFUSED))
        documents = zip(rows.ids(at), rows.collections(at) or repeat(None), strict=False)
        reasons = {place - first: places.refused[place][0] for place in range(first, end) if place in places.refused}
        lines = named_lines(places.shown(first, end, documents), reasons, decided)
        file.write(b"".join([line + b"\n" for line in lines]))


def falls_of(places: Places, order: Rows, verdicts: Verdicts) -> list[Fall]:
    """Return what nearly all documents fall to; the text of each is the place of one of the duplicates."""
    falls, rows = Falls(), np.array(places.rows, np.int64)
    for first in range(0, len(order), ROWS):
        at = order[first : first + ROWS]
        names = partial(places.sources, rows[at]) if places.with_sources else partial(list[str], [""] * len(at))
        falls.add(verdicts.select(at), partial(_place, rows[at]), names)
    return falls.found()


def _place(places: Rows, at: int) -> str:
    return str(places[at])


def count_sources(sources: Sources, rows: RowFiles, places: Places, verdicts: Verdicts) -> None:
    """Count the verdicts of all entries for their sources, in order of arrival."""
    at = np.array(places.rows, np.int64)
    for first in range(0, len(places), ROWS):
        end = min(first + ROWS, len(places))
        begin, stop = np.searchsorted(at, [first, end]).tolist()
        dates = np.full(end - first, NO_TIME)
        dates[at[begin:stop] - first] = rows.times(np.arange(begin, stop))
        decided = decided_between(rows, places, verdicts, None, first, end).verdicts
        sources.count(places.sources(np.arange(first, end)), decided, dates)


def decided_between(
    rows: RowFiles, places: Places, verdicts: Verdicts, relations: RelationsOf | None, first: int, end: int
) -> Decided:
    """Return the verdicts of the entries at places ``first`` to ``end``; refused entries have a verdict too."""
    at = np.frombuffer(places.rows, np.int64) if places.rows else np.empty(0, np.int64)
    begin, stop = np.searchsorted(at, [first, end]).tolist()
    made = blank_verdicts(end - first, REFUSED)
    for name in Verdicts._fields:
        getattr(made, name)[at[begin:stop] - first] = getattr(verdicts, name)[begin:stop]
    shared = None if relations is None else relations(np.arange(begin, stop))
    if shared is not None:
        shared = shared._replace(rows=at[begin:stop][shared.rows] - first)
    return Decided(made, first, begin, rows.ids(made.originals[made.originals >= 0]), shared)


def summary_of(rows: RowFiles, places: Rows, verdicts: Verdicts) -> dict[str, Any]:
    """Return the counts of a summary, and the largest clusters."""
    clusters, sizes = np.unique(verdicts.clusters[verdicts.statuses == DUPLICATE], return_counts=True)
    largest = np.lexsort((clusters, -sizes))[:LARGEST]
    named = np.searchsorted(places, clusters[largest])
    ids, collections = rows.ids(named), rows.collections(named) or [None] * len(largest)
    return {
        **counts_of(dict(enumerate(np.bincount(verdicts.statuses, minlength=len(STATUSES)).tolist()))),
        "largest_clusters": [
            {"id": id_, "size": size + 1, "cluster": cluster, **named_collection(name)}
            for id_, size, cluster, name in zip(
                ids, sizes[largest].tolist(), clusters[largest].tolist(), collections, strict=True
            )
        ],
    }
