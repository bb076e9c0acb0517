"""The messages of ``verdicts``: a line of JSON for each record of ``documents``, in the same partition, in order.

A record holds a *run* of verdicts as JSON Lines. Its key is ``first-next``: the offset of the first verdict, and the
offset after the last. Readers join by offset: control records leave gaps between the offsets of ``documents``.

Fields of a line: ``offset``; ``id`` (absent where a refused record has none) and its ``collection``; ``status``;
``source``, ``url`` and ``title`` of a document; ``duplicate_of`` (the id of the original) and ``original`` (the place
of its newest version, if that is in the window); ``similarity`` to what was compared; ``cluster`` (the place of the
original); ``related`` (a cluster), ``previous`` (the place of the version before), ``matched`` (the place
of the version that was compared), ``equal`` (true if its content is the same), ``late`` (true if it came after its
window), ``against`` (the place of the version that an original says something new to), ``said`` and ``new_numbers``
(what that version, or the matched one, has said of the text); ``timestamp`` (seconds); ``content`` (a hash of what was
compared); ``rank`` (the number by which its cluster ranks it); ``arrival`` (the number of the verdict over all
partitions); ``incomplete`` (true if the decision was made without all pairs, by ``--allow-gap``); ``judged`` (true if
a person has decided it; the versions before are removed). A field without a value is absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from neardup.documents.ids import split_id, stored_id
from neardup.pairs.batches import id_columns
from neardup.pairs.pair_rule import SIMILARITY_DIGITS
from neardup.pairs.window_message import WireError
from neardup.schemes.interface import in_parts
from neardup.stories.sources.representatives import NO_RANK
from neardup.stories.verdicts.fields import KINDS, MESSAGE_FIELDS, Verdicts, has_value, join_verdicts
from neardup.stories.verdicts.rule import DOCUMENT, JUDGED, REFUSAL, REMOVAL, STATUSES, is_document
from neardup.window import NO_TIME
from neardup_workers.outside.topics.arrivals import ArrivalRows, join_arrivals
from neardup_workers.outside.topics.columns import (
    Lines,
    Spans,
    escaped,
    escaped_spans,
    number_spans,
    spans_of,
    texts_of,
)
from neardup_workers.outside.topics.places import offsets_of, parse_places, partitions_of, places_of
from neardup_workers.outside.topics.shown import fields_shown

# Approximate maximum bytes of a run: messages of ``signed`` are split at the same size.
RUN_BYTES_MAX = 512 << 10
_MICROSECONDS = 1e6
# Status -> its number; number -> the kind of the arrival.
_NUMBERS = {status: number for number, status in enumerate(STATUSES)}
_KINDS = np.array([{"removed": REMOVAL, "refused": REFUSAL}.get(status, DOCUMENT) for status in STATUSES], np.uint8)
_NO_CONTENT = "0" * 16
_STATUS_NAMES = np.frombuffer("".join(STATUSES).encode(), np.uint8)
_STATUS_STARTS = np.append(0, np.cumsum(list(map(len, STATUSES))))


class DecidedRows(NamedTuple):
    """n verdicts as columns: the arrivals and their decisions.

    ``numbers`` (``int64[n]``) are the arrival numbers over all partitions. The places of ``verdicts`` are those of
    ``documents``; its ``originals`` are places, too, -1 for none. ``original_ids`` are the ids of the originals.
    ``incomplete`` (``bool[n]``): decided without all pairs. Only the step that decides knows ``original_times``
    (``int64[n]``, the event times of the originals), ``story_times`` (``int64[n]``, of the newest members of the
    stories that duplicates joined, at the end of the step), ``original_ranks`` (``float64[n]``), and ``arrived``
    (``int64[n]``, the times of the messages in microseconds); they are ``NO_TIME`` and ``NO_RANK`` for none.
    """

    numbers: npt.NDArray[np.int64]
    rows: ArrivalRows
    verdicts: Verdicts
    original_ids: list[bytes | None]
    incomplete: npt.NDArray[np.bool_]
    original_times: npt.NDArray[np.int64]
    story_times: npt.NDArray[np.int64]
    original_ranks: npt.NDArray[np.float64]
    arrived: npt.NDArray[np.int64]

    def select(self, order: npt.NDArray[np.int64]) -> DecidedRows:
        """Return some rows, in the given order."""
        ids = [self.original_ids[i] for i in order.tolist()]
        return DecidedRows(
            self.numbers[order], self.rows.select(order), self.verdicts.select(order), ids, self.incomplete[order],
            self.original_times[order], self.story_times[order], self.original_ranks[order], self.arrived[order],
        )  # fmt: skip


class Run(NamedTuple):
    """Consecutive verdicts of a partition, as a record."""

    partition: int
    key: bytes
    value: bytes


def encode_runs(decided: DecidedRows, *, separate: bool = False) -> Iterator[Run]:
    """Return the records of a step: one for each partition, or several if one would be too long. Ids are full ids, if
    collections are ``separate``."""
    places = decided.rows.places
    partitions = partitions_of(places)
    order = np.argsort(partitions, kind="stable")
    lines, starts = _lines(decided, separate).joined(order)
    partitions, offsets, sizes = partitions[order], offsets_of(places)[order], np.diff(starts)
    ends = np.flatnonzero(np.diff(partitions, append=-1)) + 1  # no partition is negative
    for begin, end in pairwise([0, *ends.tolist()]):
        for part in in_parts(sizes[begin:end], RUN_BYTES_MAX):
            first, last = begin + int(part[0]), begin + int(part[-1])
            key = f"{offsets[first]}-{offsets[last] + 1}"
            yield Run(int(partitions[first]), key.encode(), bytes(lines[starts[first] : starts[last + 1]]))


def _lines(decided: DecidedRows, separate: bool) -> Lines:
    """Return the lines, as ``orjson`` would encode their fields, column by column: an object for each line takes much
    longer."""
    rows, verdicts = decided.rows, decided.verdicts
    is_one, lines = is_document(rows.kinds), Lines(len(rows.places))
    documents = np.flatnonzero(is_one)
    lines.add(b'{"offset":', number_spans(offsets_of(rows.places)))
    if separate:
        lines.add(b"", spans_of(map(str.encode, _named(texts_of(rows.ids, rows.id_starts)))))
    else:
        named, ids = np.flatnonzero(np.diff(rows.id_starts)), escaped_spans(rows.ids, rows.id_starts)
        lines.add(b',"id":"', Spans(ids.data, ids.begins[named], ids.ends[named]), b'"', named)
    begins, ends = (_STATUS_STARTS[verdicts.statuses + at] for at in (0, 1))
    lines.add(b',"status":"', Spans(_STATUS_NAMES, begins, ends), b'"')
    if rows.shown is not None:
        shown = fields_shown(rows.shown)
        lines.add(b"", spans_of([shown[row].encode() for row in documents.tolist()]), b"", documents)
    _add_fields(lines, decided, is_one, separate)
    lines.add(b',"timestamp":', number_spans(rows.times[documents] / _MICROSECONDS), b"", documents)
    digits = np.frombuffer(rows.contents[documents].astype(">u8").tobytes().hex().encode(), np.uint8)
    each = 16 * np.arange(len(documents))
    lines.add(b',"content":"', Spans(digits, each, each + 16), b'"', documents)
    ranked = np.flatnonzero(is_one & ~np.isnan(rows.ranks))
    lines.add(b',"rank":', number_spans(rows.ranks[ranked]), b"", ranked)
    lines.add(b',"arrival":', number_spans(decided.numbers))
    lines.add_text(b',"incomplete":true', np.flatnonzero(decided.incomplete))
    lines.add_text(b"}\n")
    return lines


def _add_fields(lines: Lines, decided: DecidedRows, is_one: npt.NDArray[np.bool_], separate: bool) -> None:
    """Add the fields that only a document has, without those that have no value; most have a cluster alone."""
    named = np.array([of is not None for of in decided.original_ids], np.bool_)
    for field in MESSAGE_FIELDS[1:]:
        values: Any = getattr(decided.verdicts, field.column)
        if field.kind == "fraction":
            values = np.round(values.astype(np.float64), SIMILARITY_DIGITS)
        rows = np.flatnonzero(is_one & (named if field.kind == "id" else has_value(field, values)))
        if not len(rows):
            continue
        before = f',"{field.name}":'.encode()
        if field.kind == "id":
            ids = [decided.original_ids[row] or b"" for row in rows.tolist()]
            ids = [split_id(of.decode())[1].encode() for of in ids] if separate else ids
            lines.add(before + b'"', escaped_spans(*id_columns(ids)), b'"', rows)
        elif field.kind == "place":
            lines.add_places(before + b'"', values[rows], b'"', rows)
        elif field.kind == "flag":
            lines.add_text(before + b"true", rows)
        elif field.kind == "signal":
            lines.add(
                before + b'"',
                spans_of([KINDS["signal"].names[value].encode() for value in values[rows].tolist()]),
                b'"',
                rows,
            )
        else:
            lines.add(before, number_spans(values[rows]), b"", rows)
    lines.add_text(b',"judged":true', np.flatnonzero(decided.rows.kinds == JUDGED))


def _named(ids: list[str]) -> list[str]:
    """Return full ids, and their collections, as fields of lines; nothing for an empty id."""
    named = [split_id(id_) for id_ in ids]
    columns = zip(ids, escaped([id_ for _, id_ in named]), escaped([name or "" for name, _ in named]), strict=True)
    return [
        (f',"id":"{id_}"' + (f',"collection":"{name}"' if name else "")) if full else "" for full, id_, name in columns
    ]


def parse_run(value: bytes | None) -> list[dict[str, Any]]:
    """Return the verdicts of a record; raises ``WireError``."""
    try:
        lines = (value or b"").rstrip(b"\n").replace(b"\n", b",")
        return orjson.loads(b"[%b]" % lines)  # type: ignore[no-any-return]
    except ValueError:
        raise WireError(
            f"a record of verdicts begins {(value or b'')[:40]!r}: no linker wrote it; see who writes to that topic"
        ) from None


def decided_rows(
    partition: int, lines: Sequence[dict[str, Any]], no_time: int, *, separate: bool = False
) -> DecidedRows:
    """Return verdicts of a partition as columns; ``no_time`` stands for an absent timestamp. Ids are full ids, if
    collections are ``separate``."""
    statuses = np.array([_NUMBERS[line["status"]] for line in lines], np.uint8)
    contents = [line.get("content", _NO_CONTENT) for line in lines]
    times = np.array([line.get("timestamp", np.nan) for line in lines], np.float64)
    offsets = np.array([line["offset"] for line in lines], np.int64)
    named = [row for row, line in enumerate(lines) if "duplicate_of" in line]
    original_ids: list[bytes | None] = [None] * len(lines)
    for row, id_ in zip(named, _ids([lines[row] for row in named], "duplicate_of", separate), strict=True):
        original_ids[row] = id_
    rows = ArrivalRows(
        places_of(np.full(len(lines), partition), offsets),
        np.where(_READ["flag"](lines, "judged"), JUDGED, _KINDS[statuses]).astype(np.uint8),
        np.where(np.isnan(times), no_time, np.round(np.nan_to_num(times) * _MICROSECONDS).astype(np.int64)),
        np.frombuffer(bytes.fromhex("".join(contents)), ">u8").astype(np.uint64),
        *id_columns(_ids(lines, "id", separate)),
        np.array([line.get("rank", NO_RANK) for line in lines], np.float64),
        np.zeros(len(lines), np.int64),
    )
    read = {field.column: _READ[field.kind](lines, field.name) for field in MESSAGE_FIELDS if field.kind in _READ}
    numbers = np.array([line["arrival"] for line in lines], np.int64)
    incomplete, unknown = _READ["flag"](lines, "incomplete"), np.full(len(lines), NO_TIME)
    return DecidedRows(
        numbers, rows, Verdicts(statuses=statuses, **read), original_ids, incomplete, unknown, unknown,
        np.full(len(lines), NO_RANK), unknown,
    )  # fmt: skip


def _ids(lines: Sequence[dict[str, Any]], name: str, separate: bool) -> list[bytes]:
    if not separate:
        return [line.get(name, "").encode("utf-8", "surrogatepass") for line in lines]
    return [stored_id(line[name], line.get("collection"), separate=True) if name in line else b"" for line in lines]


def _places(lines: Sequence[dict[str, Any]], name: str) -> npt.NDArray[np.int64]:
    """Return the places that lines name, -1 for none."""
    rows = [row for row, line in enumerate(lines) if name in line]
    out = np.full(len(lines), -1)
    out[rows] = parse_places([lines[row][name] for row in rows])
    return out


# The column of a field of each kind.
_READ: dict[str, Callable[[Sequence[dict[str, Any]], str], Any]] = {
    "place": _places,
    "fraction": lambda lines, name: np.array([line.get(name, 0.0) for line in lines], np.float32),
    "count": lambda lines, name: np.array([line.get(name, 0) for line in lines], np.int64),
    "flag": lambda lines, name: np.array([line.get(name, False) for line in lines], np.bool_),
    "signal": lambda lines, name: np.array(
        [KINDS["signal"].names.index(line.get(name, "")) for line in lines], np.uint8
    ),
}


def join_decided(parts: Sequence[DecidedRows]) -> DecidedRows:
    """Return the verdicts of all parts in order of arrival; at least one part."""
    numbers, rows, verdicts, ids, *others = zip(*parts, strict=True)
    joined = DecidedRows(
        np.concatenate(numbers), join_arrivals(list(rows)), join_verdicts(verdicts),
        [id_ for part in ids for id_ in part], *map(np.concatenate, others),
    )  # fmt: skip
    return joined.select(np.argsort(joined.numbers, kind="stable"))
