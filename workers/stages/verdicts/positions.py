"""What a linker commits: offsets of three topics with their metadata, and from which verdicts a restart restores.

The group of linkers commits in ``arrivals`` the first record with an undecided row, in ``links`` where a restart reads
each partition, and in ``verdicts`` where a restart begins to read what was decided. They are one transaction with the
verdicts, so they agree.

Theory of operation. A *mark* is a moment between two transactions: so many arrivals were decided, and the logs of
``verdicts`` ended there. Everything decided later stands behind it. The newest mark whose rows have all left the window
is where a restart may begin; older ones are forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import orjson

from stream.errors import ConfigError
from workers.transport.protocol import Committed

_VERSION = 1


class ArrivalsPlace(NamedTuple):
    """Metadata of the offset in ``arrivals``: decided rows of the record there, decided arrivals in all, the number of
    the first arrival to restore, and stream time in microseconds or none."""

    row: int
    arrivals: int
    first: int
    stream_time: int | None


class VerdictsPlace(NamedTuple):
    """Metadata of an offset in ``verdicts``: up to which offset of ``documents`` was decided, after the step and at
    the mark."""

    decided: int
    marked: int


class Mark(NamedTuple):
    """``row`` is the number of the next row then, ``arrivals`` that of the next arrival; ``ends`` are those of the logs
    of ``verdicts``, ``decided`` the offsets of ``documents``, by partition."""

    row: int
    arrivals: int
    ends: Mapping[int, int]
    decided: Mapping[int, int]


class Marks:
    """The marks of one linker, oldest first; there is always one."""

    def __init__(self, first: Mark) -> None:
        self._marks = deque([first])

    def add(self, mark: Mark) -> None:
        """Add a newer one."""
        self._marks.append(mark)

    def oldest(self, row: int) -> Mark:
        """Return the mark from which rows from number ``row`` on can be restored, and forget those before it."""
        while len(self._marks) > 1 and self._marks[1].row <= row:
            self._marks.popleft()
        return self._marks[0]


def encode_place(place: ArrivalsPlace | VerdictsPlace) -> str:
    """Encode metadata of a committed offset: compact JSON."""
    return orjson.dumps({"version": _VERSION, **place._asdict()}).decode()


def decode_arrivals_place(committed: Committed) -> ArrivalsPlace:
    """Decode the metadata of the offset in ``arrivals``; raises ``ConfigError``."""
    fields = _fields(committed)
    return ArrivalsPlace(fields["row"], fields["arrivals"], fields["first"], fields["stream_time"])


def decode_verdicts_place(committed: Committed) -> VerdictsPlace:
    """Decode the metadata of an offset in ``verdicts``; raises ``ConfigError``."""
    fields = _fields(committed)
    return VerdictsPlace(fields["decided"], fields["marked"])


def _fields(committed: Committed) -> dict[str, int]:
    try:
        fields: dict[str, int] = orjson.loads(committed.metadata)
        if fields["version"] != _VERSION:
            raise ValueError
        return fields
    except (ValueError, KeyError, TypeError):
        raise ConfigError(
            f"the group has committed an offset with metadata {committed.metadata[:80]!r}, which no linker wrote: "
            "use another group, or reset this one and say where to start with --from"
        ) from None
