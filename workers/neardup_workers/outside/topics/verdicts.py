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
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from neardup.documents.ids import split_id, stored_id
from neardup.pairs.batches import id_columns
from neardup.pairs.pair_rule import SIMILARITY_DIGITS
from neardup.pairs.window_message import WireError
from neardup.schemes.interface import in_parts
from neardup.stories.verdicts.fields import KINDS, MESSAGE_FIELDS, Verdicts, has_value, join_verdicts
from neardup.stories.verdicts.representatives import NO_RANK
from neardup.stories.verdicts.rule import DOCUMENT, JUDGED, REFUSAL, REMOVAL, STATUSES, is_document
from neardup.window import NO_TIME
from neardup_workers.outside.topics.arrivals import ArrivalRows, join_arrivals
from neardup_workers.outside.topics.columns import escaped, numbers, texts_of
from neardup_workers.outside.topics.places import offsets_of, parse_places, partitions_of, places_of
from neardup_workers.outside.topics.shown import fields_shown

# Approximate maximum bytes of a run: messages of ``signed`` are split at the same size.
RUN_BYTES_MAX = 512 << 10
_MICROSECONDS = 1e6
# Status -> its number; number -> the kind of the arrival.
_NUMBERS = {status: number for number, status in enumerate(STATUSES)}
_KINDS = np.array([{"removed": REMOVAL, "refused": REFUSAL}.get(status, DOCUMENT) for status in STATUSES], np.uint8)
_NO_CONTENT = "0" * 16


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
    lines = _lines(decided, separate) if len(places) else []
    partitions, offsets = partitions_of(places), offsets_of(places)
    for partition in np.unique(partitions).tolist():
        rows = np.flatnonzero(partitions == partition)
        own = [lines[row] for row in rows.tolist()]
        for part in in_parts(np.array(list(map(len, own))), RUN_BYTES_MAX):
            first, last = int(part[0]), int(part[-1])
            key = f"{offsets[rows[first]]}-{offsets[rows[last]] + 1}"
            yield Run(partition, key.encode(), b"".join(own[first : last + 1]))


def _lines(decided: DecidedRows, separate: bool) -> list[bytes]:
    """Return the lines, as ``orjson`` would encode their fields. It encodes the values column by column: an object for
    each line takes much longer."""
    rows = decided.rows
    columns = zip(
        decided.numbers.tolist(),
        offsets_of(rows.places).tolist(),
        _named(texts_of(rows.ids, rows.id_starts), separate),
        is_document(rows.kinds).tolist(),
        [STATUSES[status] for status in decided.verdicts.statuses.tolist()],
        fields_shown(rows.shown, len(rows.places)),
        _fields_of_documents(decided, separate),
        numbers(rows.times / _MICROSECONDS),
        _digits(rows.contents),
        numbers(rows.ranks),
        np.isnan(rows.ranks).tolist(),
        decided.incomplete.tolist(),
        strict=True,
    )
    lines = []
    for arrival, offset, named, is_one, status, shown, fields, time, content, rank, is_unranked, gap in columns:
        line = f'{{"offset":{offset}{named},"status":"{status}"'
        if is_one:
            line += f'{shown}{fields},"timestamp":{time},"content":"{content}"'
            if not is_unranked:
                line += f',"rank":{rank}'
        end = ',"incomplete":true}\n' if gap else "}\n"
        lines.append(f'{line},"arrival":{arrival}{end}'.encode())
    return lines


def _fields_of_documents(decided: DecidedRows, separate: bool) -> list[str]:
    """Return the fields that only a document has, without those that have no value; most have a cluster alone."""
    out = [""] * len(decided.numbers)
    for field in MESSAGE_FIELDS[1:]:
        if field.kind == "id":
            rows = np.flatnonzero([of is not None for of in decided.original_ids])
            values: Any = [(decided.original_ids[row] or b"").decode() for row in rows.tolist()]
            values = [split_id(of)[1] for of in values] if separate else values
        else:
            values = getattr(decided.verdicts, field.column)
            values = np.round(values.astype(np.float64), SIMILARITY_DIGITS) if field.kind == "fraction" else values
            rows = np.flatnonzero(has_value(field, values))
            values = values[rows]
        start = f',"{field.name}":'
        for row, value in zip(rows.tolist(), _WRITTEN[field.kind](values), strict=True):
            out[row] += start + value
    for row in np.flatnonzero(decided.rows.kinds == JUDGED).tolist():
        out[row] += ',"judged":true'
    return out


def _place_names(places: npt.NDArray[np.int64]) -> list[str]:
    both = zip(partitions_of(places).tolist(), offsets_of(places).tolist(), strict=True)
    return [f'"{partition}-{offset}"' for partition, offset in both]


# Values of each kind as JSON.
_WRITTEN: dict[str, Callable[[Any], Sequence[str]]] = {
    "id": lambda values: [f'"{id_}"' for id_ in escaped(values)],
    "place": _place_names,
    "fraction": numbers,
    "count": lambda values: list(map(str, values.tolist())),
    "flag": lambda values: ["true"] * len(values),
    "signal": lambda values: [f'"{KINDS["signal"].names[value]}"' for value in values.tolist()],
}


def _named(ids: list[str], separate: bool) -> list[str]:
    """Return ids, and their collections, as fields of lines; nothing for an empty id."""
    if not separate:
        return [f',"id":"{id_}"' if id_ else "" for id_ in escaped(ids)]
    named = [split_id(id_) for id_ in ids]
    columns = zip(ids, escaped([id_ for _, id_ in named]), escaped([name or "" for name, _ in named]), strict=True)
    return [
        (f',"id":"{id_}"' + (f',"collection":"{name}"' if name else "")) if full else "" for full, id_, name in columns
    ]


def _digits(contents: npt.NDArray[np.uint64]) -> list[str]:
    """Return hashes as 16 digits each."""
    text = contents.astype(">u8").tobytes().hex()
    return [text[at : at + 16] for at in range(0, len(text), 16)]


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
