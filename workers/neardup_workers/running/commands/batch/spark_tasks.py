"""What the machines of a Spark cluster compute: names of lines, signed documents.

Each function takes and returns record batches of Arrow, for ``DataFrame.mapInArrow``. It depends on its input alone,
so Spark may run it again anywhere.

A **split** is a part of a file that one task reads in order, named by the file and the offset of its first byte. The
number of an entry follows from the entries of the splits before its own (``SplitBegin``) and its index in its split. So
every entry has the same number, however many machines there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neardup.documents.chunks import CHUNK_DOCUMENTS
from neardup.documents.document import Document, DocumentColumns
from neardup.documents.ids import full_id, full_id_column
from neardup.errors import Reason
from neardup.pairs.batches import Batch, make_batch
from neardup.pairs.json_lines import Fields, decode_document
from neardup.pairs.signing import Signer
from neardup.pairs.values import without_future
from neardup.schemes.config import Config
from neardup.schemes.interface import Evidence
from neardup.stories.arrow.columns import column_of
from neardup_workers.outside.outputs.sources import sources_among, sources_in
from neardup_workers.outside.readers.entries import Entry, reason_of_line
from neardup_workers.outside.readers.json.columns import Decoded, decode_columns
from neardup_workers.outside.readers.lines import BOM, is_blank

Batches = Iterator[pa.RecordBatch]
Split = tuple[str, int]
# The columns of the results, as Spark names their types.
COUNTED = "file string, block long, lines long, entries long"
SIGNED = (
    "n long, file string, block long, line long, id binary, time long, high long, low long, fixed binary, "
    "ragged binary, value double, source string, reason string, raw binary, untimed string, given string"
)


class SplitBegin(NamedTuple):
    """Where a split begins: the number of its first line in its file, from 1, and of its first entry in the input."""

    line: int
    entry: int


class SignTask(NamedTuple):
    """What signing needs: the configuration, the names of fields, the names of files in reports, the beginnings of
    splits, whether a line without an id is named by its file and number, the preference of a document (``None``:
    none), whether rows have the source of their document, and the time of the clock when the job began."""

    config: Config
    fields: Fields
    names: dict[str, str]
    begins: dict[Split, SplitBegin]
    line_ids: bool
    value: Callable[[Entry, Document], float] | None
    sources: bool
    now_seconds: float


def count_lines(batches: Batches) -> Batches:
    """Count the lines of each split, and those that are not blank."""
    for split, raws in _runs(batches):
        yield _made(COUNTED, [[split[0]], [split[1]], [len(raws)], [sum(not is_blank(raw) for raw in raws)]])


def sign_lines(task: SignTask, batches: Batches) -> Batches:
    """Sign the lines of splits: a row for each entry; a refused one has a reason."""
    signer = Signer(task.config)
    begins = dict(task.begins)
    for split, raws in _runs(batches):
        begin = begins[split]
        numbers = [begin.line + i for i, raw in enumerate(raws) if not is_blank(raw)]
        entries = [raw for raw in raws if not is_blank(raw)]
        begins[split] = SplitBegin(begin.line + len(raws), begin.entry + len(entries))
        for at in range(0, len(entries), CHUNK_DOCUMENTS):
            end = at + CHUNK_DOCUMENTS
            yield _signed(task, signer, split, begin.entry + at, entries[at:end], numbers[at:end])


def batch_of(rows: pa.RecordBatch | pa.Table) -> Batch:
    """Return signed rows as a batch."""
    contents = np.stack([rows.column(name).to_numpy().view(np.uint64) for name in ("high", "low")], axis=1)
    ids = column_of(rows.column("id"))
    return make_batch(ids.data, ids.starts, rows.column("time").to_numpy(), contents, _evidence(rows))


def _runs(batches: Batches) -> Iterator[tuple[Split, list[bytes]]]:
    """Yield the lines of splits, some thousands at a time, in order."""
    for rows in batches:
        files = rows.column("file").dictionary_encode()
        indices, blocks = files.indices.to_numpy(), rows.column("block").to_numpy()
        ends = np.flatnonzero((np.diff(indices) != 0) | (np.diff(blocks) != 0)) + 1
        for begin, end in pairwise((0, *ends.tolist(), rows.num_rows)):
            if begin < end:
                split = files.dictionary[int(indices[begin])].as_py(), int(blocks[begin])
                yield split, rows.column("value").slice(begin, end - begin).to_pylist()


def _signed(
    task: SignTask, signer: Signer, split: Split, first: int, raws: list[bytes], numbers: list[int]
) -> pa.RecordBatch:
    """Sign the entries from number ``first`` on, which are lines of these numbers."""
    name, count = task.names[split[0]], len(raws)
    untimed: dict[int, tuple[str, str]] = {}  # why the time of an entry is none, and what was given
    decoded = _decoded(task, name, raws, numbers, untimed)
    documents = decoded.documents if isinstance(decoded, Decoded) else decoded
    if isinstance(documents, DocumentColumns):
        at: Sequence[int] = range(count)
        signed = signer.sign(documents)
        full = full_id_column(documents.ids, documents.collections)
        ids: list[bytes | None] = [full.at(i) for i in at]
        reasons: dict[int, str] = {}
    else:
        at = [i for i, one in enumerate(documents) if isinstance(one, Document)]
        signed = signer.sign([one for one in documents if isinstance(one, Document)])
        ids = [
            full_id(one.id, one.collection).encode(errors="replace") if isinstance(one, Document) else None
            for one in documents
        ]
        reasons = {i: one for i, one in enumerate(documents) if isinstance(one, Reason)}
    reasons |= {at[refusal.position]: reason_of_line(refusal.reason) for refusal in signed.refusals}
    row, accepted = np.full(count, -1, np.int64), [i for i in range(count) if i not in reasons]
    ahead: list[tuple[str, str]] = []
    timed = without_future(signed.batch, task.now_seconds, lambda reason, value: ahead.append((reason, str(value))))
    untimed |= zip((accepted[n] for n in np.flatnonzero(timed.times != signed.batch.times)), ahead, strict=True)
    signed = signed._replace(batch=timed)
    row[accepted] = np.arange(signed.batch.size)
    for i, id_ in zip(accepted, signed.batch.ids_at(row[accepted]), strict=True):
        ids[i] = id_.encode()
    taken = pa.array(row, mask=row < 0)
    values, sources = [0.0] * count, [""] * count
    if task.value is not None:
        entries = (Entry(name, numbers[i], raws[i], one) for i, one in enumerate(documents))
        values = [task.value(one, one.found) if isinstance(one.found, Document) else 0.0 for one in entries]
    if task.sources:
        sources = _sources(decoded)
    contents = signed.batch.contents.view(np.int64)
    hashed = signed.batch.times, contents[:, 0].copy(), contents[:, 1].copy()
    columns: list[Any] = [
        np.arange(first, first + count), [split[0]] * count, [split[1]] * count, numbers, ids,
        *(pa.array(column).take(taken) for column in hashed),
        *(column.take(taken) for column in _binaries(signed.batch.evidence)),
        values, sources, [reasons.get(i) for i in range(count)],
        [raws[i] if i in reasons else None for i in range(count)],
        *([untimed.get(i, (None, None))[part] for i in range(count)] for part in (0, 1)),
    ]  # fmt: skip
    return _made(SIGNED, columns)


def _sources(decoded: Decoded | list[Document | Reason]) -> list[str]:
    """Return the source of each entry, empty for none."""
    documents = decoded.documents if isinstance(decoded, Decoded) else decoded
    if isinstance(decoded, Decoded) and decoded.sources is not None and decoded.urls is not None:
        return sources_in(decoded.documents.ids, decoded.sources, decoded.urls)
    return sources_among(documents)


def _decoded(
    task: SignTask, name: str, raws: list[bytes], numbers: list[int], untimed: dict[int, tuple[str, str]]
) -> Decoded | list[Document | Reason]:
    """Decode lines: as columns if all are flat objects, else one by one; their times that are none are ``untimed``."""
    columns = decode_columns(raws, [None] * len(raws), task.fields)
    if columns is not None:
        return columns
    return [
        decode_document(
            raw.removeprefix(BOM) if number == 1 else raw,
            task.fields,
            f"{name}:{number}" if task.line_ids else None,
            partial(_untimed, untimed, i),
        )
        for i, (raw, number) in enumerate(zip(raws, numbers, strict=True))
    ]


def _untimed(untimed: dict[int, tuple[str, str]], i: int, reason: str, value: object) -> None:
    untimed[i] = reason, str(value)


def _binaries(evidence: Evidence) -> tuple[pa.Array, pa.Array]:
    """Return the two parts of evidence as columns of bytes."""
    count, width = evidence.fixed.shape
    fixed_starts = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    return _binary(evidence.fixed, fixed_starts), _binary(evidence.ragged, evidence.starts.astype(np.int32))


def _binary(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int32]) -> pa.Array:
    buffers = [None, pa.py_buffer(starts.tobytes()), pa.py_buffer(np.ascontiguousarray(data).tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(starts) - 1, buffers)


def _evidence(rows: pa.RecordBatch | pa.Table) -> Evidence:
    fixed, ragged = (column_of(rows.column(name)) for name in ("fixed", "ragged"))
    count = rows.num_rows
    width = len(fixed.data) // count if count else 0
    return Evidence(fixed.data.reshape(count, width), ragged.data, ragged.starts)


@cache
def _schema(columns: str) -> pa.Schema:
    kinds = {"long": pa.int64(), "string": pa.string(), "binary": pa.binary(), "double": pa.float64()}
    named = [column.strip().split(" ") for column in columns.split(",")]
    return pa.schema([(name, kinds[kind]) for name, kind in named])


def _made(columns: str, values: list[Any]) -> pa.RecordBatch:
    """Return columns as rows of these names and types."""
    schema = _schema(columns)
    arrays = [
        value if isinstance(value, pa.Array) else pa.array(value, field.type)
        for value, field in zip(values, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
