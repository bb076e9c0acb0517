"""The interpreter: garbage collector, threads and free memory of a process that works without a pause; ``zstd``."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Zstandard is a part of the standard library from Python 3.14 on; before, it is a package of its own.
if sys.version_info >= (3, 14):
    from compression import zstd as zstd
else:
    from backports import zstd as zstd

# New objects between two runs of the garbage collector. A step makes thousands of records without reference cycles, so
# the default of 700 costs a tenth of a signer's time.
_COLLECT_OBJECTS = 50_000
# Seconds until a thread that decodes yields to one that returns from a kernel. The interpreter's default of 5 ms is
# longer than the signing of a chunk.
_SWITCH_SECONDS = 1e-4


def unzstd(frame: zstd.ZstdDecompressor, data: bytes, step_bytes: int) -> Iterator[bytes]:
    """Yield what a frame unpacks to, at most ``step_bytes`` at a time.

    Raises ``zstd.ZstdError`` if the data is damaged, ``EOFError`` if it breaks off.
    """
    while not frame.eof:
        part = frame.decompress(data, step_bytes)
        data = b""  # the decompressor keeps the remaining input
        if not part and not frame.eof and frame.needs_input:
            raise EOFError("the data breaks off")
        yield part


def share_interpreter() -> None:
    """Let a thread that decodes and a thread that signs take turns often."""
    sys.setswitchinterval(_SWITCH_SECONDS)


def settle() -> None:
    """Set up a worker: freeze start-up objects and kernels, collect rarely, and share the interpreter."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_OBJECTS)
    share_interpreter()


@contextmanager
def uncollected() -> Iterator[None]:
    """Run no garbage collector inside, where many objects are made that stay."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def give_back() -> None:
    """Free what reference cycles hold, and give the system the pages that the allocator has free (glibc; others do it
    alone, or not).

    Messages of all sizes come and go between objects that stay. So free room lies in holes, in which the next message
    may not fit: without this, the memory of a process grows for hours, although nothing is kept.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
