"""What each source published, as lines of JSON or as a table: the ledger of a run, written at its end."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import cast

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Column, Document
from neardup.pairs.signing import Signed
from neardup.stories.sources.brake import sentence
from neardup.stories.sources.ledger import Ledger
from neardup.stories.sources.names import host_of, source_named, source_of
from neardup.stories.sources.reports import Reports
from neardup.stories.verdicts.deciding import Decided
from neardup.stories.verdicts.fields import Verdicts
from neardup.window import NO_TIME
from neardup_workers.outside.outputs.lines_file import LinesFile
from neardup_workers.outside.outputs.verdict_lines import encoded
from neardup_workers.outside.readers.entries import Entry, LineRows, TableRows

# What a table leaves out: lists.
_LISTS = ("earlier_in", "later_in", "hours")
# So many documents are counted together: a source has several of them, and the arrays are long enough to pay.
_DOCUMENTS = 1 << 14


class Sources:
    """The ledger of a run. In files only the order of arrival is known; the times of documents are their dates."""

    def __init__(self, path: str, sources_max: int) -> None:
        self._file = LinesFile(path, "the sources")
        self._is_table = path.lower().endswith(".csv")
        self._ledger = Ledger(sources_max)
        self._waiting: list[Reports] = []
        self._documents = 0  # of those that wait

    @property
    def ledger(self) -> Ledger:
        """The ledger with all that was counted."""
        self._fold()
        return self._ledger

    def _fold(self) -> None:
        if self._waiting:
            names = [name for reports in self._waiting for name in reports.sources]
            columns = map(np.concatenate, zip(*(reports[1:] for reports in self._waiting), strict=True))
            self._waiting, self._documents = [], 0
            self._ledger.add(Reports(names, *columns))

    def add(self, entries: Sequence[Entry], accepted: npt.NDArray[np.bool_], signed: Signed, decided: Decided) -> None:
        """Count the verdicts of entries; ``accepted`` (``bool[n]``) says which of them are documents of ``signed``."""
        dates = np.full(len(entries), NO_TIME)
        dates[accepted] = signed.batch.times
        self.count(sources_of(entries), decided.verdicts, dates)

    def count(self, sources: Sequence[str], verdicts: Verdicts, dates: npt.NDArray[np.int64]) -> None:
        """Count n verdicts; ``dates`` are times of documents in microseconds, ``NO_TIME`` for none (``int64[n]``)."""
        unknown = np.full(len(dates), NO_TIME)
        self._waiting.append(Reports(sources, verdicts.statuses, verdicts.clusters, verdicts.late, unknown, dates))
        self._documents += len(sources)
        if self._documents >= _DOCUMENTS:
            self._fold()

    def notes(self) -> list[str]:
        """Return a sentence for each hour in which a source repeated itself, unlike in the week before, and one for
        what was forgotten."""
        forgotten = ", ".join(f"{number:,} {bound}" for bound, number in sorted(self.ledger.exceeded.items()))
        return [f"warning: {sentence(one)}" for one in self.ledger.repeating()] + [
            f"warning: the counts of sources are not exact, because the ledger has forgotten {forgotten}: raise "
            "sources_max"
        ] * bool(forgotten)

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write the file; after an exception, leave it as it was."""
        if kind is None or issubclass(kind, BrokenPipeError):
            data = self._table() if self._is_table else self._lines()
            self._file.act(lambda file: file.write(data))
            self._file.close()
        else:
            self._file.discard()

    def _lines(self) -> bytes:
        return b"".join(encoded(reading) + b"\n" for reading in self.ledger.every())

    def _table(self) -> bytes:
        rows = [
            {name: value for name, value in reading.items() if name not in _LISTS}
            for reading in self.ledger.largest(self.ledger.sources_max)
        ]
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]) if rows else ["source"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode(errors="replace")


def source_names(entries: Sequence[Entry], accepted: npt.NDArray[np.bool_]) -> Callable[[int], str]:
    """Return the function that names the source of a document by its position among those that are ``accepted``."""
    rows = np.flatnonzero(accepted)
    sources = cache(lambda: sources_of(entries))  # most chunks need none
    return lambda item: sources()[rows[item]]


def sources_of(entries: Sequence[Entry]) -> list[str]:
    """Return the source of each entry, empty for none."""
    if isinstance(entries, TableRows):
        return [source_of(document) or "" for document in entries.with_sources()]
    if isinstance(entries, LineRows) and entries.sources is not None and entries.urls is not None:
        return sources_in(entries.documents.ids, entries.sources, entries.urls)
    return sources_among(entry.found for entry in entries)


def sources_among(documents: Iterable[object]) -> list[str]:
    """Return the source of each document, empty for none and for what is no document."""
    return [(source_of(one) or "") if isinstance(one, Document) else "" for one in documents]


def sources_in(ids: Column, sources: Column, urls: Column) -> list[str]:
    """Return the source of each document of columns, empty for none."""
    if len(sources.data) == 0 and np.all(np.diff(urls.starts) > 0):  # addresses alone
        hosts = list(map(host_of, _strings(urls)))
        if None not in hosts:
            return cast("list[str]", hosts)
    return [source_named(*one) or "" for one in zip(*map(_strings, (ids, sources, urls)), strict=True)]


def _strings(column: Column) -> list[str]:
    starts, text = column.starts.tolist(), column.data.tobytes().decode(errors="replace")
    if len(text) != len(column.data):  # not ASCII alone
        return [column.at(i).decode(errors="replace") for i in range(len(starts) - 1)]
    return [text[a:b] for a, b in pairwise(starts)]
