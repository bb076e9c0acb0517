"""Processes that read feeds: to start one takes fifteen times what most feeds take to read, so each reads many.

A hostile feed costs its time and a start: a process that takes too long is ended, and one that dies or has refused a
feed reads no other. So does one after ``_FEEDS_MAX`` feeds, because memory that a large feed has taken stays with it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from queue import LifoQueue
from typing import Any

import orjson

from neardup.errors import Reason
from neardup_workers.outside.feeds.items import ANSWER, REQUEST, Item, Named
from neardup_workers.outside.process.stop import readable
from neardup_workers.outside.web.extraction import PipedProcess

# Processes at most; one that is not needed does not start.
PROCESSES_MAX = 4
_FEEDS_MAX = 500
_MODULE = "neardup_workers.outside.feeds.items"


class Parsers:
    """A pool of processes that read feeds; threads may share one. ``close`` ends the processes. Most feeds take
    milliseconds; a hostile one is given up after ``seconds_max``."""

    def __init__(self, seconds_max: float, processes_max: int = PROCESSES_MAX) -> None:
        self._seconds_max = seconds_max
        # The one that was used last comes first, so that the others do not start, or rest.
        self._free: LifoQueue[_Process | None] = LifoQueue()
        for _ in range(processes_max):
            self._free.put(None)
        self._count = processes_max

    def items_of(self, content: bytes, url: str, content_type: str) -> list[Item] | Named | Reason:
        """Return the items of a feed in its order, or what else it is: a page that names its feed, or a reason why
        there are none (a key of ``FEED_REASONS``).
        """
        process = self._free.get()
        try:
            process = process or _Process(self._seconds_max)
            found = process.items_of(content, url, content_type)
        except TimeoutError:
            found = Reason("feed_slow")
        except (OSError, ValueError):  # it died: its answer is cut
            found = Reason("feed_damaged")
        finally:
            if process is not None and (isinstance(found, Reason) or process.feeds >= _FEEDS_MAX):
                process.end()
                process = None
            self._free.put(process)
        return found

    def close(self) -> None:
        """Wait for the feeds that are read, and end all processes."""
        for _ in range(self._count):
            process = self._free.get()
            if process is not None:
                process.end()


class _Process(PipedProcess):
    """A process that reads feeds, one after the other."""

    def __init__(self, seconds_max: float) -> None:
        self.feeds, self._seconds_max = 0, seconds_max
        super().__init__("-m", _MODULE, str(max(1, round(seconds_max))), stderr=subprocess.DEVNULL)

    def items_of(self, content: bytes, url: str, content_type: str) -> list[Item] | Named | Reason:
        """Return what ``Parsers.items_of`` returns. Raises ``TimeoutError``, ``OSError`` and ``ValueError``."""
        self.feeds += 1
        parts: Sequence[bytes] = (content, url.encode("utf-8", "replace"), content_type.encode("utf-8", "replace"))
        self._requests.write(REQUEST.pack(*map(len, parts)))
        for part in parts:
            self._requests.write(part)
        self._requests.flush()
        if not readable(self._answers.fileno(), self._seconds_max):
            raise TimeoutError
        head = self._answers.read(ANSWER.size)
        if len(head) < ANSWER.size:
            raise ValueError
        answer: Any = orjson.loads(self._answers.read(*ANSWER.unpack(head)))
        if isinstance(answer, dict):
            return Named(**answer)
        return Reason(answer) if isinstance(answer, str) else [Item(*row) for row in answer]
