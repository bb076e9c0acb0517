"""The stories with a second member, as records of ``originals``, a compacted topic with one partition.

A linker compares documents with the contents of stories, and a story may outlive its rows in ``signed``. So its records
hold all that a restart needs of it. Keys:

- ``story PLACE``: a story, named by the place of its original: the times that decide how long it lives, and the id of
  its original. Written when a second member joins, and with every further one.
- ``content PLACE``: a content of a story, by the place of its version, with its evidence. Written when the second
  member joins, and at updates. Evidence of more than ``EVIDENCE_BYTES_MAX`` is left out.
- ``step``: the number of arrivals decided before the last step that wrote to the topic. The markers of a transaction
  reach partitions one after the other; a restart reads until it has seen the step that the committed offset names.

A record without a value ends a story, or a content of it. All of a step is in the transaction of its verdicts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import compress, repeat
from operator import not_
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.pairs.batches import id_hashes
from neardup.pairs.window_message import WireError
from neardup.stories.verdicts.kept import KeptStories
from neardup.stories.verdicts.records import (
    BEGIN,
    BYTES_MASK,
    CONTENT_PLACE,
    CONTENT_ROW,
    CONTENTS,
    ID,
    MEMBERS,
    NEWEST,
    OLDER,
    OLDEST,
    OWN,
    PLACE,
    RECORD_FIELDS,
    SIZE,
    STORY_BYTES,
    contents_in,
)
from neardup.stories.verdicts.row_columns import GONE, NONE
from neardup_workers.doing.stages.verdicts.evidence import EVIDENCE_BYTES_MAX, Compared
from neardup_workers.outside.topics.columns import Lines, Spans, spans_of
from neardup_workers.outside.topics.places import OFFSET_BITS, found_at, parse_places
from neardup_workers.outside.topics.verdicts import DecidedRows
from neardup_workers.outside.transport.protocol import Record

# Magic, signing fingerprint, four numbers; then an id, or evidence.
_VALUE = struct.Struct("<4s16sqqqq")
_STORY, _CONTENT = b"NDUO", b"NDUC"
_STORY_KEY, _CONTENT_KEY = b"story ", b"content "
STEP_KEY = b"step"
# Contents that are encoded together: that holds their evidence three times.
_TOGETHER = 256
Sent = tuple[bytes, bytes | None]
_Longs = npt.NDArray[np.int64]


class Stories(NamedTuple):
    """The stories of the topic, with the places of ``documents``; ``step`` is that of the last record.

    The row of a content is the position of its document in ``signed``. Its evidence is empty if it is not kept.
    """

    kept: KeptStories
    step: int


def _keys(kind: bytes, places: _Longs) -> list[bytes]:
    lines = Lines(len(places))
    lines.add_places(kind, places)
    return lines.texts()


def _values(kind: bytes, numbers: _Longs, parts: Iterable[bytes], fingerprint: str) -> list[bytes]:
    """Return the values of stories, or of contents: their numbers, ``int64[n, 4]``, then ids or evidence."""
    lines, data = Lines(len(numbers)), np.frombuffer(numbers.astype("<i8").tobytes(), np.uint8)
    each = np.arange(0, len(data) + 1, 4 * numbers.itemsize)
    lines.add(kind + bytes.fromhex(fingerprint), Spans(data, each[:-1], each[1:]))
    lines.add(b"", spans_of(parts))
    return lines.texts()


def encode_step(step: int) -> Sent:
    """Return the record that marks a step."""
    return STEP_KEY, str(step).encode()


def read_stories(records: Iterable[Record], fingerprint: str) -> Stories:
    """Return the stories of all records of the topic; raises ``WireError``."""
    last: dict[bytes, bytes | None] = {record.key: record.value for record in records if record.key is not None}
    step = int(last.pop(STEP_KEY, b"-1") or b"-1")
    values = [(key, value) for key, value in last.items() if value is not None]
    head, is_story = bytes.fromhex(fingerprint), [key.startswith(_STORY_KEY) for key, _ in values]
    places, numbers, ids = _columns(list(compress(values, is_story)), _STORY + head)
    contents, of_contents, parts = _columns(list(compress(values, map(not_, is_story))), _CONTENT + head)
    of = found_at(of_contents[:, 0], places)
    order = np.lexsort((of_contents[:, 1], of))
    order = order[of[order] >= 0]
    known, firsts, counts = np.unique(of[order], return_index=True, return_counts=True)
    out = np.zeros((len(known), RECORD_FIELDS), np.int64)
    out[:, [OWN, OLDER, MEMBERS, SIZE]] = GONE, NONE, 2, STORY_BYTES
    out[:, [ID, BEGIN, OLDEST, NEWEST]] = numbers[known]
    out[:, PLACE], out[:, CONTENTS] = places[known], counts
    record, at = np.repeat(np.arange(len(known)), counts), np.arange(len(order)) - np.repeat(firsts, counts)
    contents_in(out)[0][record, at] = np.column_stack([of_contents[order, 1], contents[order], of_contents[order, 2:]])
    np.add.at(out[:, SIZE], record, of_contents[order, 3] & BYTES_MASK)
    names = dict(zip(places[known].tolist(), (ids[n].decode() for n in known.tolist()), strict=True))
    evidence = dict(zip(contents[order].tolist(), (parts[n] for n in order.tolist()), strict=True))
    return Stories(KeptStories(out, names, evidence), step)


def _columns(values: list[tuple[bytes, bytes]], head: bytes) -> tuple[_Longs, _Longs, list[bytes]]:
    """Return the places of records that begin with ``head``, their numbers (``int64[n, 4]``), and what stands behind
    these; raises ``WireError`` for others.

    The numbers of a story are the hash of the id of its original, the times of its begin and of its oldest and newest
    member; behind them is the id. Those of a content are the place of the story, the position of the document in
    ``signed``, the hash of what is compared, the bytes of the evidence with the mark of its id; behind them is the
    evidence.
    """
    for key, value in values:
        if len(value) < _VALUE.size or not value.startswith(head):
            raise WireError(
                f"the record {key.decode()!r} of originals begins {value[:20].hex()}: no linker of this generation "
                "wrote it; see who writes to that topic"
            )
    places = parse_places([key.partition(b" ")[2].decode() for key, _ in values])
    numbers = b"".join([value[len(head) : _VALUE.size] for _, value in values])
    return places, np.frombuffer(numbers, "<i8").reshape(-1, 4), [value[_VALUE.size :] for _, value in values]


def changed_stories(
    kept: KeptStories, compared: Compared, placed: Callable[[_Longs], _Longs], fingerprint: str
) -> Iterator[Sent]:
    """Return the records of what a step changed; ``placed`` returns the places of documents that decisions name."""
    records = kept.records
    places = placed(records[:, PLACE])
    known = compared.held.names
    ids = [kept.ids[one] if one in kept.ids else known[one] for one in records[:, PLACE].tolist()]
    values = _values(_STORY, records[:, [ID, BEGIN, OLDEST, NEWEST]], map(str.encode, ids), fingerprint)
    yield from zip(_keys(_STORY_KEY, places), values, strict=True)
    contents, is_new = contents_in(records)
    is_new &= np.isin(contents[:, :, CONTENT_PLACE], list(kept.evidence))
    rows, names, hashes, sizes = contents[is_new].T
    numbers = np.stack([places[np.nonzero(is_new)[0]], compared.rows.find(rows), hashes, sizes], 1)
    keys = _keys(_CONTENT_KEY, placed(names))
    for at in range(0, len(names), _TOGETHER):
        some = slice(at, at + _TOGETHER)
        parts = (kept.evidence[name] for name in names[some].tolist())
        written = (part if len(part) <= EVIDENCE_BYTES_MAX else b"" for part in parts)
        yield from zip(keys[some], _values(_CONTENT, numbers[some], written, fingerprint), strict=True)
    for kind, gone in ((_STORY_KEY, kept.ended), (_CONTENT_KEY, kept.dropped)):
        yield from zip(_keys(kind, placed(np.array(gone, np.int64))), repeat(None), strict=False)


# The stories of a restart.


def left_places(found: DecidedRows, stories: KeptStories) -> _Longs:
    """Return the places that decided rows and stories name and that have no row, in the order of arrival.

    Where no record says where a place stands in ``signed``, it stands behind the place before it in its partition.
    """
    contents, is_used = contents_in(stories.records)
    positions, places = contents[is_used][:, [CONTENT_ROW, CONTENT_PLACE]].T
    known = dict(zip(places.tolist(), positions.tolist(), strict=True))
    named = np.unique(
        np.concatenate([found.verdicts.clusters, found.verdicts.matched, stories.records[:, PLACE], places])
    )
    left = named[~np.isin(named, found.rows.places) & (named >= 0)]
    order, position, partition = [], 0, -1
    for place in left.tolist():  # by partition, then offset
        if place >> OFFSET_BITS != partition:
            position, partition = 0, place >> OFFSET_BITS
        position = max(position, known.get(place, position))
        order.append((position, place))
    return np.array([place for _, place in sorted(order)], np.int64)


def kept_stories(
    found: DecidedRows, stories: KeptStories, numbers_of: Callable[[_Longs], _Longs], numbers: _Longs, zero: int
) -> KeptStories:
    """Return the stories with the names that decisions use: the number of a row plus ``zero``, the place of row 0.

    ``numbers_of`` returns the number of each place; ``numbers`` are those of the decided rows, -1 for what is no
    document.
    """

    def named(places: Iterable[int]) -> list[int]:
        return (numbers_of(np.array(list(places), np.int64)) + zero).tolist()  # type: ignore[no-any-return]

    records, places = stories.records.copy(), stories.records[:, PLACE]
    records[:, PLACE] = numbers_of(places) + zero
    contents, is_used = contents_in(records)
    rows = numbers_of(contents[is_used, CONTENT_PLACE])
    contents[is_used, CONTENT_ROW], contents[is_used, CONTENT_PLACE] = rows, rows + zero
    decided = np.flatnonzero((numbers >= 0) & ~found.verdicts.late)
    clusters = found.verdicts.clusters[decided]
    ids = id_hashes(found.rows.ids, found.rows.id_starts).view(np.int64)[decided]
    story = found_at(clusters, places)
    is_own = story >= 0
    is_own[is_own] = records[story[is_own], ID] == ids[is_own]
    records[story[is_own], OWN] = numbers[decided[is_own]]  # of several, the last one
    with_others, members = np.unique(clusters, return_counts=True)
    ended = with_others[(members > 1) & (found_at(with_others, places) < 0)]
    return KeptStories(
        records, dict(zip(named(stories.ids), stories.ids.values(), strict=True)),
        dict(zip(named(stories.evidence), stories.evidence.values(), strict=True)), named(ended.tolist()),
    )  # fmt: skip
