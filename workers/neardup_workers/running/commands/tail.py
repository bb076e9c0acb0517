"""``neardup tail``: prints committed records of candidates or verdicts, one line of JSON each, until interrupted.

It reads as a member of a separate group that commits no offsets. So it disturbs no other reader, and leaves no state.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from contextlib import closing
from typing import IO

from neardup.pairs.json_lines import escape_unprintable
from neardup_workers.doing.stages.starts import start_offset
from neardup_workers.outside.options.running import TailOptions
from neardup_workers.outside.process.exits import EXIT_OF_SIGNAL, Exit, Failure
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.messages import refused_batch_sentence
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.transport.kafka.connect import connect
from neardup_workers.outside.transport.protocol import Consumer, Transport

_POLL_SECONDS = 0.2
_RECORDS_MAX = 1_000
# The first bytes of an encoded removal notice.
_REMOVAL = b'{"removed":'
# Those of a line of verdicts, which names its offset and not its partition: that of its record.
_VERDICT = b'{"offset":'


def tail(options: TailOptions, settings: StreamSettings) -> Exit:
    """Print committed records from ``options.start`` on, at most ``options.lines_max`` lines."""
    if sys.stdout is None:
        raise Failure(Exit.OUTPUT, "cannot write the lines to standard output: it is closed")
    stop = Stop()
    stop.install()
    transport = connect(settings)
    topics = names_of(settings).topics
    topic = topics.verdicts if options.verdicts else topics.candidates
    with (
        closing(transport),
        closing(transport.consumer(topic, f"{names_of(settings).prefix}-tail-{uuid.uuid4().hex}", "")) as consumer,
    ):
        follow(
            transport, consumer, topic, options.start, sys.stdout.buffer, lambda: bool(stop.signal),
            lines_max=options.lines_max, removals=options.removals,
        )  # fmt: skip
    return EXIT_OF_SIGNAL[stop.signal]


def follow(
    transport: Transport,
    consumer: Consumer,
    topic: str,
    start: str,
    output: IO[bytes],
    is_over: Callable[[], bool],
    *,
    lines_max: int | None = None,
    removals: bool = False,
) -> int:
    """Write the records of a topic from ``start`` on until a limit or a signal; returns the number of lines.

    A verdict is written with its partition.
    """
    lines = 0
    while not is_over() and (lines_max is None or lines < lines_max):
        left = _RECORDS_MAX if lines_max is None else min(_RECORDS_MAX, lines_max - lines)
        polled = consumer.poll(_POLL_SECONDS, left)
        for partition in polled.assigned:
            consumer.seek(partition, start_offset(lambda: transport.bounds(topic), partition, start))
        consumer.resume(polled.assigned)
        for record in polled.records:
            if record.refused is not None:
                raise Failure(Exit.TOPIC, refused_batch_sentence(record, topic))
            end = None if lines_max is None else lines_max - lines
            for line in (record.value or b"").splitlines()[:end]:  # a record of verdicts has several
                if removals or not line.startswith(_REMOVAL):
                    is_verdict = line.startswith(_VERDICT)
                    shown = b'{"partition":%d,%s' % (record.partition, line[1:]) if is_verdict else line
                    output.write(escape_unprintable(shown) + b"\n")
                    lines += 1
        if polled.records:
            output.flush()
    return lines
