"""A member of a Kafka group: it polls in a loop, follows rebalances, and sets positions only by ``seek``.

Theory of operation. There are two threads. The worker's thread alone calls the methods here. The client's own thread
fetches, sends heartbeats, and calls the assignor and the listener while the worker's thread waits in the client's
``poll``. Both write to ``Notes``, which the worker's thread reads after each poll of the client.

A partition is *owned* from the moment of its assignment. It is then paused at position 0, from which no record is ever
fetched. Without a position, the client would request the committed offset in every ``poll`` (and wait there for open
transactions), and raise if there is none. A partition is *placed* by ``seek``. Only records of placed and resumed
partitions are read. A revoked partition is neither, and its records of the same ``poll`` are dropped.

The **membership** is noted when an assignment is complete. During a join the client's own view is ahead: it has the new
generation before the assignment. No join begins while this member holds records: ``poll`` returns them first, so that
the generation that polled them can commit their offsets. The broker accepts that until this member joins.

A member that the group has removed (it did not poll in time, or its session ended) joins again in the client's next
poll. All its partitions are then revoked, and partitions that it gets back are assigned as new. If another process
takes over the instance of a static member, the client reports nothing and stops its heartbeats. This module detects the
takeover after ``_SILENCE_SECONDS``. The takeover is final, and so is every error after which the client's poll might
never return.

Crash: the group keeps the partitions of a named instance until its session ends; a member without a name leaves when it
closes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as client_errors

from neardup_workers.outside.transport.assignment import Offer
from neardup_workers.outside.transport.kafka import records as kafka_records
from neardup_workers.outside.transport.kafka.client_internals import fetches, groups
from neardup_workers.outside.transport.kafka.client_settings import (
    KafkaSettings,
    as_transport_error,
    is_fenced,
    is_passing,
    milliseconds,
)
from neardup_workers.outside.transport.kafka.membership import Assignor, Listener, Notes, Ownership
from neardup_workers.outside.transport.protocol import (
    UNBOUNDED,
    Committed,
    FencedError,
    LogEnd,
    OffsetGoneError,
    Polled,
    Record,
    TransportError,
    UnreadableError,
)

_log = logging.getLogger(__name__)

# The client's poll returns late after a change of assignment, so it is called for this long at a time.
_SLICE_SECONDS = 0.1
# A stable member without heartbeats for this long was fenced; a rebalance changes both at almost the same time.
_SILENCE_SECONDS = 1.0
# Keys and values of a poll have about this many bytes at most, so that a step reuses memory that is mapped already.
_ENOUGH_BYTES = 16 << 20
# A poll with about this many bytes takes what the client has fetched besides, and waits for no other fetch: the next
# one runs during the worker's step.
_FILLED_BYTES = 8 << 20
# Without a coordinator for this long, the broker counts as away; a start or a rebalance takes less.
_AWAY_SECONDS = 2.0


class KafkaGroupConsumer:
    """A member of ``group`` on ``topic``; see ``neardup_workers.outside.transport.protocol.Consumer`` and the theory
    above.

    ``instance`` is a stable name of letters, digits, dots, dashes and underscores. If it is empty, the member has no
    name and leaves the group when it closes. Raises ``UnreachableError`` if no broker answers.
    """

    def __init__(self, settings: KafkaSettings, topic: str, group: str, instance: str, ownership: Ownership) -> None:
        self._settings = settings
        self._ownership = ownership
        self._topic = topic
        self._name = f"member {instance!r} of group {group!r} on {topic!r}"
        self._group = group
        self._client_id = f"neardup-{instance or 'member'}"
        self._offsets_client: KafkaConsumer = None
        self._final_error: TransportError | None = None
        self._notes = Notes(group)
        self._owned: set[int] = set()
        self._placed: set[int] = set()
        self._silent_since: float | None = None
        self._away_since: float | None = None
        self._away = False
        self._ends: dict[int, fetches.End] = {}  # by the last fetch
        self._limits = kafka_records.ClientLimits(
            batch_bytes_max=settings.batch_bytes_max, with_headers=settings.with_headers
        )
        try:
            self._client = kafka_records.consumer(
                self._limits,
                **settings.consumer_options(),
                client_id=self._client_id,
                group_id=group,
                group_instance_id=instance or None,
                session_timeout_ms=milliseconds(settings.session_timeout_seconds),
                heartbeat_interval_ms=milliseconds(settings.heartbeat_seconds),
                max_poll_interval_ms=milliseconds(settings.poll_interval_seconds_max),
                partition_assignment_strategy=[Assignor(self._notes, topic)],  # an object, not a name (rule 9)
            )
        except client_errors.KafkaError as error:
            raise as_transport_error(f"{self._name} cannot start", error) from error
        self._notes.client = self._client
        fetches.note_ends(self._client, self._ends)
        groups.watch_partitions(self._client, topic)
        groups.guard_joins(self._client, self._notes.may_join)
        self._client.subscribe([topic], listener=Listener(self._notes))
        self._learn_topic()

    def poll(self, timeout_seconds: float, records_max: int, bytes_max: int = UNBOUNDED) -> Polled:
        """Read up to ``records_max`` records with the membership that they belong to (rules 1 and 2).

        A poll with ``_FILLED_BYTES`` waits for no more. A change of assignment ends the poll, and so does a call for a
        rebalance if there are records. Records from
        before a change remain if their partition was owned without a break. They belong to the newer membership. While
        the broker is away, no records are returned. An ``OffsetGoneError`` after some records waits for the next call,
        where the client raises it again. ``FencedError`` is final: make a new consumer.
        """
        self._raise_final_error()
        deadline = time.monotonic() + timeout_seconds
        owned_before = frozenset(self._owned)
        unbroken = set(owned_before)  # owned since the last poll without a break
        records: list[Record] = []
        bytes_left, enough = bytes_max, max(0, bytes_max - _ENOUGH_BYTES)
        while True:
            is_filled = bytes_max - bytes_left >= _FILLED_BYTES
            left = 0.0 if is_filled else max(0.0, deadline - time.monotonic())
            self._notes.has_records = bool(records)
            self._limits.left_bytes = bytes_left - enough
            try:
                batches = self._fetch(min(left, _SLICE_SECONDS), records_max - len(records))
            except OffsetGoneError:
                if not records:
                    raise
                break
            gone = self._follow_changes()
            if gone:
                unbroken -= gone
                records = [record for record in records if record.partition not in gone]
            bytes_left = self._limits.left_bytes + enough
            for log, batch in batches.items():
                if log.partition in unbroken:
                    records += batch
            changed = unbroken != self._owned or unbroken != owned_before
            joins = bool(records) and groups.will_join(self._client)
            is_over = left <= 0 and not (batches and fetches.has_resumed(self._client))
            if changed or joins or is_over or len(records) >= records_max or bytes_left <= enough:
                break
        self._check_membership(bool(records))
        self._watch()
        assigned, revoked = self._owned - unbroken, owned_before - unbroken
        joining, share = groups.is_joining(self._client), self._notes.share
        return Polled(
            records, self._notes.membership, tuple(sorted(assigned)), tuple(sorted(revoked)), joining,
            tuple(sorted(share.standbys)),
        )  # fmt: skip

    def offer(self, offer: Offer) -> None:
        """Say, with the next join, which tables this member has; join again if its share is outdated."""
        notes = self._notes
        notes.offer = offer
        is_outdated = notes.share.is_outdated(offer.tables, notes.named)  # first: the rest asks the client
        if is_outdated and groups.member_view(self._client).is_stable and not groups.is_joining(self._client):
            _log.info("%s: it joins again, because it has the tables %s", self._name, sorted(offer.tables))
            groups.join_again(self._client)

    def committed(self, partition: int) -> Committed | None:
        """Read the committed offset; waits for a pending transaction (rule 8: only a read-committed client does).

        The request uses a separate connection. On the member's connection, the response would wait behind a join until
        every other member has joined too. Raises ``UnreachableError`` after ``committed_timeout_seconds``: ask again
        after another ``poll``.
        """
        self._raise_final_error()
        log = self._named(partition)
        timeout = milliseconds(self._settings.committed_timeout_seconds)
        try:
            if self._offsets_client is None:
                self._offsets_client = KafkaConsumer(
                    **self._settings.consumer_options(), client_id=f"{self._client_id}-offsets", group_id=self._group
                )
            stored = self._offsets_client.committed(log, metadata=True, timeout_ms=timeout)
        except client_errors.KafkaError as error:
            raise as_transport_error(f"{self._name}: the committed offset of partition {partition}", error) from error
        return None if stored is None else Committed(stored.offset, stored.metadata or "")

    def seek(self, partition: int, offset: int) -> None:
        """Set the position of an assigned partition."""
        self._client.seek(self._named(partition), offset)
        self._placed.add(partition)

    def pause(self, partitions: Sequence[int]) -> None:
        """Read no records of these partitions until ``resume``; fetched records stay."""
        self._client.pause(*[self._named(partition) for partition in partitions])

    def resume(self, partitions: Sequence[int]) -> None:
        """Read records of these partitions again; they must have a position."""
        logs = [self._named(partition) for partition in partitions]
        for partition in partitions:
            if partition not in self._placed:
                raise AssertionError(f"{self._topic}-{partition} has no position: seek before resume")
        self._client.resume(*logs)

    def lag(self) -> dict[int, int]:
        """Return records between position and end of each placed partition of which anything was fetched.

        It sends no request. The end is the end of the log, so records of an open transaction count.
        """
        positions = self.positions()
        ends = {partition: self._client.highwater(TopicPartition(self._topic, partition)) for partition in positions}
        return {partition: max(0, end - positions[partition]) for partition, end in ends.items() if end is not None}

    def positions(self) -> dict[int, int]:
        """Return the offset of the next record of each placed partition; it sends no request."""
        logs = {partition: TopicPartition(self._topic, partition) for partition in sorted(self._placed)}
        positions = {partition: self._position(log) for partition, log in logs.items()}
        return {partition: position for partition, position in positions.items() if position is not None}

    def ends(self) -> dict[int, LogEnd]:
        """Return the end of each placed partition, by its last fetch; sends no request."""
        now, ends = time.monotonic(), {partition: self._ends.get(partition) for partition in self.positions()}
        return {
            partition: LogEnd(end.committed, end.written, now - end.requested_at)
            for partition, end in ends.items()
            if end is not None
        }

    def close(self) -> None:
        """Stop; never raises. A named instance keeps its membership until its session ends."""
        self._final_error = self._final_error or TransportError(f"{self._name} was closed: make a new one")
        for client in (self._client, self._offsets_client):
            with suppress(Exception):
                timeout = milliseconds(self._settings.close_timeout_seconds)
                client.close(autocommit=False, timeout_ms=timeout)

    def _learn_topic(self) -> None:
        """Wait until the client knows the topic."""
        deadline = time.monotonic() + self._settings.connect_timeout_seconds
        is_known = False
        while not is_known:
            left = deadline - time.monotonic()
            try:
                is_known = groups.ask_for_topic(self._client, self._topic, milliseconds(left))
                if not is_known and left <= 0:
                    raise client_errors.KafkaTimeoutError(f"nothing about {self._topic!r}")
            except client_errors.KafkaError as error:
                if is_passing(error) and left > 0:
                    time.sleep(min(left, _SLICE_SECONDS))
                    continue
                self.close()
                raise as_transport_error(f"{self._name} cannot start", error) from error

    def _fetch(self, timeout_seconds: float, records_max: int) -> dict[TopicPartition, list[Record]]:
        """Poll the client once, and convert its errors to those of the protocol.

        The client itself fetches only after the records of all partitions were read. This method fetches at once for
        partitions without remaining records, so that the fetch runs during the worker's step.
        """
        fetches.free_slot(self._client)
        try:
            batches: dict[TopicPartition, list[Record]] = self._client.poll(
                timeout_ms=round(timeout_seconds * 1000), max_records=records_max
            )
            if batches:
                fetches.fetch_ahead(self._client)
        except client_errors.OffsetOutOfRangeError as error:
            raise OffsetGoneError(self._gone_text(error.args[0] if error.args else {})) from error
        except client_errors.LogTruncationError as error:
            raise OffsetGoneError(self._gone_text(error.divergent_offsets)) from error
        except UnreadableError as error:
            self._final_error = UnreadableError(f"{self._name}: {error}")
            raise self._final_error from error
        except Exception as error:
            if is_passing(error) and not is_fenced(error):
                _log.debug("%s: %s", self._name, error)
                time.sleep(min(timeout_seconds, _SLICE_SECONDS))
                return {}
            # After an error that the client does not expect, its next poll may never return (rule 3).
            self._final_error = as_transport_error(f"{self._name} cannot go on", error)
            raise self._final_error from error
        return batches

    def _position(self, log: TopicPartition) -> int | None:
        try:
            position: int | None = self._client.position(log, timeout_ms=0)
        except client_errors.LogTruncationError:  # the next poll finds it too, and raises
            return None
        return position

    def _follow_changes(self) -> set[int]:
        """Apply recorded changes in order; returns every revoked partition, even if it was assigned again."""
        gone: set[int] = set()
        while self._notes.changes:
            change = self._notes.changes.pop(0)
            gone |= change.partitions
            self._placed -= change.partitions
            for partition in change.partitions:
                self._ends.pop(partition, None)
            if change.is_assigned:
                self._owned |= change.partitions
            else:
                self._owned -= change.partitions
        return gone

    def _check_membership(self, has_records: bool) -> None:
        """Refuse records if the group has removed this member since its client polled them (rule 2)."""
        noted, live = self._notes.membership, self._notes.live()
        if has_records and (live.generation, live.member) != (noted.generation, noted.member):
            self._final_error = FencedError(
                f"{self._name} was removed from generation {noted.generation}: restart from the committed offsets"
            )
            raise self._final_error

    def _watch(self) -> None:
        """Detect that another process took over the instance, and log once when the broker goes away or returns.

        The client reports neither by an error.
        """
        now, view = time.monotonic(), groups.member_view(self._client)
        if not view.is_stable or view.sends_heartbeats:
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = now
        elif now - self._silent_since > _SILENCE_SECONDS:
            self._final_error = FencedError(
                f"{self._name} was replaced by another process with the same instance: it must end"
            )
            raise self._final_error
        if view.is_stable and view.has_coordinator and self._ownership.is_broken(self._notes.membership):
            _log.info("%s: a partition belongs to no member, so this one joins again", self._name)
            groups.join_again(self._client)
        if view.has_coordinator:
            self._away_since = None
            if self._away:
                self._away = False
                _log.warning("%s: the broker is back", self._name)
        elif self._away_since is None:
            self._away_since = now
        elif not self._away and now - self._away_since > _AWAY_SECONDS:
            self._away = True
            _log.warning("%s: the broker does not answer; waiting for it", self._name)

    def _named(self, partition: int) -> TopicPartition:
        if partition not in self._owned:
            raise AssertionError(f"{self._topic}-{partition} is not assigned to {self._name}: poll says what is")
        return TopicPartition(self._topic, partition)

    def _gone_text(self, offsets: dict[TopicPartition, Any]) -> str:
        given = ", ".join(f"offset {offset} of {log.topic}-{log.partition}" for log, offset in offsets.items())
        return (
            f"{self._name}: {given or 'an offset'} is outside its log: records were deleted before they were read; "
            "--allow-gap goes on without them"
        )

    def _raise_final_error(self) -> None:
        if self._final_error is not None:
            raise type(self._final_error)(str(self._final_error)) from self._final_error
