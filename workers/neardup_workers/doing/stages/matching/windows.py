"""The beginning of the window of a shard: the metadata of every offset that a matcher commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from neardup.pairs.shards import Growth
from neardup_workers.doing.stages.growth import growth_fields, growth_of
from neardup_workers.doing.stages.starts import decoded_metadata
from neardup_workers.outside.topics.signed import position_of

_METADATA_VERSION = 1
# What limits cost a shard since it began, of the counts of its table: part of the metadata, so it outlives its owners.
KEPT_COUNTS = ("near_documents", "lone_documents", "near_pairs", "missed_pairs")


class Window(NamedTuple):
    """The beginning of a window: the offset of its first message, and the stream time before it (microseconds, or
    none). ``growth``: how many shards there are, up to the committed position. ``row``: how many rows of the message at
    the committed offset are in the table. ``counts``: those of ``KEPT_COUNTS``. ``published``: the position up to which
    pairs are in ``candidates``, if that is behind the committed one: rows before it lead to links alone. ``counted``:
    the position from which on documents count for the rarity of elements, at ``start`` or behind it; ``None`` if none
    do."""

    start: int
    stream_time: int | None
    fingerprint: str
    growth: Growth
    row: int = 0
    counts: tuple[int, ...] = (0,) * len(KEPT_COUNTS)
    published: int = 0
    counted: int | None = None

    def behind(self, first: int) -> Window:
        """Return what is left of the window in a log that begins at an offset."""
        counted = None if self.counted is None else max(self.counted, position_of(first))
        return self._replace(start=first, counted=counted)


def added_counts(of_shards: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """Return the counts of ``KEPT_COUNTS`` of some shards together.

    A document may have pairs in several shards, so those with a pair are at least as many as in the shard with most.
    """
    columns = zip(*of_shards, strict=True) if of_shards else [(0,)] * len(KEPT_COUNTS)
    added = {name: sum(column) for name, column in zip(KEPT_COUNTS, columns, strict=True)}
    return added | {"near_documents": max((counts[0] for counts in of_shards), default=0)}


def encode_window(window: Window) -> str:
    """Encode the metadata of a committed offset: compact JSON, far below the broker's limit of 4,096 characters."""
    fields = {
        "version": _METADATA_VERSION,
        "from": window.start,
        "time": window.stream_time,
        "row": window.row,
        "growth": growth_fields(window.growth),
        "fingerprint": window.fingerprint,
        "counts": window.counts,
    }
    if window.published:
        fields["published"] = window.published
    if window.counted is not None:
        fields["counted"] = window.counted
    return orjson.dumps(fields).decode()


def decode_window(metadata: str) -> Window:
    """Decode the metadata of a committed offset; raises ``ConfigError`` for metadata of another program."""
    with decoded_metadata(metadata, _METADATA_VERSION, "matcher") as fields:
        growth, counts = growth_of(fields["growth"]), tuple(fields["counts"])
        window = Window(fields["from"], fields["time"], fields["fingerprint"], growth, fields["row"])
        return window._replace(counts=counts, published=fields.get("published", 0), counted=fields.get("counted"))
