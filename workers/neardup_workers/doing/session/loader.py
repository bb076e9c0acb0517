"""Documents sent to their topic in transactions, each sent again after an abort."""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections.abc import Sequence

import orjson

from neardup.documents.document import Document
from neardup.errors import Reason
from neardup.pairs.json_lines import UNITS
from neardup_workers.doing.session.session import Session
from neardup_workers.outside.process.backoff import backoff_seconds
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.entries import Entry
from neardup_workers.outside.readers.lines import BOM
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.messages import key_of_document, partition_of_key
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Message,
    OutcomeUnknownError,
    Producer,
    Transport,
    TransportError,
)

# Maximum documents and bytes of a transaction. They are held in memory, and sent again after a failure.
_BATCH_DOCUMENTS = 2_000
_BATCH_BYTES = 8 << 20
_TRIES = 6
# Bytes of a message in addition to its value and key.
_OVERHEAD_BYTES = 1_000
_MILLISECONDS = 1e3


class Loader:
    """Reads, batches and sends documents; the report of the session counts committed ones."""

    def __init__(self, transport: Transport, settings: StreamSettings, session: Session) -> None:
        self.settings, self.session, self.report = settings, session, session.report
        self.names = settings.field_names
        self._request_bytes_max = settings.client.request_bytes_max
        self.topic = names_of(settings).topics.documents
        self.partitions = transport.partitions(self.topic)
        # The name is unique to this process: two loads at the same time must not fence each other.
        self.name = f"{names_of(settings).prefix}-load-{socket.gethostname()}-{os.getpid()}"
        self.producer: Producer = transport.producer(self.name)
        kept = float(transport.configs(self.topic).get("retention.ms", -1))
        self._kept_seconds = math.inf if kept < 0 else kept / _MILLISECONDS
        self._messages: list[Message] = []
        self._bytes = 0

    def load(self, paths: Sequence[str]) -> None:
        """Send every document of the paths. After a signal, send the documents read so far."""
        for entry in self.session.entries(paths):
            if entry is None:
                self.send()
            else:
                self.add(entry)
        self.send()

    def close(self) -> None:
        """Free what is held."""
        self.producer.close()

    def add(self, entry: Entry) -> None:
        """Add an entry to the present transaction, and send it when it is full; or report the refusal of the entry."""
        if isinstance(entry.found, Reason):
            self.session.refuse_entry(entry, entry.found)
            return
        try:
            key = key_of_document(entry.found, separate=self.settings.separate)
        except UnicodeEncodeError:
            self.session.refuse_entry(entry, "id_surrogate")
            return
        is_line = entry.raw is not None and self.names.html is None
        value = self._value(entry.raw, entry.found.id) if is_line and entry.raw else self._encoded(entry.found)
        if len(key) + len(value) + _OVERHEAD_BYTES > self._request_bytes_max:
            self.session.refuse_entry(entry, "message_too_large")
            return
        now, timestamp = time.time(), entry.found.timestamp
        seconds = now if timestamp is None or not math.isfinite(timestamp) else min(max(0.0, timestamp), now)
        if seconds < now - self._kept_seconds:
            self.session.refuse_entry(entry, "past_retention")
            return
        milliseconds = int(seconds * _MILLISECONDS)
        self._messages.append(Message(self.topic, partition_of_key(key, self.partitions), value, key, milliseconds))
        self._bytes += len(value)
        if len(self._messages) >= _BATCH_DOCUMENTS or self._bytes >= _BATCH_BYTES:
            self.send()

    def _value(self, line: bytes, id_: str) -> bytes:
        """Return a line of JSON, with the id of its document if that became a canonical URL."""
        line = line.removeprefix(BOM)
        if self.session.reader.ids_changed:
            value = json.loads(line)
            if value.get(self.names.id) not in (id_, None):
                return json.dumps({**value, self.names.id: id_}).encode()
        return line

    def _encoded(self, document: Document) -> bytes:
        value: dict[str, object] = {self.names.id: document.id, self.names.text: document.text}
        if document.timestamp is not None:
            value[self.names.time] = document.timestamp * UNITS[self.settings.timestamp_unit]
        named = {self.names.source: document.source, "url": document.url, "title": document.title}
        if self.settings.collection_field is not None:
            named[self.settings.collection_field] = document.collection
        value = {**{name: said for name, said in named.items() if said is not None}, **value}
        return orjson.dumps(value)

    def send(self) -> None:
        """Send the present transaction, if it holds anything.

        Raises ``Failure`` if it fails permanently or its outcome is unknown.
        """
        messages, self._messages, self._bytes = self._messages, [], 0
        for attempt in range(1, _TRIES + 1):
            if not messages:
                break
            try:
                self.producer.begin()
                for message in messages:
                    self.producer.send(message)
                self.producer.commit()
                break
            except OutcomeUnknownError as error:
                raise self._failure("the next ones may be there or not") from error
            except TransportError as error:
                self.producer.abort()
                if not isinstance(error, AbortedError):
                    raise
                if attempt == _TRIES:
                    raise self._failure(f"it was refused {_TRIES} times") from error
                self.session.stop.sleep(backoff_seconds(attempt, self.name))
        self.report.documents += len(messages)
        self.report.advance(self.session.reader.bytes_read)

    def _failure(self, what: str) -> Failure:
        return Failure(
            Exit.BROKER,
            f"{self.report.documents:,} documents are loaded, then a transaction was not confirmed and {what}: see "
            "whether the broker is up and the topic takes messages of such size, and load again",
        )
