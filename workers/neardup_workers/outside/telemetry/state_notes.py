"""What keeps a worker from its work, as ``neardup status`` reads it: metadata of an offset in the topic ``settings``.

Each worker commits it for a group of its own, which has the worker's name and no member. So Kafka keeps the notes of
all workers for as long as it keeps offsets, and no transaction, member or restart depends on one: a note that is late,
or of a process that was replaced meanwhile, is a wrong line on a screen, until it is old.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import orjson

_VERSION = 1
# A worker that is kept from its work repeats its note at this interval; after so many intervals it is no news.
NOTE_SECONDS, _INTERVALS_MAX = 10.0, 6
# Of each sentence: the notes of all states are at most 4,000 characters.
_CHARACTERS_MAX = 500


class StateNote(NamedTuple):
    """A state of a worker, and for how long; what it says of it; whether it has made no progress for longer than is
    usual, why that may be, and where to look; without progress for ``deadline`` seconds it restarts or is not ready."""

    state: str
    seconds: float
    deadline: float
    says: str
    late: bool
    why: str
    look: str


def encode_notes(heard: float, notes: Sequence[StateNote]) -> str:
    """Return the metadata for the states of a worker at a time in seconds; none of them if it works."""
    rows = [note._replace(seconds=round(note.seconds, 1), says=note.says[:_CHARACTERS_MAX])._asdict() for note in notes]
    return orjson.dumps({"version": _VERSION, "heard": heard, "states": rows}).decode()


def decode_notes(metadata: str, now: float) -> list[StateNote]:
    """Return the states of a worker that still count, as of now; none from another version of the worker."""
    with suppress(ValueError, KeyError, TypeError):
        said = orjson.loads(metadata)
        age = max(0.0, now - said["heard"])
        if said["version"] == _VERSION and age <= NOTE_SECONDS * _INTERVALS_MAX:
            notes = [StateNote(**row) for row in said["states"]]
            return [note._replace(seconds=note.seconds + age) for note in notes]
    return []
