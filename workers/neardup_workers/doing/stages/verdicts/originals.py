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
from itertools import compress
from operator import not_
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from neardup.pairs.batches import id_hashes
from neardup.pairs.window_message import WireError
from neardup.stories.verdicts.held import KeptStories
from neardup.stories.verdicts.records import (
    BEGIN,
    CONTENT,
    CONTENT_ROW,
    CONTENTS,
    CONTENTS_MAX,
    HEAD,
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
)
from neardup.stories.verdicts.row_columns import GONE, NONE
from neardup_workers.doing.stages.verdicts.evidence import EVIDENCE_BYTES_MAX, Added, Compared
from neardup_workers.outside.topics.places import OFFSET_BITS, found_at, parse_places, place_name
from neardup_workers.outside.topics.verdicts import DecidedRows
from neardup_workers.outside.transport.protocol import Record

# Magic, signing fingerprint, four numbers; then an id, or evidence.
_VALUE = struct.Struct("<4s16sqqqq")
_STORY, _CONTENT = b"NDUO", b"NDUC"
STEP_KEY = b"step"
# The numbers of a content that are read: see ``Columns``. Behind the hash are the bytes.
_OF_STORY, _POSITION, _HASH = range(3)
Sent = tuple[bytes, bytes | None]
_Longs = npt.NDArray[np.int64]


class Columns(NamedTuple):
    """n records of one kind: their places; ``numbers`` (``int64[n, 4]``); and what stands behind these.

    The numbers of a story are the hash of the id of its original, the times of its begin and of its oldest and newest
    member; the data is the id of its original. Those of a content are the place of the story, the position of the
    document in ``signed``, the hash of what is compared, the bytes of the evidence; the data is the evidence, empty if
    it is not kept.
    """

    places: _Longs
    numbers: _Longs
    data: list[bytes]


NO_COLUMNS = Columns(np.empty(0, np.int64), np.empty((0, 4), np.int64), [])


class Stories(NamedTuple):
    """All stories of the topic, and their contents; ``step`` is that of the last record."""

    stories: Columns
    contents: Columns
    step: int


def _values(kind: bytes, numbers: _Longs, parts: Iterable[bytes], fingerprint: str) -> Iterator[bytes]:
    """Return the values of stories, or of contents: their numbers, ``int64[n, 4]``, then ids or evidence."""
    head, data = kind + bytes.fromhex(fingerprint), numbers.astype("<i8").tobytes()
    size = _VALUE.size - len(head)
    for at, part in zip(range(0, len(data), size), parts, strict=True):
        yield head + data[at : at + size] + part


def encode_ends(stories: Iterable[int], contents: Iterable[int]) -> Iterator[Sent]:
    """Return the records that end stories and contents, by place."""
    for kind, places in (("story", stories), ("content", contents)):
        for place in places:
            yield _key(kind, place), None


def encode_step(step: int) -> Sent:
    """Return the record that marks a step."""
    return STEP_KEY, str(step).encode()


def read_stories(records: Iterable[Record], fingerprint: str) -> Stories:
    """Return the stories of all records of the topic; raises ``WireError``."""
    last: dict[bytes, bytes | None] = {record.key: record.value for record in records if record.key is not None}
    step = int(last.pop(STEP_KEY, b"-1") or b"-1")
    values = [(key, value) for key, value in last.items() if value is not None]
    head, is_story = bytes.fromhex(fingerprint), [key.startswith(b"story ") for key, _ in values]
    return Stories(
        _columns(list(compress(values, is_story)), _STORY + head),
        _columns(list(compress(values, map(not_, is_story))), _CONTENT + head),
        step,
    )


def _columns(values: list[tuple[bytes, bytes]], head: bytes) -> Columns:
    """Return records that begin with ``head``; raises ``WireError`` for others."""
    for key, value in values:
        if len(value) < _VALUE.size or not value.startswith(head):
            raise WireError(
                f"the record {key.decode()!r} of originals begins {value[:20].hex()}: no linker of this generation "
                "wrote it; see who writes to that topic"
            )
    places = parse_places([key.partition(b" ")[2].decode() for key, _ in values])
    numbers = b"".join([value[len(head) : _VALUE.size] for _, value in values])
    return Columns(
        places, np.frombuffer(numbers, "<i8").reshape(-1, 4), [value[_VALUE.size :] for _, value in values]
    )  # fmt: skip


