"""Columnar batches: the output of a signer, the input of a table, and the form in which items travel."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.documents.dates import SECONDS_MAX
from neardup.documents.document import COLLECTION, ID, REFERENCE, Column, Document, DocumentColumns, Refusal
from neardup.documents.ids import full_id, full_id_column, has_separator, salts, separated_keys, strings_at
from neardup.errors import ConfigError
from neardup.machine.compile import inlined, kernel
from neardup.machine.kernels.hashing import hash_strings, string_hash
from neardup.schemes.config import Config
from neardup.schemes.interface import NO_PAYLOADS, Evidence, Keys, fixed_evidence, select_ragged
from neardup.schemes.rows import SCHEMES
from neardup.schemes.signatures.banding import band_seeds, put_keys
from neardup.window import NO_TIME, OWN, Items
from neardup.window.chains import DERIVED, KEYS

MICROSECONDS = 1_000_000
# Bytes of a document without its id and its evidence: time, content, length of the id, length of the ragged evidence.
FIXED_BYTES = 8 + 16 + 2 + 4
# Which half of a content hash names the content where one number must do: the half that a table stores.
CONTENT_HALF = 1
# Separates the hashes of ids from every other 64-bit hash in the table.
ID_SEED = np.uint64(0x1D5EED)


class Batch(NamedTuple):
    """n signed documents as columns.

    ``ids`` are the UTF-8 bytes of all ids, id i at ``id_starts[i]:id_starts[i + 1]`` (``uint8``, ``int64[n + 1]``);
    ``times`` are event times in microseconds, ``NO_TIME`` for none (``int64[n]``); ``contents`` are 128-bit hashes
    (``uint64[n, 2]``); ``fixed``, ``ragged`` and ``ragged_starts`` are the ``Evidence``. Made by ``make_batch``. With
    collections, the ids are full ids (``neardup.documents.ids``).
    """

    ids: npt.NDArray[np.uint8]
    id_starts: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    contents: Annotated[npt.NDArray[np.uint64], "[,]"]
    fixed: Annotated[npt.NDArray[np.uint8], "[,]"]
    ragged: npt.NDArray[np.uint8]
    ragged_starts: npt.NDArray[np.int64]

    @property
    def size(self) -> int:
        """The number of documents."""
        return len(self.times)

    @property
    def evidence(self) -> Evidence:
        """The evidence of each document."""
        return Evidence(self.fixed, self.ragged, self.ragged_starts)

    def ids_at(self, rows: npt.NDArray[np.integer]) -> list[str]:
        """The ids of some rows, as strings."""
        return strings_at(self.ids.data, self.id_starts[rows].tolist(), self.id_starts[rows + 1].tolist())

    def __reduce__(self) -> tuple[Any, ...]:
        return make_batch, (*self[:4], self.evidence)  # read-only again: another mix would compile the kernels


def make_batch(
    ids: npt.NDArray[np.uint8],
    id_starts: npt.NDArray[np.int64],
    times: npt.NDArray[np.int64],
    contents: npt.NDArray[np.uint64],
    evidence: Evidence,
) -> Batch:
    """Make a batch of these columns, all read-only from now on: each mix of writable arrays would compile the kernels
    again."""
    batch = Batch(ids, id_starts, times, contents, *evidence)
    for column in batch:
        column.setflags(write=False)
    return batch


def concatenate(batches: Sequence[Batch]) -> Batch:
    """Concatenate one or more batches of one scheme."""
    if len(batches) == 1:
        return batches[0]
    return make_batch(
        ids=np.concatenate([batch.ids for batch in batches]),
        id_starts=_joined_starts([batch.id_starts for batch in batches]),
        times=np.concatenate([batch.times for batch in batches]),
        contents=np.concatenate([batch.contents for batch in batches]),
        evidence=joined([batch.evidence for batch in batches]),
    )


def joined(parts: Sequence[Evidence]) -> Evidence:
    """Concatenate the evidence of one or more batches."""
    fixed, ragged = (np.concatenate([part[column] for part in parts]) for column in (0, 1))
    return Evidence(fixed, ragged, _joined_starts([part.starts for part in parts]))


def _joined_starts(parts: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """Return the starts of concatenated ragged columns."""
    ends = np.cumsum([0, *(part[-1] for part in parts)])
    return np.concatenate([*(part[:-1] + end for part, end in zip(parts, ends, strict=False)), ends[-1:]])


def select(batch: Batch, rows: npt.NDArray[np.int64]) -> Batch:
    """Return some rows of a batch, in the given order."""
    ids, id_starts = select_ragged(batch.ids, batch.id_starts, rows)
    return make_batch(ids, id_starts, batch.times[rows], batch.contents[rows], batch.evidence.select(rows))


def bytes_of(batch: Batch) -> int:
    """Return the sum of ``sizes_of``, or more if the columns have bytes that belong to no document."""
    return FIXED_BYTES * len(batch.times) + batch.fixed.size + len(batch.ids) + len(batch.ragged)


def sizes_of(batch: Batch) -> npt.NDArray[np.int64]:
    """Return the bytes of each document in a message, ``int64[n]``; a table needs about as many."""
    return FIXED_BYTES + held_sizes(batch)


def held_sizes(batch: Batch) -> npt.NDArray[np.int64]:
    """Return the bytes of id and evidence of each document, ``int64[n]``, as verdicts count them (``rule.arrive``)."""
    return np.asarray(batch.fixed.shape[1] + np.diff(batch.id_starts) + np.diff(batch.ragged_starts))


def removal_batch(ids: Sequence[bytes], width: int) -> Batch:
    """Return rows that name the ids to remove, and nothing else; ``width`` is that of the evidence."""
    n, evidence = len(ids), fixed_evidence(np.zeros((len(ids), width), np.uint8))
    return make_batch(*id_columns(ids), np.full(n, NO_TIME), np.zeros((n, 2), np.uint64), evidence)


def empty_batch(width: int) -> Batch:
    """Return an empty batch whose evidence has this width."""
    return removal_batch([], width)


def rows_of(documents: Sequence[Document], positions: Sequence[int]) -> Sequence[Document]:
    """Return some documents, in the given order; columns stay columns."""
    if not isinstance(documents, DocumentColumns):
        return [documents[i] for i in positions]
    return select_columns(documents, np.array(positions, np.int64))


def select_columns(documents: DocumentColumns, rows: npt.NDArray[np.int64]) -> DocumentColumns:
    """Return some documents of columns, in the given order."""
    ids, texts = (Column(*select_ragged(*column, rows)) for column in (documents.ids, documents.texts))
    collections = documents.collections and Column(*select_ragged(*documents.collections, rows))
    return DocumentColumns(ids, documents.times[rows], texts, collections)


def sound_columns(
    ids: Column, times: npt.NDArray[np.float64], texts: Column, collections: Column | None
) -> DocumentColumns:
    """Return the columns of a caller as documents, or refuse them by ``ConfigError``: kernels check no bounds."""
    columns = _sound("ids", ids), _sound("texts", texts)
    named = None if collections is None else _sound("collections", collections)
    seconds = np.asarray(times)
    if seconds.ndim != 1 or seconds.dtype.kind not in "fiu":
        raise ConfigError(f"times are {_shape(seconds)}: give seconds since the epoch as float64[n]")
    sizes = len(columns[0].starts) - 1, len(seconds), len(columns[1].starts) - 1
    if len(set(sizes)) > 1:
        raise ConfigError(f"columns of {sizes} ids, times and texts: give as many of each")
    if named is not None and len(named.starts) - 1 != len(seconds):
        raise ConfigError(f"a column of {len(named.starts) - 1} collections of {len(seconds)} documents: give one each")
    return DocumentColumns(columns[0], seconds.astype(np.float64, copy=False), columns[1], named)


def _sound(name: str, column: Column) -> Column:
    """Return a column whose starts stay inside its data.

    Data is read-only and starts are writable, as in all other columns: another mix would compile every kernel again.
    """
    data, starts = np.asarray(column.data), np.asarray(column.starts)
    if data.ndim != 1 or data.dtype != np.uint8:
        raise ConfigError(f"the data of {name} is {_shape(data)}: give uint8[m], as np.frombuffer(data, np.uint8) does")
    if starts.ndim != 1 or starts.dtype.kind not in "iu" or len(starts) == 0:
        raise ConfigError(f"the starts of {name} are {_shape(starts)}: give int64[n + 1] for n documents")
    starts = np.require(starts, np.int64, ["C", "W"])
    if starts[0] < 0 or starts[-1] > len(data) or bool((starts[1:] < starts[:-1]).any()):
        raise ConfigError(
            f"the starts of {name}, from {starts[0]} to {starts[-1]}, must rise within the {len(data)} bytes of its "
            "data: give the start of each string, then the end of the last one"
        )
    data = np.ascontiguousarray(data).view()
    data.flags.writeable = False
    return Column(data, starts)


def _shape(values: npt.NDArray[Any]) -> str:
    return f"{values.dtype}{list(values.shape)}"


def id_column(documents: Sequence[Document], *, separate: bool) -> tuple[Column, dict[int, str]]:
    """Return the ids in UTF-8, and the reasons why some have no such form: position -> reason. If collections are
    ``separate``, these are full ids."""
    if isinstance(documents, DocumentColumns):
        return _separated(documents) if separate else _checked(documents.ids)
    names = list(map(full_id, map(ID, documents), map(COLLECTION, documents)) if separate else map(ID, documents))
    joined = "".join(names)
    if joined.isascii():
        return Column(np.frombuffer(joined.encode(), np.uint8), starts_of(names)), {}
    try:
        return Column(*id_columns([name.encode() for name in names])), {}
    except UnicodeEncodeError:
        ids = [name.encode(errors="ignore") for name in names]
        surrogates = [i for i, name in enumerate(names) if ids[i].decode() != name]
        for i in surrogates:
            ids[i] = b""
        return Column(*id_columns(ids)), dict.fromkeys(surrogates, "id_surrogate")


def _separated(documents: DocumentColumns) -> tuple[Column, dict[int, str]]:
    """Return the full ids of columns; not UTF-8 is reported of the id, as it is more likely."""
    refused: dict[int, str] = {}
    if documents.collections is not None:
        refused = dict.fromkeys(has_separator(documents.collections).tolist(), "collection")
    full, unusable = _checked(full_id_column(documents.ids, documents.collections))
    return full, unusable | refused


def _checked(ids: Column) -> tuple[Column, dict[int, str]]:
    """Return a column of ids without unused bytes around it, and the ids that are not UTF-8: position -> reason."""
    first, last = ids.starts[0], ids.starts[-1]
    ids = Column(ids.data[first:last], ids.starts - first)
    if last == first or int(ids.data.max()) < 0x80:
        return ids, {}
    heads = ids.data[ids.starts[:-1][np.diff(ids.starts) > 0]]
    if bool((heads & 0xC0 != 0x80).all()) and _is_utf8(ids.data.data):  # no id begins inside a code point
        return ids, {}
    return ids, {i: "id_not_utf8" for i in range(len(ids.starts) - 1) if not _is_utf8(ids.at(i))}


def _is_utf8(data: bytes | memoryview) -> bool:
    try:
        str(data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def id_columns(ids: Sequence[bytes]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return ids as one array of bytes and the starts in it, ``uint8[m]`` and ``int64[n + 1]``."""
    return np.frombuffer(b"".join(ids), np.uint8), starts_of(ids)


