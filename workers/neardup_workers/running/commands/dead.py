"""``neardup dead``: lists the documents that signers refused, shows them, and sends them again.

Theory of operation of ``replay``. Each transaction has some documents, with a header that names their letters, and the
notices of these letters; both are committed, or neither. The producer has a name of its own, which ends the open
transaction of an earlier replay before the notices are read. So a replay that was killed, or runs twice, sends each
document once.

A document is read where it was refused, with its headers, and else taken from its letter. It keeps key, partition and
time, so it belongs to the same window. It cannot be sent if it is in neither topic, or if ``documents`` would delete it
at once because of its time.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

import orjson

from neardup.errors import ConfigError, Reason
from neardup.pairs.json_lines import escape_unprintable
from neardup_workers.outside.display.printing import time_text
from neardup_workers.outside.options.running import DeadOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.durations import seconds_of
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.dead import REPLAYED_HEADER, Letter, Notice, encode_notice, parse_letter
from neardup_workers.outside.topics.messages import REFUSAL_REASONS
from neardup_workers.outside.topics.names import names_of
from neardup_workers.outside.transport.protocol import (
    AbortedError,
    FencedError,
    Message,
    OutcomeUnknownError,
    Producer,
    Reader,
    Record,
    Transport,
    UnreachableError,
)

# Documents and bytes of a transaction.
_STEP_LETTERS, _STEP_BYTES = 500, 8 << 20
# Seconds to wait for a record that is in the log; of what follows it little is read.
_WAIT_SECONDS, _READ_BYTES = 30.0, 1 << 16
_MILLISECONDS = 1e3
_BEFORE = Reason("were replayed before")


class Chosen(NamedTuple):
    """Which letters: at these places (all if empty), with this reason, written at or after this time (milliseconds)."""

    places: frozenset[str] = frozenset()
    reason: str | None = None
    since_ms: int = 0

    def has(self, letter: Letter) -> bool:
        """Whether a letter is one of these."""
        return (
            (not self.places or letter.place in self.places)
            and self.reason in (None, letter.reason)
            and letter.timestamp_ms >= self.since_ms
        )


@dataclass
class Replayed:
    """What became of the chosen letters: how many documents were sent again, and letters that were not, by cause."""

    sent: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def exit(self) -> Exit:
        """Success, unless letters were chosen of which none could be sent."""
        is_useless = not self.sent and self.skipped.keys() - {_BEFORE}
        return Exit.UNUSABLE if is_useless else Exit.SUCCESS

    def sentence(self) -> str:
        """Say it in a line."""
        causes = [f"{count:,} {cause}" for cause, count in self.skipped.items()]
        return "; ".join([f"{self.sent:,} documents were sent again", *causes])


def chosen(options: DeadOptions) -> Chosen:
    """Return what the options choose; raises ``ConfigError`` for an unknown reason or a time that is none."""
    if options.reason is not None and options.reason not in REFUSAL_REASONS:
        raise ConfigError(f"--reason {options.reason}: no document is refused for it; {', '.join(REFUSAL_REASONS)} are")
    return Chosen(frozenset(options.places or ()), options.reason, _since_ms(options.since))


def _since_ms(since: str | None) -> int:
    """Return a time as milliseconds: a date of ISO 8601, or how long ago."""
    if since is None:
        return 0
    try:
        at = datetime.fromisoformat(since)
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * _MILLISECONDS)
    except ValueError:
        return int((time.time() - seconds_of("--since", since)) * _MILLISECONDS)


def letters(transport: Transport, topic: str, which: Chosen) -> Iterator[tuple[Letter, bool]]:
    """Yield the chosen letters and whether each was replayed, partition by partition."""
    bounds = transport.bounds(topic)
    replayed = {one.letter for one in _parsed(transport, topic, bounds) if isinstance(one, Notice)}
    for one in _parsed(transport, topic, bounds):
        if isinstance(one, Letter) and which.has(one):
            yield one, one.place in replayed


def _parsed(transport: Transport, topic: str, bounds: Mapping[int, tuple[int, int]]) -> Iterator[Letter | Notice]:
    for partition, (first, end) in bounds.items():
        for batch in transport.read(topic, partition, first, end):
            yield from map(parse_letter, batch)


def list_letters(transport: Transport, settings: StreamSettings, which: Chosen) -> None:
    """Print a line of JSON for each letter, without its document; the counts go to standard error."""
    counts: Counter[str] = Counter()
    for letter, is_replayed in letters(transport, names_of(settings).topics.dead, which):
        counts[letter.reason] += 1
        line = {
            "letter": letter.place, "time": time_text(letter.timestamp_ms / _MILLISECONDS), "reason": letter.reason,
            "topic": letter.fields["topic"], "partition": letter.fields["partition"], "offset": letter.offsets[0],
            "documents": len(letter.offsets), "bytes": letter.fields["value_bytes"],
            "key": None if letter.key is None else letter.key.decode(errors="replace"), "replayed": is_replayed,
        }  # fmt: skip
        sys.stdout.buffer.write(escape_unprintable(orjson.dumps(line)) + b"\n")
    sys.stdout.buffer.flush()
    counted = ", ".join(f"{count:,} {reason}" for reason, count in counts.most_common())
    sys.stderr.write(f"{counts.total():,} letters{': ' if counted else ''}{counted}\n")


def show_letters(transport: Transport, settings: StreamSettings, which: Chosen) -> None:
    """Print each letter: why and what was refused, and the document, or its beginning."""
    out = sys.stdout.buffer
    for letter, is_replayed in letters(transport, names_of(settings).topics.dead, which):
        fields, value = letter.fields, letter.value
        rows = {
            "letter": f"{letter.place} of {time_text(letter.timestamp_ms / _MILLISECONDS)}"
            + (", replayed" if is_replayed else ""),
            "reason": f"{letter.reason}: {fields['message']}",
            "origin": f"{fields['topic']}, partition {fields['partition']}, offset {letter.offsets[0]}"
            + (f" to {letter.offsets[-1]}" if len(letter.offsets) > 1 else ""),
            "key": "none" if letter.key is None else letter.key.decode(errors="replace"),
            "document": f"{fields['value_bytes']:,} bytes"
            + ("" if len(value) == fields["value_bytes"] else f", of which these are the first {len(value):,}"),
        }  # fmt: skip
        for name, text in rows.items():
            out.write(f"{name:9} ".encode() + escape_unprintable(text.encode()) + b"\n")
        out.write(escape_unprintable(value.replace(b"\n", b" ")) + b"\n\n")
    out.flush()


def replay(transport: Transport, settings: StreamSettings, which: Chosen) -> Replayed:
    """Send the documents of the chosen letters again, each once; see the module.

    Raises ``Failure`` if a transaction is not confirmed: what it held is sent by the next replay, if it was not sent.
    """
    names, done = names_of(settings), Replayed()
    topics = names.topics
    producer = transport.producer(f"{names.prefix}-dead-replay")
    reader = transport.reader(topics.documents, _READ_BYTES)
    kept = float(transport.configs(topics.documents).get("retention.ms", -1))
    oldest_ms = 0 if kept < 0 else int(time.time() * _MILLISECONDS - kept)
    step: list[tuple[Letter, list[Record]]] = []
    size = 0
    try:
        for letter, is_replayed in letters(transport, topics.dead, which):
            records = _BEFORE if is_replayed else refused_records(transport, reader, letter)
            if not isinstance(records, Reason) and any(0 <= record.timestamp_ms < oldest_ms for record in records):
                records = Reason(f"are older than retention.ms of {topics.documents}, which would delete them")
            if isinstance(records, Reason):
                done.skipped[records] += 1
                continue
            step.append((letter, records))
            size += sum(len(record.value or b"") for record in records)
            if len(step) >= _STEP_LETTERS or size >= _STEP_BYTES:
                done.sent += _send(producer, topics.documents, topics.dead, step)
                step, size = [], 0
        done.sent += _send(producer, topics.documents, topics.dead, step)
    except (AbortedError, FencedError, OutcomeUnknownError) as error:
        raise Failure(
            Exit.BROKER, f"{done.sent:,} documents were sent again, then: {error}; replay again, which sends the others"
        ) from error
    finally:
        producer.close()
        reader.close()
    return done


def refused_records(transport: Transport, reader: Reader, letter: Letter) -> list[Record] | Reason:
    """Return what was refused as it was, or why it cannot be had."""
    partition, offsets = letter.fields["partition"], letter.offsets
    first, end = transport.bounds(letter.fields["topic"]).get(partition, (0, 0))
    if first <= offsets[0] and offsets[-1] < end:
        records = [one for one in _read(reader, partition, offsets) if one.offset in offsets]
        if any(record.refused for record in records):
            return Reason("unpack to more than an eighth of memory_max: raise it for this command and for the signers")
        if records:
            return records
    if not letter.is_whole:
        return Reason(f"are no longer in {letter.fields['topic']}, and their letters have only the beginning")
    return [Record(partition, offsets[0], letter.fields["timestamp_ms"], letter.key, letter.value)]


def _read(reader: Reader, partition: int, offsets: range) -> list[Record]:
    """Read a range of a partition; raises ``UnreachableError`` if it does not come."""
    reader.follow({partition: offsets[0]})
    records: list[Record] = []
    deadline = time.monotonic() + _WAIT_SECONDS
    while reader.positions()[partition] <= offsets[-1]:
        if time.monotonic() > deadline:
            raise UnreachableError(f"offset {offsets[0]} of partition {partition} was not read in {_WAIT_SECONDS:g} s")
        records += reader.poll(0.1, len(offsets) - len(records) or 1)
    return records


def _send(producer: Producer, documents: str, dead: str, step: Sequence[tuple[Letter, list[Record]]]) -> int:
    """Send documents and notices as one transaction; returns the number of documents."""
    if not step:
        return 0
    sent = 0
    producer.begin()
    try:
        for letter, records in step:
            header = (REPLAYED_HEADER, letter.place.encode())
            for record in records:
                at = record.timestamp_ms if record.timestamp_ms >= 0 else None
                value = record.value if record.value is not None or record.key is not None else b""
                producer.send(Message(documents, record.partition, value, record.key, at, (*record.headers, header)))
                sent += 1
            producer.send(Message(dead, letter.partition, encode_notice(letter), letter.key))
        producer.flush()
        producer.commit()
    except AbortedError:
        producer.abort()
        raise
    return sent
