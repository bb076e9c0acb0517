"""A member of a Kafka group: ``poll`` in a loop, rebalances noted, positions only where the worker put them.

Theory of operation. Two threads: the worker's, which alone calls the methods here, and the client's own, which
fetches, sends heartbeats, and calls the assignor and the listener while the worker's thread waits in the client's
``poll``. What these note in ``Notes``, the worker's thread takes from there after each of the client's polls.

A partition is *held* from the moment it is assigned. It is paused then, with a position of 0 from which nothing is ever
fetched: without any, the client would ask for the committed offset in every ``poll`` (waiting there for open
transactions) and raise when there is none. It becomes *placed* by ``seek``; records are taken of placed, resumed
partitions only. What goes away loses both, and its records of the same ``poll`` are dropped.

The **membership** is noted when an assignment is complete. While the client joins, its own view runs ahead: it has the
new generation before the assignment. A join is never begun with records in hand: they go out first, so that their step
can be committed by the generation that polled them; the broker takes it until this member joins.

A member that the group put out (it did not poll in time, or its session ended) joins again in the client's next poll:
every partition is then revoked, and those it gets back are assigned anew. A static member whose instance was taken over
is told nothing by the client, which only stops its heartbeats: that shows here after ``_SILENCE_SECONDS`` and is final,
as is every error that the client might spin on.

Crash: the group keeps the place of a named instance for the session; an unnamed member leaves when it closes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as client_errors

from workers.transport.kafka import records as kafka_records
from workers.transport.kafka.client_internals import fetches, groups
from workers.transport.kafka.client_settings import (
    KafkaSettings,
    as_transport_error,
    is_fenced,
    is_passing,
    milliseconds,
)
from workers.transport.kafka.membership import Assignor, Listener, Notes
from workers.transport.protocol import (
    UNBOUNDED,
    Committed,
    FencedError,
    OffsetGoneError,
    Polled,
    Record,
    TransportError,
    UnreadableError,
)

_log = logging.getLogger(__name__)

# The client's poll returns late after a change of assignment, so it is called for this long at a time.
_SLICE_SECONDS = 0.1
# A stable member without heartbeats for this long was fenced; in a rebalance both change within a moment.
_SILENCE_SECONDS = 1.0
# Keys and values of a poll come to about this many bytes at most: what a step touches stays in memory that is mapped.
_ENOUGH_BYTES = 16 << 20
# Without a coordinator for this long the broker counts as away; a start or a rebalance needs less.
_AWAY_SECONDS = 2.0


class KafkaGroupConsumer:
    """One member of ``group`` on ``topic``; see ``workers.transport.protocol.Consumer`` and the theory of operation
    above.

    ``instance`` is a stable name of letters, digits, dots, dashes and underscores; empty, the member has none and
    leaves the group when it closes. Raises ``UnreachableError`` when no broker answers.
    """

    def __init__(self, settings: KafkaSettings, topic: str, group: str, instance: str) -> None:
        self._settings = settings
        self._topic = topic
        self._name = f"member {instance!r} of group {group!r} on {topic!r}"
        self._group = group
        self._client_id = f"neardup-{instance or 'member'}"
        self._asking: KafkaConsumer = None
        self._over: TransportError | None = None
        self._notes = Notes()
        self._held: set[int] = set()
        self._placed: set[int] = set()
        self._silent_since: float | None = None
        self._away_since: float | None = None
        self._away = False
        self._limits = kafka_records.Limits(batch_bytes_max=settings.batch_bytes_max)
        try:
            self._client = kafka_records.consumer(
                settings.fast_fetch,
                self._limits,
                **settings.consumer_options(),
                client_id=self._client_id,
                group_id=group,
                group_instance_id=instance or None,
                session_timeout_ms=milliseconds(settings.session_timeout_seconds),
                heartbeat_interval_ms=milliseconds(settings.heartbeat_seconds),
                max_poll_interval_ms=milliseconds(settings.poll_interval_seconds_max),
                partition_assignment_strategy=[Assignor(self._notes)],  # an object, not a name (rule 9)
            )
        except client_errors.KafkaError as error:
            raise as_transport_error(f"{self._name} cannot start", error) from error
        self._notes.client = self._client
        groups.guard_joins(self._client, self._notes.may_join)
        self._client.subscribe([topic], listener=Listener(self._notes))
        self._learn_topic()

    def poll(self, timeout_seconds: float, records_max: int, bytes_max: int = UNBOUNDED) -> Polled:
        """Take up to ``records_max`` records with the membership that they belong to (rules 1 and 2).

        Returns early on a change of assignment, and with what it has when the group calls for a rebalance. Records that
        came before a change are kept if their partition was never away, and go with the newer membership. While the
        broker is away nothing comes. An ``OffsetGoneError`` with records in hand waits for the next call, where the
        client raises it again. ``FencedError`` is final: make a new consumer.
        """
        self._raise_if_over()
        deadline = time.monotonic() + timeout_seconds
        held_before = frozenset(self._held)
        kept = set(held_before)  # without a break
        records: list[Record] = []
        bytes_left, enough = bytes_max, max(0, bytes_max - _ENOUGH_BYTES)
        while True:
            left = max(0.0, deadline - time.monotonic())
            self._notes.in_hand = bool(records)
            self._limits.left_bytes = bytes_left - enough
            try:
                found = self._fetch(min(left, _SLICE_SECONDS), records_max - len(records))
            except OffsetGoneError:
                if not records:
                    raise
                break
            gone = self._take_changes()
            if gone:
                kept -= gone
                records = [record for record in records if record.partition not in gone]
            bytes_left = self._limits.left_bytes + enough
            for place, batch in found.items():
                if place.partition in kept:
                    records += batch
            changed = kept != self._held or kept != held_before
            joins = bool(records) and groups.will_join(self._client)
            if changed or joins or left <= 0 or len(records) >= records_max or bytes_left <= enough:
                break
        self._check_place(bool(records))
        self._watch()
        assigned, revoked = self._held - kept, held_before - kept
        return Polled(records, self._notes.membership, tuple(sorted(assigned)), tuple(sorted(revoked)))

    def committed(self, partition: int) -> Committed | None:
        """What the group has committed; waits for a pending transaction, as only a read-committed client does (rule 8).

        Asked over a connection of its own: on the member's, the answer would wait behind a join until every other
        member has joined too. Raises ``UnreachableError`` after ``committed_timeout_seconds``: ask again after
        another ``poll``.
        """
        self._raise_if_over()
        place = self._place(partition)
        timeout = milliseconds(self._settings.committed_timeout_seconds)
        try:
            if self._asking is None:
                self._asking = KafkaConsumer(
                    **self._settings.consumer_options(), client_id=f"{self._client_id}-offsets", group_id=self._group
                )
            found = self._asking.committed(place, metadata=True, timeout_ms=timeout)
        except client_errors.KafkaError as error:
            raise as_transport_error(f"{self._name}: the committed offset of partition {partition}", error) from error
        return None if found is None else Committed(found.offset, found.metadata or "")

    def seek(self, partition: int, offset: int) -> None:
        """Set the position of an assigned partition."""
        self._client.seek(self._place(partition), offset)
        self._placed.add(partition)

    def pause(self, partitions: Sequence[int]) -> None:
        """Take no records of these until ``resume``; what was fetched ahead is kept."""
        self._client.pause(*[self._place(partition) for partition in partitions])

    def resume(self, partitions: Sequence[int]) -> None:
        """Take records of these again; they must have a position."""
        places = [self._place(partition) for partition in partitions]
        for partition in partitions:
            if partition not in self._placed:
                raise AssertionError(f"{self._topic}-{partition} has no position: seek before resume")
        self._client.resume(*places)

    def lag(self) -> dict[int, int]:
        """Records between position and end of each placed partition of which something was fetched; asks nobody.

        The end is the log's, so an open transaction counts.
        """
        positions = self.positions()
        ends = {partition: self._client.highwater(TopicPartition(self._topic, partition)) for partition in positions}
        return {partition: max(0, end - positions[partition]) for partition, end in ends.items() if end is not None}

    def positions(self) -> dict[int, int]:
        """The offset of the next record to take, of each placed partition; asks nobody."""
        places = {partition: TopicPartition(self._topic, partition) for partition in sorted(self._placed)}
        found = {partition: self._position(place) for partition, place in places.items()}
        return {partition: position for partition, position in found.items() if position is not None}

    def close(self) -> None:
        """Stop; never raises. An instance keeps its place until its session ends."""
        self._over = self._over or TransportError(f"{self._name} was closed: make a new one")
        for client in (self._client, self._asking):
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
        """One poll of the client, its errors told in the words of the protocol.

        By itself the client asks for more only when all that came of every partition is taken. Asked here for those of
        which nothing is left, it fetches while the worker is in its step.
        """
        try:
            found: dict[TopicPartition, list[Record]] = self._client.poll(
                timeout_ms=round(timeout_seconds * 1000), max_records=records_max
            )
            if found and self._settings.fast_fetch:
                fetches.fetch_ahead(self._client)
        except client_errors.OffsetOutOfRangeError as error:
            raise OffsetGoneError(self._gone_text(error.args[0] if error.args else {})) from error
        except client_errors.LogTruncationError as error:
            raise OffsetGoneError(self._gone_text(error.divergent_offsets)) from error
        except UnreadableError as error:
            self._over = UnreadableError(f"{self._name}: {error}")
            raise self._over from error
        except Exception as error:
            if is_passing(error) and not is_fenced(error):
                _log.debug("%s: %s", self._name, error)
                time.sleep(min(timeout_seconds, _SLICE_SECONDS))
                return {}
            # The client may spin for ever in the poll after an error it did not expect (rule 3).
            self._over = as_transport_error(f"{self._name} cannot go on", error)
            raise self._over from error
        return found

    def _position(self, place: TopicPartition) -> int | None:
        try:
            found: int | None = self._client.position(place, timeout_ms=0)
        except client_errors.LogTruncationError:  # found out in passing; the next poll finds it too and raises
            return None
        return found

    def _take_changes(self) -> set[int]:
        """Follow what was noted, in order; returns every partition that went, even if it came back."""
        gone: set[int] = set()
        while self._notes.changes:
            change = self._notes.changes.pop(0)
            gone |= change.partitions
            self._placed -= change.partitions
            if change.came:
                self._held |= change.partitions
            else:
                self._held -= change.partitions
        return gone

    def _check_place(self, has_records: bool) -> None:
        """Refuse records of a member that was put out since its client polled them (rule 2)."""
        noted, live = self._notes.membership, self._notes.live()
        if has_records and (live.generation, live.member) != (noted.generation, noted.member):
            self._over = FencedError(
                f"{self._name} was put out of generation {noted.generation}: start anew from the committed offsets"
            )
            raise self._over

    def _watch(self) -> None:
        """Notice that the instance was taken over, and log once that the broker went away or came back.

        The client reports neither by an error.
        """
        now, view = time.monotonic(), groups.member_view(self._client)
        if not view.is_stable or view.sends_heartbeats:
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = now
        elif now - self._silent_since > _SILENCE_SECONDS:
            self._over = FencedError(f"{self._name} was replaced by another of the same instance: it must end")
            raise self._over
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

    def _place(self, partition: int) -> TopicPartition:
        if partition not in self._held:
            raise AssertionError(f"{self._topic}-{partition} is not assigned to {self._name}: poll says what is")
        return TopicPartition(self._topic, partition)

    def _gone_text(self, offsets: dict[TopicPartition, Any]) -> str:
        places = ", ".join(f"offset {offset} of {place.topic}-{place.partition}" for place, offset in offsets.items())
        return (
            f"{self._name}: {places or 'an offset'} is outside its log; start where it begins, if what was trimmed "
            "may be missed"
        )

    def _raise_if_over(self) -> None:
        if self._over is not None:
            raise type(self._over)(str(self._over)) from self._over