def starts_of(values: Sequence[bytes] | Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the starts of values one after the other, and the end."""
    return np.fromiter(accumulate(map(len, values), initial=0), np.int64, len(values) + 1)


def id_hashes(ids: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return the 64-bit hashes of n ids, ``uint64[n]``; the table and the verdicts store no other form of an id."""
    hashes = np.empty(len(starts) - 1, np.uint64)
    hash_strings(ids, starts, ID_SEED, hashes)
    return hashes


def accepted_of(documents: Sequence[Document], refusals: Sequence[Refusal]) -> Sequence[Document]:
    """Return the documents that were not refused, in order: the rows of their batch."""
    if not refusals:
        return documents
    refused = {refusal.position for refusal in refusals}
    return [document for position, document in enumerate(documents) if position not in refused]


def references_of(documents: Sequence[Document]) -> npt.NDArray[np.bool_] | None:
    """Return which documents are of an old set, ``bool[n]``; ``None`` if none is."""
    if type(documents) is DocumentColumns or not any(map(REFERENCE, documents)):
        return None
    return np.fromiter(map(REFERENCE, documents), np.bool_, len(documents))


def known_times(seconds: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the same for times in seconds, which are not a number where there is none."""
    times, keepable = np.empty(len(seconds), np.int64), np.empty(len(seconds), np.bool_)
    _to_microseconds(seconds, times, keepable)
    return times, keepable


@kernel("const f64[], i64[], bool[]", locked=True)
def _to_microseconds(seconds, times, keepable):
    for i in range(len(seconds)):
        times[i], keepable[i] = microseconds_of(seconds[i])


@inlined
def microseconds_of(seconds):
    """The time in microseconds, ``NO_TIME`` for what is not a number; and whether it can be stored."""
    if seconds != seconds:
        return NO_TIME, True
    if abs(seconds) < SECONDS_MAX:
        return np.int64(np.rint(seconds * MICROSECONDS)), True
    return np.int64(0), False


def row_keys(batch: Batch, removals: npt.NDArray[np.bool_], config: Config) -> Keys:
    """Return the bucket keys of rows; a removal has none."""
    keys = bucket_keys(select(batch, np.flatnonzero(~removals)), config)
    counts, added = np.zeros((2, batch.size), np.int64)
    counts[~removals], added[~removals] = np.diff(keys.starts), keys.counts_added
    return keys._replace(starts=np.concatenate([[0], np.cumsum(counts)]), added=added)


def bucket_keys(batch: Batch, config: Config) -> Keys:
    """Return the bucket keys of a batch. An item without keys has its content as its only key: copies of it meet.

    If documents have collections, equal keys are of one collection."""
    keys = SCHEMES[config.scheme].keys(batch.evidence, config.plan)
    if config.separate:
        keys = keys._replace(values=separated_keys(keys.values, keys.starts, salts(batch.ids, batch.id_starts)))
    is_bare = keys.starts[1:] == keys.starts[:-1]
    if not is_bare.any():
        return keys
    bare = np.flatnonzero(is_bare)
    at, starts = keys.starts[bare], keys.starts.copy()
    starts[1:] += np.cumsum(is_bare)
    payloads = np.insert(keys.payloads, at, 0) if len(keys.payloads) else keys.payloads
    added = keys.added.copy()
    added[bare[: len(added)]] = 1
    return Keys(np.insert(keys.values, at, batch.contents[bare, 0]), starts, payloads, added)


def batch_items(batch: Batch, config: Config) -> Items:
    """Return a batch as a table reads it, all rows as documents to hold, with their bucket keys."""
    plan: Any = config.plan
    if config.separate or not SCHEMES[config.scheme].banded(plan):
        return without_derived(table_items(batch, bucket_keys(batch, config)), batch, config)
    items = blank_items(batch, plan.tuning.bands * len(batch.times))
    _fill_banded(batch, band_seeds(plan.tuning.bands, plan.seed), *items[:6])
    return without_derived(items, batch, config)


def without_derived(items: Items, batch: Batch, config: Config) -> Items:
    """Say of the items of a batch whose fixed evidence a table need not store; return them."""
    derived = SCHEMES[config.scheme].derived(batch.evidence, config.plan)
    if derived is not None:
        items.kinds[derived] |= DERIVED
    return items


def table_items(batch: Batch, keys: Keys) -> Items:
    """Return a batch as a table reads it, all rows as documents to hold: content and id come first, then the bucket
    keys."""
    items = blank_items(batch, len(keys.values), len(keys.payloads))
    _fill_items(batch, keys, *items[:6])
    return items


def blank_items(batch: Batch, keys: int, payloads: int = 0) -> Items:
    """Return items with room for so many keys and payloads besides those of contents and ids."""
    n, (ids, id_starts, times, _, fixed, ragged, ragged_starts) = len(batch.times), batch
    return Items(
        np.empty(n, np.uint8), np.empty(KEYS * n + keys, np.uint64), np.empty(n + 1, np.int64), np.empty(n, np.int64),
        np.empty(KEYS * n + payloads, np.uint64) if payloads else NO_PAYLOADS, np.empty(n, np.uint64), times, ids,
        id_starts, fixed, ragged, ragged_starts,
    )  # fmt: skip


@kernel("const Batch, u64[], u8[], u64[], i64[], i64[], u64[], u64[]", direct=True)
def _fill_banded(batch, seeds, kinds, keys, starts, added, payloads, contents):
    starts[0] = 0
    for i in range(len(kinds)):
        put_banded(batch, i, seeds, kinds, keys, starts, added, payloads, contents)


@inlined
def put_banded(batch, i, seeds, kinds, keys, starts, added, payloads, contents):
    """Fill in item i, whose keys are those of the bands of its fixed part; the start of its keys is known."""
    at = _begin_item(batch, i, kinds, keys, starts[i], payloads, contents)
    put_keys(batch.fixed[i], seeds, keys[at : at + len(seeds)])
    starts[i + 1], added[i] = at + len(seeds), KEYS + len(seeds)


@kernel("const Batch, Keys, u8[], u64[], i64[], i64[], u64[], u64[]", direct=True)
def _fill_items(batch, given, kinds, keys, starts, added, payloads, contents):
    starts[0] = 0
    for i in range(len(kinds)):
        at = _begin_item(batch, i, kinds, keys, starts[i], payloads, contents)
        for j in range(given.starts[i], given.starts[i + 1]):
            keys[at] = given.values[j]
            if len(payloads):
                payloads[at] = given.payloads[j]
            at += 1
        starts[i + 1] = at
        added[i] = KEYS + given.added[i] if len(given.added) else at - starts[i]


@inlined
def _begin_item(batch, i, kinds, keys, at, payloads, contents):
    """Fill in what item i has besides its bucket keys, which follow at the place that is returned."""
    kinds[i], contents[i] = OWN, batch.contents[i, CONTENT_HALF]
    keys[at] = batch.contents[i, 0]
    keys[at + 1] = string_hash(batch.ids, batch.id_starts[i], batch.id_starts[i + 1], ID_SEED)
    if len(payloads):
        payloads[at], payloads[at + 1] = np.uint64(0), np.uint64(0)
    return at + KEYS
