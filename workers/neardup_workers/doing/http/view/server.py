"""Start and stop of the view of a deployment; the rest is as for a window of this process."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from neardup.documents.ids import stored_id
from neardup.errors import ConfigError, Reason
from neardup.pairs.json_lines import decode_document
from neardup_workers.doing.http.access.tokens import tokens_of
from neardup_workers.doing.http.app import Service, application, publisher
from neardup_workers.doing.http.bodies import Refused, decoding
from neardup_workers.doing.http.degrading import Degrading
from neardup_workers.doing.http.events import Events
from neardup_workers.doing.http.figures import Figures
from neardup_workers.doing.http.server import Running, bound, check_certificate, run
from neardup_workers.doing.http.view.follower import Follower
from neardup_workers.doing.http.view.outbox import ProducerQueue
from neardup_workers.doing.http.view.requests import Sending, near, view_requests
from neardup_workers.doing.http.writer import READY
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.readers.json.values import ValueReader, decode_of
from neardup_workers.outside.settings.files import fields_of
from neardup_workers.outside.settings.kafka import LIMITS as STREAM_LIMITS
from neardup_workers.outside.settings.serve import LIMITS, ServeLimits, ViewSettings
from neardup_workers.outside.store.view import View, ViewReader
from neardup_workers.outside.telemetry.metrics import SERVE, Metrics
from neardup_workers.outside.topics.messages import key_parts
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.topics.places import OFFSET_BITS
from neardup_workers.outside.transport.protocol import (
    OffsetGoneError,
    Record,
    Transport,
    TransportError,
    UnknownTopicError,
)


def serve_view(settings: ViewSettings, state: str | None, transport: Transport) -> Exit:
    """Serve a view of a deployment until a signal; returns the exit code. Closes the transport.

    ``state`` is the folder of the view; without one each start fills a new view.

    Raises:
        Failure: the folder, the address or the certificate cannot be used, a topic does not exist, the broker does not
            answer at the start, or the view has ended by an error.
    """
    tokens = tokens_of(settings)
    check_certificate(settings)
    address = bound(settings.host, settings.port)
    topics = names_of(settings).topics
    # A container may have no folder for temporary files.
    with nullcontext(state) if state else tempfile.TemporaryDirectory() as folder:
        view = View(Path(folder), {"verdicts": topics.verdicts}, "normal")
        try:
            start = partial(started_view, settings, transport, view)
            return asyncio.run(run(settings, address, tokens, start))
        except TransportError as error:
            code = Exit.TOPIC if isinstance(error, UnknownTopicError) else Exit.BROKER
            raise Failure(code, str(error)) from None
        finally:
            view.close()
            address.close()
            transport.close()


def started_view(
    settings: ViewSettings,
    transport: Transport,
    view: View,
    on_broken: Callable[[], None],
    limits: ServeLimits = LIMITS,
) -> Running:
    """Start the service of a view."""
    names = names_of(settings)
    reader, observer = ViewReader(view.path, separate=settings.separate), Metrics(SERVE, {"role": SERVE})
    slow = partial(observer.count, "service_event_readers_slow")
    figures = Figures(reader.size, lambda: outbox.waiting)
    last = view.meta()["places"] - 1
    events = Events(reader.after, last, limits.event_readers_max, figures, reader.previews, slow)
    kept = None if settings.window_seconds is None else settings.window_seconds + settings.history_seconds
    follower = Follower(
        transport, names.topics, view, reader, kept, publisher(observer, events), on_broken, events.forget,
        separate=settings.separate,
    )  # fmt: skip
    name = f"{names.prefix}-serve-{socket.gethostname()}-{os.getpid()}"  # no two processes fence each other
    outbox = ProducerQueue(
        lambda: transport.producer(name), names.topics.documents, transport.partitions(names.topics.documents),
        follower.expect, follower.forget, limits.queue_documents_max,
    )  # fmt: skip

    def measure() -> None:
        observer.set("service_waiting_documents", outbox.waiting)
        observer.set("service_window_documents", reader.size())
        for partition, lag in follower.lag().items():
            observer.set("lag_records", lag, str(partition))

    def stop() -> None:
        outbox.stop()
        follower.stop()

    service = Service(
        settings, reader, events, observer, decoding(settings, time.time, limits, observer.count),
        partial(near, reader), lambda: follower.alive, lambda: READY if follower.ready else None, measure,
        limits=limits,
    )  # fmt: skip
    sent = partial(_sent_at, settings, transport)
    most = limits.verdict_seconds_max, settings.client.request_bytes_max
    sending = Sending(outbox, follower, reader, sent, *most)
    follower.start()
    view.check_rest(on_broken)
    return Running(
        application(service, view_requests(sending)),
        events,
        stop,
        lambda: follower.error or view.damage,
        Degrading(observer).refused,
    )


def _sent_at(settings: ViewSettings, transport: Transport, place: int, id_: bytes) -> Record | None:
    """Return the document of a stored id at a place of its topic, ``None`` if the topic has it no longer: a topic that
    was made again may have another one there. Raises ``Refused``."""
    partition, offset = divmod(place, 1 << OFFSET_BITS)
    try:
        batches = transport.read(names_of(settings).topics.documents, partition, offset, offset + 1)
        records = [record for batch in batches for record in batch]
        return next((record for record in records if _stored_id_of(record, settings) == id_), None)
    except OffsetGoneError:
        return None
    except TransportError as error:
        raise Refused("unsent", detail=str(error)) from None
    except ConfigError as error:  # a function of the signers that is not installed here
        raise Refused("needs_window", detail=str(error)) from None


def _stored_id_of(record: Record, settings: ViewSettings) -> bytes | None:
    """Return the stored id of a document as a signer reads it, of its value or else its key; ``None`` if it is none."""
    value = ValueReader(STREAM_LIMITS.step_bytes_max, decode_of(settings.decode)).read(record.value or b"")
    key = record.key or b""
    named = (key_parts(key)[1] if settings.separate else key).decode(errors="replace")
    document = decode_document(value or b"", fields_of(settings, sources=True), named, lambda reason, given: None)
    if isinstance(document, Reason):
        return None
    return stored_id(document.id, document.collection, separate=settings.separate)