def changed_stories(
    added: Added, compared: Compared, placed: Callable[[_Longs], _Longs], fingerprint: str
) -> Iterator[Sent]:
    """Return the records of what a step changed; ``placed`` returns the places of documents that decisions name."""
    changes, parts, names = added
    records = changes.records
    places = placed(records[:, PLACE]).tolist()
    named = records[:, PLACE].tolist()
    ids = [(names[one] if one in names else compared.names[one]).encode() for one in named]
    values = _values(_STORY, records[:, [ID, BEGIN, OLDEST, NEWEST]], ids, fingerprint)
    yield from zip((_key("story", place) for place in places), values, strict=True)
    contents = records[:, HEAD:].reshape(len(records), CONTENTS_MAX, CONTENT)
    is_new = np.isin(contents[:, :, CONTENT_ROW], changes.added)
    is_new &= np.arange(CONTENTS_MAX) < records[:, CONTENTS, None]
    story, number = np.nonzero(is_new)
    rows, names_of, hashes, sizes = contents[story, number].T
    kept = (parts[row] if len(parts[row]) <= EVIDENCE_BYTES_MAX else b"" for row in rows.tolist())
    numbers = np.stack([np.array(places, np.int64)[story], compared.rows.find(rows), hashes, sizes], 1)
    values = _values(_CONTENT, numbers, kept, fingerprint)
    yield from zip((_key("content", place) for place in placed(names_of).tolist()), values, strict=True)
    yield from encode_ends(placed(changes.ended).tolist(), placed(changes.dropped_places).tolist())


# The stories of a restart.


def left_places(found: DecidedRows, stories: Stories) -> _Longs:
    """Return the places that decided rows and stories name and that have no row, in the order of arrival.

    Where no record says where a place stands in ``signed``, it stands behind the place before it in its partition.
    """
    contents = stories.contents
    known = dict(zip(contents.places.tolist(), contents.numbers[:, _POSITION].tolist(), strict=True))
    named = np.unique(
        np.concatenate([found.verdicts.clusters, found.verdicts.matched, stories.stories.places, contents.places])
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
    found: DecidedRows, stories: Stories, numbers_of: Callable[[_Longs], _Longs], numbers: _Longs, zero: int
) -> KeptStories:
    """Return the stories with the names that decisions use: the number of a row plus ``zero``.

    Args:
        found: the decided rows.
        stories: the stories of the topic.
        numbers_of: returns the number of each place.
        numbers: of the decided rows, -1 for what is no document.
        zero: the place of row 0.
    """
    of = found_at(stories.contents.numbers[:, _OF_STORY], stories.stories.places)
    order = np.lexsort((stories.contents.numbers[:, _POSITION], of))
    order = order[of[order] >= 0]
    known, firsts, counts = np.unique(of[order], return_index=True, return_counts=True)
    places, content_numbers = stories.stories.places[known], numbers_of(stories.contents.places[order])
    records = np.zeros((len(known), RECORD_FIELDS), np.int64)
    records[:, [OWN, OLDER, MEMBERS, SIZE]] = GONE, NONE, 2, STORY_BYTES
    records[:, [ID, BEGIN, OLDEST, NEWEST]] = stories.stories.numbers[known]
    records[:, PLACE], records[:, CONTENTS] = numbers_of(places) + zero, counts
    record, at = np.repeat(np.arange(len(known)), counts), np.arange(len(order)) - np.repeat(firsts, counts)
    hashes, sizes = stories.contents.numbers[order, _HASH:].T
    fields = np.stack([content_numbers, content_numbers + zero, hashes, sizes], 1)
    records[record[:, None], HEAD + CONTENT * at[:, None] + np.arange(CONTENT)] = fields
    np.add.at(records[:, SIZE], record, sizes)
    rows = np.flatnonzero((numbers >= 0) & ~found.verdicts.late)
    clusters, ids = found.verdicts.clusters[rows], id_hashes(found.rows.ids, found.rows.id_starts).view(np.int64)[rows]
    story = found_at(clusters, places)
    is_own = story >= 0
    is_own[is_own] = records[story[is_own], ID] == ids[is_own]
    records[story[is_own], OWN] = numbers[rows[is_own]]  # of several, the last one
    named, members = np.unique(clusters, return_counts=True)
    ended = named[(members > 1) & (found_at(named, places) < 0)]
    return KeptStories(records, {}, {}, numbers_of(ended) + zero)


def _key(kind: str, place: int) -> bytes:
    return f"{kind} {place_name(place)}".encode()
