"""The messages of ``verdicts``: a line of JSON for each record of ``documents``, in the same partition, in order.

A record holds a *run* of verdicts as JSON Lines. Its key is ``first-next``: the offset of the first verdict, and the
offset after the last. Readers join by offset: control records leave gaps between the offsets of ``documents``.

Fields of a line: ``offset``; ``id`` (absent where a refused record has none) and its ``collection``; ``status``;
``source``, ``url`` and ``title`` of a document; ``duplicate_of`` (the id of the original) and ``original`` (the place
of its newest version, if that is in the window); ``similarity`` to what was compared; ``cluster`` (the place of the
original); ``related`` (a cluster), ``previous`` (the place of the version before), ``matched`` (the place
of the version that was compared), ``equal`` (true if its content is the same), ``late`` (true if it came after its
window); ``timestamp`` (seconds); ``content`` (a hash of what was compared); ``rank`` (the number by which its cluster
ranks it); ``arrival`` (the number of the verdict over all partitions);
``incomplete`` (true if the decision was made without all pairs, by ``--allow-gap``). A field without a value is absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from neardup.stream.collections.ids import split_id, stored_id
from neardup.stream.json_lines import named_collection
from neardup.stream.pair_rule import SIMILARITY_DIGITS
from neardup.stream.scheme_interface import in_parts, starts_of_lengths
from neardup.stream.verdicts.decisions import Verdicts
from neardup.stream.verdicts.representatives import NO_RANK
from neardup.stream.verdicts.rule import DOCUMENT, REFUSAL, REMOVAL, STATUSES
from neardup.stream.window_message import WireError
from neardup.workers.topics.arrivals import ArrivalRows
from neardup.workers.topics.places import offsets_of, parse_place, partitions_of, place_name
from neardup.workers.topics.shown import decode_shown

# Approximate maximum bytes of a run: messages of ``signed`` are split at the same size.
RUN_BYTES_MAX = 512 << 10
_MICROSECONDS = 1e6
_KINDS = {"removed": REMOVAL, "refused": REFUSAL}


class Decision(NamedTuple):
    """n decided arrivals, in order.

    ``first`` is the number of the first one over all partitions. ``originals`` (``int64[n]``) are the places of the
    originals, -1 for none, ``original_ids`` their ids, ``original_times`` (``int64[n]``) their event times, ``NO_TIME``
    for none, ``original_ranks`` (``float64[n]``) their ranks. ``incomplete`` (``bool[n]``): decided without all pairs.
    ``arrived`` (``int64[n]``) are the times of their messages in microseconds, ``NO_TIME`` for none.
    """

    first: int
    rows: ArrivalRows
    verdicts: Verdicts
    originals: npt.NDArray[np.int64]
    original_ids: Sequence[bytes | None]
    original_times: npt.NDArray[np.int64]
    original_ranks: npt.NDArray[np.float64]
    incomplete: npt.NDArray[np.bool_]
    arrived: npt.NDArray[np.int64]


class Run(NamedTuple):
    """Consecutive verdicts of a partition, as a record."""

    partition: int
    key: bytes
    value: bytes


def encode_runs(decision: Decision, *, separate: bool = False) -> Iterator[Run]:
    """Return the records of a step: one for each partition, or several if one would be too long. Ids are full ids, if
    collections are ``separate``."""
    lines = [orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE) for fields in _fields(decision, separate)]
    partitions, offsets = partitions_of(decision.rows.places), offsets_of(decision.rows.places)
    for partition in np.unique(partitions).tolist():
        rows = np.flatnonzero(partitions == partition)
        sizes = np.array([len(lines[row]) for row in rows.tolist()])
        for part in (rows[numbers] for numbers in in_parts(sizes, RUN_BYTES_MAX)):
            key = f"{offsets[part[0]]}-{offsets[part[-1]] + 1}"
            yield Run(partition, key.encode(), b"".join(lines[row] for row in part.tolist()))


def _fields(decision: Decision, separate: bool) -> Iterator[dict[str, Any]]:
    rows, verdicts = decision.rows, decision.verdicts
    data, starts = rows.ids.tobytes(), rows.id_starts.tolist()
    columns = zip(
        offsets_of(rows.places).tolist(),
        rows.kinds.tolist(),
        rows.times.tolist(),
        rows.contents.tolist(),
        rows.ranks.tolist(),
        verdicts.statuses.tolist(),
        verdicts.clusters.tolist(),
        decision.originals.tolist(),
        [None if of is None else _named(of.decode(), separate)["id"] for of in decision.original_ids],
        np.round(verdicts.similarities.astype(np.float64), SIMILARITY_DIGITS).tolist(),
        verdicts.related.tolist(),
        verdicts.previous.tolist(),
        verdicts.matched.tolist(),
        verdicts.equal.tolist(),
        verdicts.late.tolist(),
        decision.incomplete.tolist(),
        decode_shown(rows.shown, len(rows.places)),
        strict=True,
    )
    for i, (offset, kind, time, content, rank, status, *others) in enumerate(columns):
        out: dict[str, Any] = {"offset": offset}
        if starts[i] < starts[i + 1]:
            out |= _named(data[starts[i] : starts[i + 1]].decode(), separate)
        out["status"] = STATUSES[status]
        *verdict, gap, shown = others
        if kind == DOCUMENT:
            out |= shown
            out |= _decided(*verdict)
            out["timestamp"], out["content"] = time / _MICROSECONDS, f"{content:016x}"
            if rank == rank:  # else it is not a number: none
                out["rank"] = rank
        out["arrival"] = decision.first + i
        if gap:
            out["incomplete"] = True
        yield out


def _decided(
    cluster: int, original: int, of: str | None, similarity: float, related: int, previous: int, matched: int,
    equal: bool, late: bool,
) -> dict[str, Any]:  # fmt: skip
    """Return the fields of a line that only a document has, without those that have no value."""
    out: dict[str, Any] = {}
    if of is not None:
        out["duplicate_of"] = of
    if original >= 0:
        out["original"] = place_name(original)
    if similarity:
        out["similarity"] = similarity
    out["cluster"] = place_name(cluster)
    for name, place in (("related", related), ("previous", previous), ("matched", matched)):
        if place >= 0:
            out[name] = place_name(place)
    return out | {name: True for name, value in (("equal", equal), ("late", late)) if value}


def _named(id_: str, separate: bool) -> dict[str, str]:
    """Return an id, and its collection, as fields of a line."""
    collection, bare = split_id(id_) if separate else (None, id_)
    return {"id": bare, **named_collection(collection)}


class DecidedRows(NamedTuple):
    """n verdicts as columns, read back from the topic: the arrivals and their decisions.

    ``numbers`` (``int64[n]``) are the arrival numbers over all partitions. ``statuses``, ``clusters``, ``originals``
    (places), ``similarities``, ``matched``, ``equal``, ``late`` and ``original_ids`` are the columns of ``Decision``.
    """

    numbers: npt.NDArray[np.int64]
    rows: ArrivalRows
    statuses: npt.NDArray[np.uint8]
    clusters: npt.NDArray[np.int64]
    originals: npt.NDArray[np.int64]
    similarities: npt.NDArray[np.float32]
    matched: npt.NDArray[np.int64]
    equal: npt.NDArray[np.bool_]
    late: npt.NDArray[np.bool_]
    original_ids: list[bytes | None]

    def select(self, order: npt.NDArray[np.int64]) -> DecidedRows:
        """Return some rows, in the given order."""
        columns = [column[order] for column in self[2:9]]
        ids = [self.original_ids[i] for i in order.tolist()]
        return DecidedRows._make([self.numbers[order], self.rows.select(order), *columns, ids])


def parse_run(value: bytes | None) -> list[dict[str, Any]]:
    """Return the verdicts of a record; raises ``WireError``."""
    try:
        return [orjson.loads(line) for line in (value or b"").splitlines()]
    except ValueError:
        raise WireError(
            f"a record of verdicts begins {(value or b'')[:40]!r}: no linker wrote it; see who writes to that topic"
        ) from None


def decided_rows(
    partition: int, lines: Sequence[dict[str, Any]], no_time: int, *, separate: bool = False
) -> DecidedRows:
    """Return verdicts of a partition as columns; ``no_time`` stands for an absent timestamp. Ids are full ids, if
    collections are ``separate``."""
    ids = [_id(line, "id", separate) for line in lines]
    starts = np.zeros(len(ids) + 1, np.int64)
    np.cumsum([len(id_) for id_ in ids], out=starts[1:])
    timestamps = [line.get("timestamp") for line in lines]
    rows = ArrivalRows(
        np.array([line["offset"] for line in lines], np.int64) + parse_place(f"{partition}-0"),
        np.array([_KINDS.get(line["status"], DOCUMENT) for line in lines], np.uint8),
        np.array([no_time if time is None else round(time * _MICROSECONDS) for time in timestamps], np.int64),
        np.array([int(line.get("content", "0"), 16) for line in lines], np.uint64),
        np.frombuffer(b"".join(ids), np.uint8),
        starts,
        np.array([line.get("rank", NO_RANK) for line in lines], np.float64),
        np.zeros(len(lines), np.int64),
    )
    return DecidedRows(
        np.array([line["arrival"] for line in lines], np.int64),
        rows,
        np.array([STATUSES.index(line["status"]) for line in lines], np.uint8),
        np.array([_place(line, "cluster") for line in lines], np.int64),
        np.array([_place(line, "original") for line in lines], np.int64),
        np.array([line.get("similarity", 0.0) for line in lines], np.float32),
        # Lines of 0.1.0 name no match: it is the original.
        np.array([_place(line, "matched" if "matched" in line else "original") for line in lines], np.int64),
        np.array([line.get("equal", False) for line in lines], np.bool_),
        np.array([line.get("late", False) for line in lines], np.bool_),
        [_id(line, "duplicate_of", separate) if "duplicate_of" in line else None for line in lines],
    )


def _id(line: dict[str, Any], name: str, separate: bool) -> bytes:
    return stored_id(line[name], line.get("collection"), separate=separate) if name in line else b""


def join_decided(parts: Sequence[DecidedRows]) -> DecidedRows:
    """Return the verdicts of all parts in order of arrival; at least one part."""
    ids = np.concatenate([part.rows.ids for part in parts])
    lengths = np.concatenate([np.diff(part.rows.id_starts) for part in parts])
    starts = starts_of_lengths(lengths)
    places, kinds, times, contents = (
        np.concatenate([part.rows[column] for part in parts]) for column in range(4)
    )  # fmt: skip
    ranks = np.concatenate([part.rows.ranks for part in parts])
    numbers, *columns = (np.concatenate([part[column] for part in parts]) for column in (0, *range(2, 9)))
    original_ids = [id_ for part in parts for id_ in part.original_ids]
    rows = ArrivalRows(places, kinds, times, contents, ids, starts, ranks, np.zeros(len(ranks), np.int64))
    joined = DecidedRows._make([numbers, rows, *columns, original_ids])
    return joined.select(np.argsort(numbers, kind="stable"))


def _place(line: dict[str, Any], name: str) -> int:
    return parse_place(line[name]) if name in line else -1
