"""The client's view of a member in its group, and the control of its joins."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.base import MemberState
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

__all__ = [
    "CooperativeStickyAssignor",
    "MemberView",
    "ask_for_topic",
    "assignment",
    "guard_joins",
    "is_joining",
    "join_again",
    "member_view",
    "watch_partitions",
    "will_join",
]

# A join is held back for at most one poll of the client, which asks again at this interval.
_HELD_BACK_SECONDS = 0.01


def ask_for_topic(client: KafkaConsumer, topic: str, timeout_milliseconds: int) -> bool:
    """Return whether the client knows the topic's partitions; if not, ask the broker once and wait for the answer.

    If a client subscribes during a request for metadata, it accepts the answer, which lacks the topic. As leader of the
    group it then assigns no partitions until its metadata is five minutes old.
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/consumer/group.py#L739
    """
    manager = client._manager
    if manager.cluster.partitions_for_topic(topic) is None:
        client._net.run(manager.wait_for, manager.cluster.request_update(), timeout_milliseconds)
    return manager.cluster.partitions_for_topic(topic) is not None


def assignment(topic: str, partitions: list[int], user_data: bytes) -> ConsumerProtocolAssignment:
    """Return what the leader of a group gives a member, as the client's assignors return it.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/coordinator/assignors/cooperative_sticky.py#L152
    """
    logs = [(topic, partitions)] if partitions else []
    return ConsumerProtocolAssignment(CooperativeStickyAssignor.version, logs, user_data)


class MemberView(NamedTuple):
    """The client's view of its membership, which it does not report."""

    is_stable: bool
    """The member is in the group, and no rebalance is known."""
    sends_heartbeats: bool
    has_coordinator: bool
    """The coordinator of the group is known; the client forgets it when its connection ends."""


def member_view(client: KafkaConsumer) -> MemberView:
    """Read the state of the group's coordinator in the client.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/coordinator/base.py#L193
    """
    coordinator = client._coordinator
    is_stable = coordinator.stable() and not coordinator.rejoin_needed
    return MemberView(is_stable, coordinator._heartbeat_enabled, coordinator.coordinator_id is not None)


def will_join(client: KafkaConsumer) -> bool:
    """Whether the next poll begins a join, because the group rebalances.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/coordinator/base.py#L196
    """
    return bool(client._coordinator.rejoin_needed)


def is_joining(client: KafkaConsumer) -> bool:
    """Whether a join of this member is in progress; a later poll returns its result.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/coordinator/base.py#L507
    """
    return client._coordinator._join_task is not None


def join_again(client: KafkaConsumer) -> None:
    """Begin a join with the next poll.

    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/coordinator/base.py#L931
    """
    client._coordinator.request_rejoin()


def guard_joins(client: KafkaConsumer, may_join: Callable[[], bool]) -> None:
    """Hold back joins of this member while ``may_join()`` is false, and keep a join that completed between two polls.

    The client drops a join that completed between two polls and begins another, so every other member joins again:
    members that spend more time in their steps than in ``poll`` then rebalance forever. The lines after the check are
    the client's own for a join that completes during a poll. A poll without a wait asks the client only for a join that
    is over: each question that times out leaves an error and its frames, which the join holds until it ends.
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/coordinator/base.py#L490
    """
    coordinator = client._coordinator
    join = coordinator.join_group_async

    async def join_group_async(timeout_ms: float | None = None) -> bool:
        if not may_join():
            await coordinator._net.sleep(_HELD_BACK_SECONDS)
            return False
        task = coordinator._join_task
        if task is not None and not task.is_done and timeout_ms == 0:
            return False
        if task is None or not task.succeeded():
            joined: bool = await join(timeout_ms=timeout_ms)
            return joined
        coordinator._join_task = None
        with coordinator._lock:
            coordinator.rejoining = False
            coordinator.rejoin_needed = False
            coordinator.state = MemberState.STABLE
            coordinator._enable_heartbeat()
        generation = coordinator._generation
        await coordinator._on_join_complete_async(
            generation.generation_id, generation.member_id, generation.protocol, task.value
        )
        return True

    coordinator.join_group_async = join_group_async


def watch_partitions(client: KafkaConsumer, topic: str) -> None:
    """Let every member join again when the topic has more partitions than at its last join, not the leader alone.

    The client leaves that to the leader of the group. A process that takes over from the leader within its
    session does not learn that it leads: the broker says so in a later version of the join than the client speaks. So
    partitions that are added would belong to no member. A follower's join costs a rebalance at most.
    https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/coordinator/consumer.py#L604
    """
    coordinator = client._coordinator
    need_rejoin, complete = coordinator.need_rejoin, coordinator._on_join_complete_async
    joined: list[int] = []

    def partitions() -> int:
        return len(client._manager.cluster.partitions_for_topic(topic) or ())

    async def on_join_complete_async(*given: object) -> None:
        joined[:] = [partitions()]
        await complete(*given)

    coordinator._on_join_complete_async = on_join_complete_async
    coordinator.need_rejoin = lambda: need_rejoin() or any(partitions() > count for count in joined)
