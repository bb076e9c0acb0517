"""The commit of a linker: offsets of three topics with metadata, and the verdicts from which a restart restores.

The group of linkers commits in ``signed`` the first record with an undecided row, in ``links`` the offset at which a
restart reads each partition, and in ``verdicts`` the offset at which a restart begins to restore. One transaction holds
all of them and the verdicts, so they agree.

Theory of operation. A *mark* is a moment between two transactions. It stores the number of decided arrivals and the
ends of the logs of ``verdicts``; later decisions are after these ends. A restart may begin at the newest mark whose
rows have all left the window. Older marks are dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import orjson

from neardup.pairs.shards import Growth
from neardup_workers.doing.stages.growth import growth_fields, growth_of
from neardup_workers.doing.stages.starts import decoded_metadata
from neardup_workers.outside.transport.protocol import Committed

_VERSION = 2


class SignedMetadata(NamedTuple):
    """Metadata of the offset in ``signed``: decided rows of the record at the offset, the number of all decided
    arrivals, the number of the first arrival to restore, stream time in microseconds or none, how many shards there
    are up to the offset, the offset from which on a restart needs ``signed``, the last step that wrote to
    ``originals``, how many arrivals ``sources`` counts, -1 for none, how many documents the first linker passed
    because no matcher had published links of them, and the position from which on documents count for the rarity of
    elements, ``None`` if none do."""

    row: int
    arrivals: int
    first: int
    stream_time: int | None
    growth: Growth
    window: int = 0
    step: int = -1
    sources: int = -1
    skipped: int = 0
    counted: int | None = None


class VerdictsMetadata(NamedTuple):
    """Metadata of an offset in ``verdicts``: the end of the decided offsets of ``documents``, after the step and at the
    mark."""

    decided: int
    marked: int


class Mark(NamedTuple):
    """State at a mark. ``row`` and ``arrivals`` are the numbers of the next row and of the next arrival, ``offset`` is
    that of the message in ``signed`` with the next row. By partition,
    ``ends`` are the ends of the logs of ``verdicts``, and ``decided`` the ends of the decided offsets of
    ``documents``."""

    row: int
    arrivals: int
    ends: Mapping[int, int]
    decided: Mapping[int, int]
    offset: int = 0


class Marks:
    """The marks of one linker, oldest first; there is always one."""

    def __init__(self, first: Mark) -> None:
        self._marks = deque([first])

    def add(self, mark: Mark) -> None:
        """Add a newer mark."""
        self._marks.append(mark)

    def oldest(self, row: int) -> Mark:
        """Return the newest mark from which all rows from ``row`` on can be restored, and drop older marks."""
        while len(self._marks) > 1 and self._marks[1].row <= row:
            self._marks.popleft()
        return self._marks[0]


def encode_metadata(metadata: SignedMetadata | VerdictsMetadata) -> str:
    """Encode metadata of a committed offset: compact JSON."""
    fields = metadata._asdict()
    if isinstance(metadata, SignedMetadata):
        fields["growth"] = growth_fields(metadata.growth)
    return orjson.dumps({"version": _VERSION, **fields}).decode()


def decode_signed_metadata(committed: Committed) -> SignedMetadata:
    """Decode the metadata of the offset in ``signed``; raises ``ConfigError``."""
    with decoded_metadata(committed.metadata, _VERSION, "linker") as fields:
        values = {name: fields[name] for name in SignedMetadata._fields}
        return SignedMetadata(**values | {"growth": growth_of(values["growth"])})


def decode_verdicts_metadata(committed: Committed) -> VerdictsMetadata:
    """Decode the metadata of an offset in ``verdicts``; raises ``ConfigError``."""
    with decoded_metadata(committed.metadata, _VERSION, "linker") as fields:
        return VerdictsMetadata(fields["decided"], fields["marked"])
