"""The left half of the path of a document (``neardup.pairs.pipeline``), which has no state: documents to batches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.document import Column, Document, DocumentColumns, Refusal, check_type
from neardup.documents.ids import salts, separated_contents
from neardup.errors import ConfigError
from neardup.pairs.batches import FIXED_BYTES, Batch, bytes_of, make_batch, rows_of, select, sizes_of, sound_columns
from neardup.pairs.json_lines import Unread
from neardup.pairs.values import PlainReader, Sheet, admitted, converted, held_documents, wrong_values
from neardup.schemes.config import Config, checked
from neardup.schemes.interface import select_ragged
from neardup.schemes.rows import SCHEMES

# The C library of Linux returns freed memory to the system if more than twice the largest block that it ever mapped and
# freed is free at the end of its heap. Then each chunk gets new pages for its buffers, which doubles the time. A signer
# allocates and frees a block of this size: twice its size is more than the buffers of a chunk.
_FREED_BYTES = 16 << 20


class Signed(NamedTuple):
    """What a signer makes of documents: the batch, the refused ones, and how much was read; and the sheet that has
    columns of the batch, of plain documents."""

    batch: Batch
    refusals: list[Refusal]
    characters: int
    shingles: int
    sheet: Sheet | None = None


_new_signed = partial(tuple.__new__, Signed)  # a call of ``Signed`` takes three times as long


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
        self._plain = PlainReader(config.plan.width, separate=config.separate)
        self._row_bytes = FIXED_BYTES + config.plan.width
        self._sign_ascii = None if config.separate else self._scheme.plain(config.plan)
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
        if sheet is not None:
            return self._sign_plain(sheet)
        if unread is not None and isinstance(documents, list):
            documents[:] = converted(documents, unread)
            return self.sign(documents)
        return self._sign_any(documents)

    def _sign_plain(self, sheet: Sheet) -> Signed:
        """The same for plain documents; if all texts are ASCII and usable, on their sheet."""
        if self._sign_ascii is not None and sheet.is_ascii and sheet.longest <= self._characters_max:
            shingles, characters, fewest = self._sign_ascii(sheet.read.texts, sheet.longest, sheet.signed)
            if fewest and sheet.id_bytes + sheet.size * self._row_bytes <= self._item_bytes_max:
                sheet.documents = ()
                return _new_signed((sheet.batch, [], characters, shingles, sheet))
        documents, batch = held_documents(sheet, self._characters_max), sheet.batch
        sheet.documents = ()  # who keeps or sends what was signed keeps no texts
        signed = self._sign_admitted(documents, Column(batch.ids, batch.id_starts), batch.times, {})
        return signed._replace(sheet=sheet)

    @staticmethod
    def keep(signed: Signed) -> None:
        """Leave what ``sign`` returned as it is."""

    def fill_again(self, signed: Signed) -> None:
        """Take back what ``sign`` returned, which is not read any more: a later call fills its columns."""
        if signed.sheet is not None:
            self._plain.fill_again(signed.sheet)

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
        self, documents: Sequence[Document], ids: Column, times: npt.NDArray[np.int64], refused: dict[int, str]
    ) -> Signed:
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
        return Signed(batch, refusals, signing.characters, signing.features)
