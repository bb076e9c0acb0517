"""The verdicts of a soak: each record of ``documents`` gets one, and how long that takes."""

from __future__ import annotations

import time
from statistics import median

from torture_cluster import TortureError

from neardup_workers.outside.topics.names import Topics
from neardup_workers.outside.topics.verdicts import parse_run
from neardup_workers.outside.transport.protocol import Reader, Transport, UnreachableError

DECIDED_SECONDS_MAX = 120.0
_RECORDS_MAX = 20_000


class Verdicts:
    """Reads ``documents`` and ``verdicts`` as they come."""

    def __init__(self, transport: Transport, topics: Topics) -> None:
        self._transport, self._topics = transport, topics
        self._readers: tuple[Reader, Reader] | None = None
        self._sent: dict[tuple[int, int], int] = {}  # place -> time in milliseconds, of what has no verdict
        self._early: dict[tuple[int, int], int] = {}  # the same of verdicts that were read before their documents
        self._waits: list[float] = []  # milliseconds from documents to verdicts, since the last call of latency
        self.decided = 0

    def latency(self) -> dict[str, float]:
        """The median time from a document to its verdict since the last call; nothing if none was decided."""
        self._read()
        waits, self._waits = self._waits, []
        return {"latency_ms": median(waits)} if waits else {}

    def finish(self) -> None:
        """Wait until all is decided; raises ``TortureError`` if a verdict does not come, or comes twice."""
        deadline = time.monotonic() + DECIDED_SECONDS_MAX
        idle = 0
        while idle < 10:
            idle = 0 if self._read() or self._sent or self._early else idle + 1
            if time.monotonic() > deadline:
                first, more = sorted(self._sent)[:5], sorted(self._early)[:5]
                raise TortureError(f"without a verdict: {first}; verdicts that are second ones or of nothing: {more}")
            time.sleep(0.2)

    def close(self) -> None:
        for reader in self._readers or ():
            reader.close()

    def _read(self) -> int:
        """Read what has come; return how many documents got their verdicts."""
        if self._readers is None:
            self._readers = self._reader(self._topics.documents), self._reader(self._topics.verdicts)
        documents, verdicts = self._readers
        try:
            for record in documents.poll(0.0, _RECORDS_MAX):
                self._sent[record.partition, record.offset] = record.timestamp_ms
            for record in verdicts.poll(0.0, _RECORDS_MAX):
                for line in parse_run(record.value):
                    place = record.partition, line["offset"]
                    if place in self._early:
                        raise TortureError(f"{place} has a second verdict")
                    self._early[place] = record.timestamp_ms
        except UnreachableError:
            pass
        both = self._early.keys() & self._sent.keys()
        self._waits += [float(self._early.pop(place) - self._sent.pop(place)) for place in both]
        self.decided += len(both)
        return len(both)

    def _reader(self, topic: str) -> Reader:
        reader = self._transport.reader(topic)
        reader.follow({partition: first for partition, (first, _) in self._transport.bounds(topic).items()})
        return reader
