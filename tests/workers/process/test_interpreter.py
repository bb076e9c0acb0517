"""The interpreter of a worker: what is free goes back to the system."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

import pytest

from neardup_workers.outside.process.interpreter import give_back

# Below the size from which the allocator asks the system for each object alone.
_PIECE, _PIECES, _KEPT_EVERY = 60_000, 2_000, 20


def resident_bytes() -> int:
    """The resident memory of this process."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) << 10


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the allocator is not that of glibc")
def test_free_room_between_objects_that_stay_goes_back_to_the_system() -> None:
    """Of 120 MB one object in twenty stays: the rest is free for the allocator, and leaves the process only then."""
    pieces: list[bytearray | None] = [bytearray(b"x" * _PIECE) for _ in range(_PIECES)]
    kept = pieces[::_KEPT_EVERY]
    pieces.clear()
    gc.collect()
    before = resident_bytes()
    give_back()
    assert before - resident_bytes() > _PIECE * _PIECES // 2
    assert all(piece == b"x" * _PIECE for piece in kept)
