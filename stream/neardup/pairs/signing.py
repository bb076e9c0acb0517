"""The left half of the path of a document (``neardup.pairs.pipeline``), which has no state: documents to batches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Column, Document, DocumentColumns, Refusal, check_type
from neardup.documents.ids import salts, separated_contents
from neardup.errors import ConfigError
from neardup.features.texts.plain_words import PlainRules, SplitTables
from neardup.features.texts.raw_texts import RawTexts
from neardup.features.texts.reading import HeldDocuments, HeldTexts, without_longer
from neardup.machine.compile import kernel
from neardup.machine.memory import Kept, put, reader_of
from neardup.pairs.batches import (
    FIXED_BYTES,
    Batch,
    blank_items,
    bytes_of,
    make_batch,
    put_banded,
    rows_of,
    select,
    sizes_of,
    sound_columns,
)
from neardup.pairs.json_lines import Unread
from neardup.pairs.shards import StreamRows, stream_rows
from neardup.pairs.values import LAYOUT, admitted, converted, read_plain, wrong_values
from neardup.schemes.config import Config, checked
from neardup.schemes.interface import fixed_evidence, select_ragged
from neardup.schemes.kinds.one_pass import KEPT_SHINGLES, Scratch, plain_scratch, sign_plain
from neardup.schemes.rows import SCHEMES
from neardup.schemes.signatures.banding import band_seeds

# The C library of Linux returns freed memory to the system if more than twice the largest block that it ever mapped and
# freed is free at the end of its heap. Then each chunk gets new pages for its buffers, which doubles the time. A signer
# allocates and frees a block of this size: twice its size is more than the buffers of a chunk.
_FREED_BYTES = 16 << 20
# Room for the ids of a batch at first: bytes an id, and at least.
_ID_BYTES, _IDS_BYTES_MIN = 64, 1024
_NO_SEEDS = np.empty(0, np.uint64)


class PlainColumns(NamedTuple):
    """What is made of n plain documents. Read: times (``int64[n]``), where the texts are, the bytes of the ids one
    after the other and where each begins. Signed: sketches and contents, and the first columns of ``Items``."""

    times: npt.NDArray[np.int64]
    texts: RawTexts
    ids: npt.NDArray[np.uint8]
    id_starts: npt.NDArray[np.int64]
    fixed: Annotated[npt.NDArray[np.uint8], "[,]"]
    contents: Annotated[npt.NDArray[np.uint64], "[,]"]
    kinds: npt.NDArray[np.uint8]
    keys: npt.NDArray[np.uint64]
    key_starts: npt.NDArray[np.int64]
    added: npt.NDArray[np.int64]
    payloads: npt.NDArray[np.uint64]
    item_contents: npt.NDArray[np.uint64]


class _Plain(NamedTuple):
    """What plain documents are read and signed with, and their columns."""

    columns: PlainColumns
    layout: Annotated[npt.NDArray[np.int64], "const"]
    rules: PlainRules
    tables: Annotated[SplitTables, "const"]
    seeds: npt.NDArray[np.uint64]
    scratch: Scratch
    separate: bool
    characters_max: int
    bytes_max: int


_plain_at = reader_of(_Plain)


@kernel("_Plain, i64", locked=True, direct=True)
def _keep(plain, address):
    put(plain, address)


class Sheet:
    """The columns of n plain documents, which belong to one call at a time.

    ``rows`` are a read-only view of them as a table reads them, with more room for ids than those have; ``batch`` is
    without it. Then how many documents there are, the bytes of their ids and the characters of all texts and of the
    longest; ``documents`` are those that were read. If they are signed, characters are normalised, and there are so
    many shingles, of a text ``fewest`` at least; that is 0 if they are not. Ids are full ids with separate collections.
    ``references`` counts the documents of an old set.
    """

    __slots__ = (
        "batch", "characters", "columns", "documents", "fewest", "id_bytes", "kept", "longest", "references", "rows",
        "scratch", "shingles", "size",
    )  # fmt: skip

    def __init__(self, n: int, id_bytes: int, width: int, bands: int) -> None:
        ids, id_starts = np.empty(max(id_bytes, _IDS_BYTES_MIN), np.uint8), np.empty(n + 1, np.int64)
        times, contents, fixed = np.empty(n, np.int64), np.empty((n, 2), np.uint64), np.empty((n, width), np.uint8)
        views = ids.view(), id_starts.view(), times.view(), contents.view()
        self.batch = make_batch(*views, fixed_evidence(fixed.view()))
        items, texts = blank_items(self.batch, bands * n), RawTexts(*np.empty((3, n), np.int64))
        self.rows = StreamRows(self.batch, np.zeros(n, np.bool_), items)
        self.columns = PlainColumns(times, texts, ids, id_starts, fixed, contents, *items[:6])
        self.documents: tuple[Document, ...] = ()
        self.size, self.id_bytes = n, len(ids)
        self.characters = self.longest = self.shingles = self.fewest = self.references = 0
        self.kept = Kept[_Plain](_keep)
        self.scratch: Scratch | None = None  # that ``kept`` has


class PlainReader:
    """Reads plain documents with texts, and signs them, if they are ASCII. Threads may share one."""

    def __init__(self, config: Config, bytes_max: int | None = None) -> None:
        plan: Any = config.plan
        rules = None if config.separate else SCHEMES[config.scheme].plain(plan)
        self._rules = rules or PlainRules()
        self._seeds = band_seeds(plan.tuning.bands, plan.seed) if rules else _NO_SEEDS
        self._width, self._separate = plan.width, config.separate
        self._bounds = config.separate, config.text_characters_max, bytes_max or config.evidence_bytes_max
        self.idle, self._scratch = list[Sheet](), list[Scratch]()  # those that no call uses now

    def read(self, documents: Sequence[Document]) -> Sheet | None:
        """Return the columns of documents; ``None`` if one of them is not plain."""
        rows = tuple(documents)  # whatever becomes of a list, these stay
        sheet: Sheet | None
        scratch: Scratch | None
        try:  # another thread may take the last one
            sheet = self.idle.pop()
        except IndexError:
            sheet = None
        try:
            scratch = self._scratch.pop()
        except IndexError:
            scratch = None
        if scratch is None or sheet is None or sheet.scratch is not scratch or sheet.size != len(rows):
            sheet, scratch = self._made(len(rows), sheet, scratch)
        while True:
            found = _sign(sheet.kept.address, id(rows))
            id_bytes, sheet.characters, sheet.longest, sheet.shingles, sheet.fewest, sheet.references = found
            if sheet.fewest >= 0:
                break
            sheet, scratch = self._made(len(rows), sheet, scratch, id_bytes, sheet.longest)
        if sheet.longest <= KEPT_SHINGLES or len(scratch.shingles) <= KEPT_SHINGLES:
            self._scratch.append(scratch)
        else:
            sheet.kept.value = sheet.scratch = None  # else the sheet would keep it
        if id_bytes != sheet.id_bytes:
            if id_bytes < 0:
                return None
            whole = sheet.rows.batch
            sheet.batch, sheet.id_bytes = _new_batch((whole[0][:id_bytes], *whole[1:])), id_bytes
        sheet.documents = rows
        return sheet

    def _made(
        self, size: int, sheet: Sheet | None, scratch: Scratch | None, id_bytes: int = 0, longest: int = 0
    ) -> tuple[Sheet, Scratch]:
        """Return a sheet and scratch with more room if they lack it, written for the kernel."""
        if sheet is None or sheet.size != size or len(sheet.columns.ids) < id_bytes:
            sheet = Sheet(size, max(id_bytes, _ID_BYTES * size), self._width, len(self._seeds))
        if scratch is None or len(scratch.shingles) < longest:
            scratch = plain_scratch(self._rules, longest)
        rules = self._rules
        sheet.kept.renew(_Plain(sheet.columns, LAYOUT, rules, rules.tables, self._seeds, scratch, *self._bounds))
        sheet.scratch = scratch
        return sheet, scratch


@kernel("i64, i64", direct=True)
def _sign(plain, documents):
    """Fill in the columns of the documents in the tuple at an address; sign them if all texts are ASCII and of at most
    ``characters_max`` characters, and what is made of them has at most ``bytes_max`` bytes.

    Returns the bytes of the ids, below 0 if a document is not plain; the characters of all texts and of the longest;
    how many shingles they have, and the least number: 0 if they are not signed, -1 if there is no room for them; and
    how many are of an old set.
    """
    columns, layout, rules, tables, seeds, scratch, separate, characters_max, bytes_max = _plain_at(plain)
    id_bytes, characters, longest, all_ascii, references = read_plain(documents, layout, separate, columns)
    signs = all_ascii and id_bytes >= 0 and rules.rows > 0 and longest <= characters_max
    signs = signs and id_bytes + len(columns.times) * (FIXED_BYTES + columns.fixed.shape[1]) <= bytes_max
    if id_bytes > len(columns.ids) or (signs and longest > len(scratch.shingles)):
        return id_bytes, characters, longest, np.int64(0), np.int64(-1), references
    if not signs:
        return id_bytes, characters, longest, np.int64(0), np.int64(0), references
    read, characters, shingles, fewest, columns.key_starts[0] = characters, np.int64(0), np.int64(0), longest, 0
    for i in range(len(columns.times)):
        length, count = sign_plain(columns.texts, i, rules, tables, scratch, columns.fixed[i], columns.contents[i])
        put_banded(
            columns, i, seeds, columns.kinds, columns.keys, columns.key_starts, columns.added, columns.payloads,
            columns.item_contents,
        )  # fmt: skip
        characters, shingles, fewest = characters + length, shingles + count, min(fewest, count)
    return id_bytes, characters if fewest else read, longest, shingles, fewest, references


def held_documents(sheet: Sheet, characters_max: int) -> HeldDocuments:
    """Return plain documents with their texts found; texts that are longer than ``characters_max`` are refused."""
    texts, documents = sheet.columns.texts, sheet.documents
    held = HeldTexts(texts, {}, sheet.characters, documents)
    if sheet.longest > characters_max:
        held = without_longer(texts, characters_max, documents)
    return HeldDocuments(documents, held)


class Signed(NamedTuple):
    """What a signer makes of documents: the batch, the refused ones, and how much was read; the sheet that has columns
    of the batch, of plain documents; and the rows of a batch, where they were made beforehand (``with_rows``)."""

    batch: Batch
    refusals: list[Refusal]
    characters: int
    shingles: int
    sheet: Sheet | None = None
    read: StreamRows | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Signed, self[:4]  # a sheet is memory of this process, and rows follow from the batch

    @property
    def rows(self) -> StreamRows | None:
        """The rows of the batch, where they were made with it."""
        sheet, read = self.sheet, self.read
        if sheet is not None and sheet.batch is self.batch:
            return sheet.rows
        return read if read is not None and read.batch is self.batch else None

    def with_rows(self, config: Config) -> Signed:
        """Return the same with the rows of the batch: who matches need not make them."""
        return self if self.rows is not None else self._replace(read=stream_rows(self.batch, config))


# Calls of the named tuples themselves take three times as long.
_new_signed, _new_batch = partial(tuple.__new__, Signed), partial(tuple.__new__, Batch)


class Signer:
    """Documents -> batches, without state: the same document always gives the same row. Threads may share one.

    Args:
        config: the settings; ``config.signing_fingerprint`` names everything that decides a batch.
        item_bytes_max: bytes of a signed document at most, by default ``evidence_bytes_max``; larger ones are refused.
        queries: the documents only probe; by dot product those longer than ``norm_max`` are scaled to it.

    Example:
        >>> signed = Signer(Config()).sign([Document("a", "some text"), Document("b", "")])
        >>> signed.batch.size, signed.refusals
        (1, [Refusal(position=1, id='b', reason='empty')])
    """

    def __init__(self, config: Config, item_bytes_max: int | None = None, *, queries: bool = False) -> None:
        self.config, self._queries = checked(config), queries
        self._item_bytes_max = item_bytes_max or config.evidence_bytes_max
        self._scheme = SCHEMES[config.scheme]
        self._reads_texts = config.plan.kind == "text"
        self._plain = PlainReader(config, self._item_bytes_max)
        self._characters_max = config.text_characters_max
        np.empty(_FREED_BYTES, np.uint8)  # freed at once

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Signer, queries=self._queries), (self.config, self._item_bytes_max)

    def sign(self, documents: Sequence[Document], unread: Unread | None = None) -> Signed:
        """Sign documents; those that cannot be used are refused with a reason, the others keep their order. With
        ``unread`` a list that is not plain becomes what ``converted`` makes of it."""
        if type(documents) is not list and isinstance(documents, DocumentColumns):
            return self._sign_columns(documents)
        sheet = self._plain.read(documents) if self._reads_texts else None
        if sheet is None:
            if unread is not None and isinstance(documents, list):
                documents[:] = converted(documents, unread)
                return self.sign(documents)
            return self._sign_any(documents)
        if sheet.fewest:
            sheet.documents = ()  # who keeps or sends what was signed keeps no texts
            return _new_signed((sheet.batch, [], sheet.characters, sheet.shingles, sheet, None))
        held, batch, sheet.documents = held_documents(sheet, self._characters_max), sheet.batch, ()
        return self._sign_admitted(held, Column(batch.ids, batch.id_starts), batch.times, {}, sheet)

    @staticmethod
    def keep(signed: Signed) -> None:
        """Leave what ``sign`` returned as it is."""

    def fill_again(self, signed: Signed) -> None:
        """Take back what ``sign`` returned, which is not read any more: a later call fills its columns."""
        if signed.sheet is not None:
            self._plain.idle.append(signed.sheet)

    def _sign_any(self, documents: Sequence[Document]) -> Signed:
        """The same for documents that may have values of any types."""
        for document in documents:
            check_type(document, Document, "a signer takes a list of neardup.Document")
        query = self._scheme.query
        if self._queries and query is not None:
            documents = [query(document, self.config.plan) for document in documents]
        wrong = wrong_values(documents, self.config.plan.kind, separate=self.config.separate)
        if not wrong:
            return self._sign(documents)
        good = [position for position in range(len(documents)) if position not in wrong]
        signed = self._sign([documents[position] for position in good])
        refusals = [refusal._replace(position=good[refusal.position]) for refusal in signed.refusals]
        refusals += [Refusal(position, str(documents[position].id), reason) for position, reason in wrong.items()]
        return signed._replace(refusals=sorted(refusals))

    def sign_columns(
        self, ids: Column, times: npt.NDArray[np.float64], texts: Column, collections: Column | None = None
    ) -> Signed:
        """Sign n documents that are columns (``neardup.stories.arrow.columns.column_of``), without an object for each.

        Args:
            ids: the ids, in UTF-8. Starts may have 32 bits.
            times: event times in seconds since the epoch, ``float64[n]``; not a number where there is none.
            texts: the texts, in UTF-8.
            collections: the collections, in UTF-8, empty for none; ``Config.collection_field`` must be set.

        Returns:
            What ``sign`` returns for the same documents. Texts and ids that are not UTF-8 are refused
            (``text_not_utf8``, ``id_not_utf8``).

        Raises:
            ConfigError: if the scheme does not compare texts, the columns have different lengths, an array has another
                type, or starts do not stay inside their data.

        Example:
            >>> column = Column(np.frombuffer(b"onetwo", np.uint8), np.array([0, 3, 6]))
            >>> Signer(Config()).sign_columns(column, np.full(2, np.nan), column).batch.size
            2
        """
        if collections is not None and not self.config.separate:
            raise ConfigError("documents have collections, but collection_field is not set: set it")
        return self._sign_columns(sound_columns(ids, times, texts, collections))

    def _sign_columns(self, documents: DocumentColumns) -> Signed:
        """The same for columns that are known to be sound."""
        if (kind := self.config.plan.kind) != "text":
            raise ConfigError(f"documents of {self.config.scheme} bring {kind}, but columns hold texts: call sign")
        return self._sign(documents)

    def _sign(self, documents: Sequence[Document]) -> Signed:
        """The same for documents whose values have the types that they should have."""
        return self._sign_admitted(documents, *admitted(documents, separate=self.config.separate))

    def _sign_admitted(
        self, documents: Sequence[Document], ids: Column, times: npt.NDArray[np.int64], refused: dict[int, str],
        sheet: Sheet | None = None,
    ) -> Signed:  # fmt: skip
        """The same with their ids and times, and the reasons of unusable ones, by position."""
        plan, scheme = self.config.plan, self._scheme
        every = range(len(documents))
        positions: Sequence[int] = [i for i in every if i not in refused] if refused else every
        signing = scheme.sign(scheme, rows_of(documents, positions) if refused else documents, plan)
        if signing.refused:
            refused = refused | {positions[i]: why for i, why in signing.refused.items()}
        if refused:
            positions = [i for i in positions if i not in refused]
            ids, times = Column(*select_ragged(*ids, np.array(positions, np.int64))), times[positions]
        contents = signing.contents
        if self.config.separate:
            contents = separated_contents(contents, salts(*ids))
        batch = make_batch(ids.data, ids.starts, times, contents, signing.evidence)
        if bytes_of(batch) > self._item_bytes_max:
            too_large = sizes_of(batch) > self._item_bytes_max
            refused |= {positions[i]: "evidence_too_large" for i in np.flatnonzero(too_large).tolist()}
            batch = select(batch, np.flatnonzero(~too_large)) if too_large.any() else batch
        refusals = [Refusal(i, documents[i].id, refused[i]) for i in sorted(refused)] if refused else []
        return _new_signed((batch, refusals, signing.characters, signing.features, sheet, None))
