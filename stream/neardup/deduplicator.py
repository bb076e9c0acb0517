"""Near-duplicates in one process: the signer and the matcher of ``neardup.pairs.pipeline``, one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sized
from functools import partial
from threading import Lock
from types import NoneType
from typing import Any, TypeVar

import numpy as np

from neardup.documents.chunks import chunks
from neardup.documents.document import Document, Explanation, Neighbour, Pair, Refusal, Verdict, check_type
from neardup.documents.ids import stored_id
from neardup.errors import ConfigError
from neardup.pairs.explanations.explain import explain
from neardup.pairs.json_lines import Fields
from neardup.pairs.neighbours.nearest import check_ranks, ranked
from neardup.pairs.pair_rule import Matches
from neardup.pairs.pipeline import Matcher, match_step
from neardup.pairs.signing import Signed, Signer
from neardup.pairs.values import UnreadTimes, warn_of_times, warn_of_types, without_future
from neardup.pairs.window_message import reader_of
from neardup.schemes.config import Config, checked
from neardup.schemes.shortfall import warned
from neardup.stories.arrow.columns import DocumentRows
from neardup.stories.arrow.tables import (
    ArrowTable,
    Documents,
    RowNumbers,
    accepted_rows,
    pair_table,
    signer_of_rows,
    texts_of,
    verdict_part,
)
from neardup.stories.canaries.canaries import Canaries, recall_values
from neardup.stories.verdicts.decider import Decider
from neardup.stories.windows.messages import fill, saved

# A part of the input, an answer, the answers of a call.
_P = TypeVar("_P", bound=Sized)
_T = TypeVar("_T")
_R = TypeVar("_R")


class Deduplicator:
    """Near-duplicates in one process: give it documents as they arrive, get the pairs they make.

    Threads may share one: documents are signed in parallel, and one lock guards the table. Of the documents of one call
    the order is kept; those of another thread may come between its chunks.

    Args:
        config: what to find and within which limits; ``Config()`` by default.
        candidates: report the candidates below the minimum score as well.
        canaries_every: of one document in so many an edited copy is looked up (``recall``); 0 for none.
        now: a clock, such as ``time.time``: times more than a day ahead of it count as none. Without it all count.

    Attributes:
        refusals: the refused documents of the call that ended last.
        refused: how many documents were refused so far.

    Example:
        >>> dedup = Deduplicator(Config(threshold=0.7))
        >>> text = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."
        >>> dedup.process([Document("a", text), Document("b", text.replace("dog,", "cat,"))])[0][:2]
        ('a', 'b')
    """

    def __init__(
        self, config: Config | None = None, *, candidates: bool = False, canaries_every: int = 0,
        now: Callable[[], float] | None = None,
    ) -> None:  # fmt: skip
        check_type(now, (Callable, NoneType), "now is a function that returns seconds since the epoch: now=time.time")  # type: ignore[arg-type]
        self.config, self._now = Config() if config is None else checked(config), now
        self.signer, self._query_signer = Signer(self.config), Signer(self.config, queries=True)
        self.matcher = Matcher(self.config, candidates=candidates)
        self._canaries, self._decider = Canaries(self.matcher, canaries_every), Decider(self.matcher)
        self.refusals, self.refused, self._lock = list[Refusal](), 0, Lock()
        self._row_numbers = RowNumbers(lambda: self._decider.places)
        self._undated = Counter[str]()  # times that count as none, by reason
        # Documents by the number of bands that have a key; None where all have one, and once a warning was given.
        self._bands = np.zeros(self.config.tuning.bands + 1, np.int64) if self.matcher.scheme.partial else None

    def process(self, documents: Iterable[Document]) -> list[Pair]:
        """Probe with each document, then add it.

        A document with a value that cannot be used is a refusal with a reason; the others are processed. Values of a
        wrong type give a warning, too, and so do dates that count as none.

        Args:
            documents: in order of arrival.

        Returns:
            The pairs that they make with earlier ones and with each other, in order of the newer.

        Raises:
            TypeError: an element is no ``Document``.
            Exception: whatever the iterable raises. The documents before it are added, and the exception has an
                attribute ``pairs`` with the pairs that they made.
        """
        return self._run(documents, self.signer, self._added, "pairs")

    def process_stream(self, documents: Iterable[Document]) -> Iterator[Pair]:
        """Yield the pairs of ``process``, each once its newer document is here; ``refusals`` is of the last one."""
        for document in documents:
            yield from self._run([document], self.signer, self._added, "pairs")

    def process_table(
        self,
        table: object,
        *,
        id_field: str = "id",
        text_field: str = "text",
        timestamp_field: str = "timestamp",
        timestamp_unit: str = "s",
    ) -> ArrowTable:
        """Probe with each row of a table, then add it, as ``process`` does, without an object for a text.

        Args:
            table, id_field, text_field, timestamp_field, timestamp_unit: as for ``decide_table``.

        Returns:
            A ``pyarrow.Table`` of the pairs: ``older``, ``newer``, ``similarity``, ``buckets`` as in a ``Pair``, and
            ``collection``, if there are collections.

        Raises:
            ConfigError: a column is missing or of a wrong type; the scheme compares no texts; pyarrow is not installed.
            Exception: whatever the stream raises; its attribute ``pairs`` has the table of the pairs before.
        """
        given = self._documents(table, id_field, text_field, timestamp_field, timestamp_unit)

        def answer(rows: DocumentRows, signed: Signed) -> list[Matches]:
            matches = [match_step(self.matcher, signed.batch)]
            self._canaries.after(accepted_rows(rows, signed.refusals), signed.batch)
            return matches

        sign, joined = signer_of_rows(self.signer), partial(pair_table, separate=self.config.separate)
        return self._answers(given, sign, answer, "pairs", joined, given.unread)

    def probe(self, documents: Iterable[Document]) -> list[Pair]:
        """The pairs that ``process`` would report for each document alone; adds nothing, changes nothing."""
        return self._run(documents, self._query_signer, self._probed, "pairs")

    def nearest(self, documents: Iterable[Document], k: int) -> list[list[Neighbour]]:
        """The ``k`` most similar documents in the window of each document; adds nothing, changes nothing.

        Neighbours below the threshold are named too, as far as they are found. ``threshold`` and ``recall`` decide how
        likely that is; an exact scheme names no neighbour below the threshold. The copies of a content are one
        neighbour, the newest of them.

        Args:
            documents: to find neighbours of.
            k: number of neighbours of a document at most, 1 or more.

        Returns:
            One list for each document, in order, best first; empty for a refused document.

        Raises:
            ConfigError: ``k`` is less than 1, or the scheme cannot rank.
            Exception: whatever the iterable raises; its attribute ``neighbours`` has those of the documents before.

        >>> dedup = Deduplicator(Config(threshold=0.6))
        >>> text = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."
        >>> documents = [Document("a", text), Document("b", text + " It sleeps."), Document("c", "Other words")]
        >>> [pair[:2] for pair in dedup.process(documents)]
        [('a', 'b')]
        >>> [neighbour.id for neighbour in dedup.nearest([Document("", text + " It sleeps!")], 2)[0]]
        ['b', 'a']
        """
        check_ranks(self.config, k)

        def neighbours(chunk: list[Document], signed: Signed) -> Iterator[list[Neighbour]]:
            refused = {refusal.position for refusal in signed.refusals}
            ranking = (one for part in ranked(self.matcher, signed.batch, k) for one in part.neighbours)
            return ([] if position in refused else next(ranking) for position in range(len(chunk)))

        return self._run(documents, self._query_signer, neighbours, "neighbours")

    def decide(self, documents: Iterable[Document], *, reference: bool = False) -> list[Verdict]:
        """Add each document and decide whether to keep it.

        A document is dropped only if its content was compared with that of an original in its window, and their
        similarity reaches the least score of a pair. Verdicts are final, and do not depend on how the documents are
        divided into calls. Documents that ``process`` added before the first call count for nothing.

        Args:
            documents: in order of arrival.
            reference: they are an old set, as if each had ``Document.reference``: all are kept.

        Returns:
            One verdict for each document, in order.

        Raises:
            ConfigError: documents were processed between two calls, or the deduplicator reports candidates.
            Exception: whatever the iterable raises; its attribute ``verdicts`` has those of the documents before.

        >>> dedup = Deduplicator(Config(threshold=0.7))
        >>> text = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."
        >>> [verdict.status for verdict in dedup.decide([Document("a", text), Document("b", text + "!")])]
        ['original', 'duplicate']
        """
        decided = partial(self._decided, reference=True) if reference else self._decided
        return self._run(documents, self.signer, decided, "verdicts")

    def decide_table(
        self,
        table: object,
        *,
        id_field: str = "id",
        text_field: str = "text",
        timestamp_field: str = "timestamp",
        timestamp_unit: str = "s",
    ) -> ArrowTable:
        """Add each row of a table and decide whether to keep it, as ``decide`` does, without an object for a text.

        Args:
            table: anything with the Arrow C stream interface, such as a frame of pyarrow, Polars, pandas or DuckDB; a
                lazy frame, a dataset of Hugging Face, a series or list of texts, dicts. It is decided as it comes.
            id_field: the column of ids: strings, whole numbers (also as floats) or UUIDs. A row without one has the id
                ``row:N``; N counts the rows of all tables from 1. A column "id" may be absent.
            text_field: the column of texts: strings, or bytes in UTF-8; or a path into structs (``article.body``),
                several joined (``title,body``), lists of texts or of messages with texts.
            timestamp_field: the column of times, which may be absent: timestamps, dates, numbers, or strings in ISO
                8601 or RFC 2822; without a zone, UTC.
            timestamp_unit: the unit of times that are numbers: s, ms, us or ns.

        Returns:
            A ``pyarrow.Table`` with a row for each row of ``table``, in order: the column of ids, the fields of a
            ``Verdict`` as columns (``duplicate_of`` has the type of the ids, or strings if it names a row without one),
            and ``reason``, why a row was refused. A row without a text is refused.

        Raises:
            ConfigError: as ``decide`` does; a column is missing or of a wrong type; the scheme compares no texts;
                pyarrow is not installed.
            Exception: whatever the stream raises; its attribute ``verdicts`` has the table of the rows before.

        >>> import pyarrow
        >>> dedup = Deduplicator(Config(threshold=0.7))
        >>> text = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."
        >>> verdicts = dedup.decide_table(pyarrow.table({"id": [1, 2], "text": [text, text + "!"]}))
        >>> [(row["id"], row["status"], row["duplicate_of"]) for row in verdicts.to_pylist()]
        [(1, 'original', None), (2, 'duplicate', 1)]
        """
        given = self._documents(table, id_field, text_field, timestamp_field, timestamp_unit)

        def answer(rows: DocumentRows, signed: Signed) -> list[list[object]]:
            accepted = ~np.isin(np.arange(len(rows)), [refusal.position for refusal in signed.refusals])
            decided = self._decider.decide_columns(accepted, signed, texts=partial(texts_of, rows))
            self._canaries.after(accepted_rows(rows, signed.refusals), signed.batch)
            return [verdict_part(rows, signed.refusals, decided)]

        return self._answers(given, signer_of_rows(self.signer), answer, "verdicts", given.verdicts, given.unread)

    def remove(self, id_: str, collection: str | None = None) -> int:
        """Remove every version of an id of a collection, which is never reported again; return how many there were."""
        check_type(id_, str, "an id is a string: call remove for each id")
        if collection is not None and not self.config.separate:
            raise ConfigError(f"collection={collection!r} is given, but collection_field is not set: set it")
        with self._lock:
            self._decider.settle()
            return self._decider.remove(stored_id(id_, collection, separate=self.config.separate))

    def explain(self, a: str | Document, b: str | Document, collection: str | None = None) -> Explanation:
        """Why two documents are a pair, or why not; changes nothing.

        Args:
            a: an id, which stands for its latest version in the window; or a document, which is looked at as if it
                came now.
            b: another one, in any order.
            collection: of the ids.

        Returns:
            The reason, similarity, common buckets, and how likely a pair of that similarity is found; of two texts also
            the passages that they share and in which they differ. ``truncated``: the pair would not be found today.

        >>> dedup = Deduplicator(Config(threshold=0.7))
        >>> text = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."
        >>> pairs = dedup.process([Document("a", text), Document("b", text + "!"), Document("c", "Other words")])
        >>> dedup.explain("a", "b").reason, dedup.explain("a", "c").reason, dedup.explain("a", "z").reason
        ('pair', 'no_bucket', 'unknown')
        """
        with self._lock:
            return explain(self.matcher, self.signer, a, b, collection)

    def recall(self) -> dict[str, Any]:
        """What is found of what should be, as far as it is known while documents come.

        Returns:
            ``limits``: pairs of different contents that were found, those that limits of candidates are expected to
            have cost, and the fraction found. ``canaries``: what was found of edited copies of documents, with an
            interval; ``faults`` are misses without a cause. Schemes of other than sets have no canaries.

        >>> dedup = Deduplicator(canaries_every=100)
        >>> pairs = dedup.process(Document(str(n), f"text number {n * n} of {n}") for n in range(2_000))
        >>> found = dedup.recall()["canaries"]
        >>> found["faults"], found["trials"] > 10
        (0, True)
        """
        with self._lock:
            return recall_values(self.matcher.table.counts(), self._canaries)

    def counts(self) -> dict[str, int]:
        """``neardup.window.COUNTERS``, documents ``refused``, and ``undated`` ones, whose time counts as none."""
        with self._lock:
            self._decider.settle()
            return {**self.matcher.table.counts(), "refused": self.refused, "undated": self._undated.total()}

    def save(self) -> bytes:
        """The window as bytes, to continue from with ``load``: the signed documents and the decisions, no text.

        The format is that of ``neardup run --keep`` and ``neardup dedup --keep``. The counts are not part of it.
        """
        with self._lock:
            self._decider.settle()
            return b"".join(saved(self.matcher, self._decider.save()))

    def load(self, data: bytes, *, salvage: bool = False) -> None:
        """Hold the window that ``save`` wrote, as if its documents had been processed, or decided, here.

        Args:
            data: the window.
            salvage: of a damaged window, hold the documents of its sound parts, and decide them again.

        Raises:
            WireError: the bytes are no window, are damaged, or were signed under another configuration.
            ValueError: documents were processed before.
        """
        check_type(data, (bytes, bytearray, memoryview), "a window is bytes: neardup.load_window takes a path")
        if self.counts()["items"]:
            raise ValueError("a window is loaded before any document is processed: load it into a new Deduplicator")
        with self._lock:
            fill(self.matcher, reader_of(data), self._decider, decide=salvage, salvage=salvage)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Deduplicator cannot be pickled or copied: neardup.save_window writes its window to a file")

    def _documents(self, table: object, id_: str, text: str, timestamp: str, unit: str) -> Documents:
        fields = Fields(id_, text, timestamp, timestamp_unit=unit, collection=self.config.collection_field)
        return Documents(table, fields, self._row_numbers)

    def _added(self, chunk: list[Document], signed: Signed) -> list[Pair]:
        pairs = match_step(self.matcher, signed.batch, signed.rows).pairs()
        self._canaries.after(chunk, signed.batch, signed.refusals)
        return pairs

    def _decided(self, chunk: list[Document], signed: Signed, *, reference: bool = False) -> list[Verdict]:
        verdicts = self._decider.decide(chunk, signed, reference=reference)
        self._canaries.after(chunk, signed.batch, signed.refusals)
        return verdicts

    def _probed(self, _: list[Document], signed: Signed) -> list[Pair]:
        return self.matcher.match(signed.batch, add=False, rows=signed.rows).pairs()

    def _run(
        self, documents: Iterable[Document], signer: Signer,
        answer: Callable[[list[Document], Signed], Iterable[_T]], name: str,
    ) -> list[_T]:  # fmt: skip
        return self._answers(chunks(documents), signer.sign, answer, name, list, UnreadTimes(), signer.fill_again)

    def _answers(
        self, parts: Iterable[_P], sign: Callable[[_P, UnreadTimes], Signed],
        answer: Callable[[_P, Signed], Iterable[_T]], name: str, joined: Callable[[list[_T]], _R], unread: UnreadTimes,
        done: Callable[[Signed], None] = Signer.keep,
    ) -> _R:  # fmt: skip
        """Sign and answer part by part; an exception carries the joined answers before it as attribute ``name``."""
        refusals: list[Refusal] = []
        answers: list[_T] = []  # a call of ``list[_T]`` takes half a microsecond
        first = 0
        try:
            for part in parts:
                signed = sign(part, unread)
                if self._now is not None:
                    signed = signed._replace(batch=without_future(signed.batch, self._now(), unread))
                if signed.refusals:
                    with self._lock:
                        self.refused += len(signed.refusals)
                    refusals += [refusal._replace(position=first + refusal.position) for refusal in signed.refusals]
                first += len(part)
                with self._lock:
                    self._decider.settle()  # under the lock, a step that is open was left by exceptions
                    answers += answer(part, signed)
                    if self._bands is not None:
                        self._bands = warned(self._bands, signed.batch.evidence, self.config, stacklevel=5)
                done(signed)
        except BaseException as error:
            error.__dict__[name] = joined(answers)
            raise
        finally:
            self.refusals = refusals
            if unread:
                with self._lock:
                    said, self._undated = self._undated, self._undated + Counter(unread.counts)
        if unread:
            warn_of_times(unread, said, stacklevel=4)
        if refusals and name != "verdicts":  # which have the reason
            warn_of_types(refusals, stacklevel=4)
        return joined(answers)
