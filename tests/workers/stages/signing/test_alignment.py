"""The alignment of signers, tested on plain values: which records a signer may sign."""

from __future__ import annotations

import pytest

from neardup_workers.doing.stages.alignment import (
    ARRIVING_SECONDS,
    CLAIM_SECONDS,
    RENEW_SECONDS,
    SETTLE_SECONDS,
    Alignment,
    Claim,
    decode_claim,
    encode_claim,
)
from neardup_workers.outside.transport.protocol import Committed, LogEnd, Record

SPAN_MS = 30_000
NOW_MS = 1_700_000_000_000
# A backlog: long before now.
OLD_MS = NOW_MS - 40_000_000
ALL = 1 << 30


def record(partition: int, offset: int, timestamp_ms: int, size: int = 10) -> Record:
    return Record(partition, offset, timestamp_ms, b"", b"x" * size)


def own(*partitions: int, of: int | None = None, wait_seconds_max: float | None = None) -> Alignment:
    """Lanes of these partitions, started at offset 0; ``of`` is the number of partitions of the topic."""
    alignment = Alignment(SPAN_MS, wait_seconds_max)
    alignment.partitions = frozenset(range(len(partitions) if of is None else of))
    for partition in partitions:
        alignment.start(partition, Committed(0, ""), 0.0)
    return alignment


def poll(
    alignment: Alignment, at: float, *records: Record, ends: dict[int, int], open_: int = 0, age_seconds: float = 0.0,
    now_ms: int = NOW_MS,
) -> None:  # fmt: skip
    """Add records that a client has polled, and its new positions. ``ends`` are the ends of the logs as they were
    ``age_seconds`` ago, each followed by ``open_`` records of open transactions."""
    alignment.add(records, now_ms, at)
    positions = {partition: lane.offset + len(lane.records) for partition, lane in alignment.lanes.items()}
    alignment.see(positions, {p: LogEnd(end, end + open_, age_seconds) for p, end in ends.items()}, at)


def taken(alignment: Alignment, at: float, records_max: int = ALL, now_ms: int = NOW_MS) -> list[tuple[int, int]]:
    """Partition and offset of the records that may be signed."""
    step = alignment.take(records_max, ALL, now_ms, at)
    return [(one.partition, one.offset) for one in step.records]


def claims(**given: Claim) -> dict[int, Committed]:
    """``p1=Claim(...)``: the commit of the owner of partition 1."""
    return {int(name[1:]): Committed(0, encode_claim(claim)) for name, claim in given.items()}


def test_records_are_taken_in_order_of_time_for_any_order_of_polls() -> None:
    """The signer merges the lanes; each lane keeps its own order."""
    alignment = own(0, 1)
    poll(alignment, 0, *(record(0, i, OLD_MS + 1_000 * i) for i in range(3)), ends={0: 3, 1: 3})
    assert taken(alignment, 0) == []  # partition 1 has a backlog, and none of it has been polled
    poll(alignment, 1, *(record(1, i, OLD_MS + 1_000 * i + 500) for i in range(3)), ends={0: 3, 1: 3})
    assert taken(alignment, 1) == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]


def test_nothing_runs_ahead_of_a_lane_that_has_run_dry() -> None:
    """Other lanes stop at one span after its last record, because its next record may be that early."""
    alignment = own(0, 1)
    poll(alignment, 0, record(1, 0, OLD_MS), ends={0: 3, 1: 9})
    poll(alignment, 0, *(record(0, i, OLD_MS + i * SPAN_MS) for i in range(3)), ends={0: 3, 1: 9})
    assert taken(alignment, 0) == [(0, 0), (1, 0), (0, 1)]
    assert alignment.held() == {0: 1}
    assert alignment.dry() == [1]


def test_a_lane_that_is_caught_up_holds_back_no_live_record() -> None:
    """The next record of a lane without a backlog is live too."""
    alignment = own(0, 1)
    poll(alignment, 0, record(0, 0, NOW_MS - 10), ends={0: 1, 1: 0})
    assert taken(alignment, 0) == [(0, 0)]


def test_an_old_record_waits_until_an_empty_lane_had_time_to_show_its_siblings() -> None:
    """A producer writes an archive to several partitions at once, and they become visible one after the other."""
    alignment = own(0, 1)
    poll(alignment, 0, record(0, 0, OLD_MS + 1), ends={0: 1, 1: 0})
    assert taken(alignment, 0) == []
    poll(alignment, SETTLE_SECONDS / 2, record(1, 0, OLD_MS), ends={0: 1, 1: 1})
    assert taken(alignment, SETTLE_SECONDS / 2) == [(1, 0), (0, 0)]
    poll(alignment, 10, record(0, 1, OLD_MS + 2), ends={0: 2, 1: 1})
    assert taken(alignment, 10) == [(0, 1)]  # within the span of the last record of the other
    poll(alignment, 20, record(0, 2, OLD_MS + 2 * SPAN_MS), ends={0: 3, 1: 1})
    assert taken(alignment, 20) == []
    poll(alignment, 20 + SETTLE_SECONDS, ends={0: 3, 1: 1})
    assert taken(alignment, 20 + SETTLE_SECONDS) == [(0, 2)]


def test_a_backlog_waits_once_for_an_empty_lane_not_for_every_record() -> None:
    """The end of the log shows which records already existed."""
    alignment = own(0, 1)
    poll(alignment, 0, record(0, 0, OLD_MS), ends={0: 3, 1: 0})
    poll(alignment, SETTLE_SECONDS, *(record(0, i, OLD_MS + i * 9_000_000) for i in (1, 2)), ends={0: 3, 1: 0})
    assert taken(alignment, SETTLE_SECONDS) == [(0, 0), (0, 1), (0, 2)]


def test_an_old_record_waits_for_its_transaction_in_other_partitions_however_long() -> None:
    """The broker has marked the end of the transaction in one partition, and stands still before the next one."""
    alignment = own(0, 1)
    poll(alignment, 0, ends={0: 0, 1: 0})
    for at in (10, 20, 300):
        records = [record(0, 0, OLD_MS + 2 * SPAN_MS)] if at == 10 else []
        poll(alignment, at, *records, ends={0: 1, 1: 0}, open_=1)
        assert taken(alignment, at) == []
    poll(alignment, 301, record(1, 0, OLD_MS), ends={0: 1, 1: 1})
    assert taken(alignment, 301) == [(1, 0), (0, 0)]


def test_a_live_record_waits_while_old_records_arrive() -> None:
    """The last records of an archive are not read yet in one partition, when the stream goes on in another one."""
    alignment = own(0, 1)
    poll(alignment, 0, record(0, 0, OLD_MS), record(1, 0, OLD_MS), ends={0: 1, 1: 1})
    poll(alignment, 0.2, record(1, 1, OLD_MS + 1_401), ends={0: 1, 1: 2})
    assert taken(alignment, 0.2) == [(0, 0), (1, 0), (1, 1)]
    poll(alignment, 1, record(0, 1, NOW_MS), ends={0: 2, 1: 2}, age_seconds=0.5)
    assert taken(alignment, 1) == []
    poll(alignment, 2, record(1, 2, OLD_MS + 9_000), ends={0: 2, 1: 3})
    assert taken(alignment, 2) == [(1, 2), (0, 1)]
    poll(alignment, 2 + ARRIVING_SECONDS, record(0, 2, NOW_MS), ends={0: 3, 1: 3})
    assert taken(alignment, 2 + ARRIVING_SECONDS) == []
    late = 2 + ARRIVING_SECONDS + 0.1
    poll(alignment, late, ends={0: 3, 1: 3})
    assert taken(alignment, late) == [(0, 2)]  # none has come for a while


def test_a_live_record_waits_while_the_clock_of_another_owner_is_old_and_moves() -> None:
    """Afterwards, a partition with an old clock stops no live record."""
    alignment = own(0, of=2)
    for at, clock_ms in ((0, OLD_MS), (1, OLD_MS), (2, OLD_MS + 3_001), (3, OLD_MS + 3_001)):
        alignment.look(claims(p1=Claim(clock_ms, True, at, empty_ms=0)), at)
    poll(alignment, 3, record(0, 0, NOW_MS), ends={0: 1})
    assert taken(alignment, 3) == []
    late = 2 + ARRIVING_SECONDS + 0.1
    alignment.look(claims(p1=Claim(OLD_MS + 3_001, True, 9, empty_ms=0)), late)
    assert taken(alignment, late) == [(0, 0)]


def test_a_live_record_does_not_wait_for_open_transactions() -> None:
    """A transaction that is never ended stops no live stream."""
    alignment = own(0, 1)
    poll(alignment, 0, record(0, 0, NOW_MS - 10), ends={0: 1, 1: 0}, open_=1)
    assert taken(alignment, 0) == [(0, 0)]


def test_a_partition_is_empty_when_the_broker_was_asked_and_not_when_it_answered() -> None:
    """An answer that is too old says nothing of now: the partition may have a backlog."""
    alignment = own(0, 1)
    poll(alignment, 0, record(0, 0, OLD_MS), ends={0: 1, 1: 0})
    poll(alignment, 4, ends={0: 1, 1: 0}, age_seconds=4 - SETTLE_SECONDS / 2)
    assert taken(alignment, 4) == []
    poll(alignment, 4, ends={0: 1, 1: 0}, age_seconds=4 - SETTLE_SECONDS)
    assert taken(alignment, 4) == [(0, 0)]
    poll(alignment, 9, record(0, 1, NOW_MS), ends={0: 2, 1: 0}, age_seconds=CLAIM_SECONDS + 0.1)
    assert (taken(alignment, 9), alignment.dry()) == ([], [1])


def test_what_an_open_transaction_holds_back_passes_after_the_longest_wait() -> None:
    """Old records go on without the partition, and are counted."""
    alignment = own(0, 1, wait_seconds_max=60)
    for at in (0, 30, 60):
        records = [record(0, 0, OLD_MS)] if at == 0 else []
        poll(alignment, at, *records, ends={0: 1, 1: 0}, open_=1)
        assert taken(alignment, at) == []
    poll(alignment, 61, ends={0: 1, 1: 0}, open_=1)
    step = alignment.take(ALL, ALL, NOW_MS, 61)
    assert (len(step.records), step.unaligned) == (1, 1)


@pytest.mark.parametrize("timestamp_ms", [-1, NOW_MS + 1, NOW_MS + 10**12])
def test_a_record_without_a_time_or_from_the_future_inherits_the_time_before_it(timestamp_ms: int) -> None:
    """Such a record neither pauses its partition nor moves its clock."""
    alignment = own(0, 1)
    poll(alignment, 0, record(0, 0, OLD_MS), record(0, 1, timestamp_ms), record(0, 2, OLD_MS + 2), ends={0: 3, 1: 2})
    poll(alignment, 0, record(1, 0, OLD_MS + 1), record(1, 1, OLD_MS + 3), ends={0: 3, 1: 2})
    assert taken(alignment, 0) == [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1)]


def test_a_record_of_1970_does_not_set_the_clock_back() -> None:
    """The clock is a running maximum, so other partitions need not wait for decades."""
    alignment = own(0, 1)
    poll(alignment, 0, record(0, 0, OLD_MS), record(0, 1, 0), ends={0: 9, 1: 1})
    poll(alignment, 0, record(1, 0, OLD_MS + SPAN_MS), ends={0: 9, 1: 1})
    assert taken(alignment, 0) == [(0, 0), (0, 1), (1, 0)]


def test_a_step_ends_at_its_records_and_at_its_bytes() -> None:
    """The record that reaches the limit of bytes ends the step; the next step starts after it."""
    alignment = own(0)
    poll(alignment, 0, *(record(0, i, OLD_MS, size=100) for i in range(6)), ends={0: 6})
    assert taken(alignment, 0, records_max=2) == [(0, 0), (0, 1)]
    assert [one.offset for one in alignment.take(ALL, 101, NOW_MS, 0).records] == [2, 3]
    assert alignment.hand_bytes == 200


def test_what_is_put_back_is_taken_again() -> None:
    """The records come in the same order, with the claims before them."""
    alignment = own(0, 1)
    poll(alignment, 0, *(record(i % 2, i // 2, OLD_MS + i) for i in range(8)), ends={0: 4, 1: 4})
    alignment.take(3, ALL, NOW_MS, 0)
    before = alignment.commits(1, 0)
    step = alignment.take(3, ALL, NOW_MS, 0)
    assert alignment.commits(1, 0) != before
    alignment.put_back(step)
    assert alignment.commits(1, 0) == before
    assert alignment.take(3, ALL, NOW_MS, 0) == step


def test_a_partition_that_is_dropped_takes_its_records_with_it() -> None:
    """The next owner starts at the committed offset."""
    alignment = own(0, 1)
    poll(alignment, 0, record(0, 0, OLD_MS), record(1, 0, OLD_MS + 1), ends={0: 1, 1: 1})
    alignment.drop([0])
    alignment.partitions = frozenset({1})
    assert taken(alignment, 0) == [(1, 0)]


def test_claims_describe_the_state_after_the_step() -> None:
    """The clock is the time of the next record, or of the last one; a lane without records left is caught up."""
    alignment = own(0, 1)
    poll(alignment, 0, record(0, 0, OLD_MS), record(0, 1, OLD_MS + 5), record(1, 0, OLD_MS + 1), ends={0: 2, 1: 1})
    alignment.take(2, ALL, NOW_MS, 0)
    found = alignment.commits(77, 2.5)
    assert {partition: at.offset for partition, at in found.items()} == {0: 1, 1: 1}
    assert decode_claim(found[0].metadata) == Claim(OLD_MS + 5, False, 77, empty_ms=2_500)
    assert decode_claim(found[1].metadata) == Claim(OLD_MS + 1, True, 77, empty_ms=2_500)


@pytest.mark.parametrize(
    "text", ["", "no claim", "[]", "{}", '{"clock_ms": "x", "caught_up": true, "stamp": 1}', "null", "\u6f22"]
)
def test_other_metadata_is_no_claim(text: str) -> None:
    """An older version or another program may have written it."""
    assert decode_claim(text) == Claim()


def test_a_clock_outlives_its_signer() -> None:
    """The next owner starts with the committed clock, before its first record arrives."""
    alignment = own(0, of=2)
    alignment.start(1, Committed(5, encode_claim(Claim(OLD_MS, False, 1))), 0.0)
    poll(alignment, 0, record(0, 0, OLD_MS + SPAN_MS), record(0, 1, OLD_MS + SPAN_MS + 1), ends={0: 2, 1: 9})
    assert taken(alignment, 0) == [(0, 0)]


# Claims of other signers.


def test_nothing_is_signed_before_the_first_view_of_the_others() -> None:
    """A signer also waits until it knows the partitions of the topic."""
    alignment = own(0, of=2)
    poll(alignment, 0, record(0, 0, NOW_MS), ends={0: 1})
    assert taken(alignment, 0) == []
    alignment.look(claims(p1=Claim(NOW_MS - 5, False, 1)), 1)
    assert taken(alignment, 1) == [(0, 0)]


def test_a_partition_without_a_claim_holds_back_everything() -> None:
    """Its owner commits a claim as soon as it has started the partition."""
    alignment = own(0, of=2)
    poll(alignment, 0, record(0, 0, NOW_MS), ends={0: 1})
    for at in (1, 2, 30):
        alignment.look({}, at)
        assert taken(alignment, at) == []


def test_the_horizon_is_the_slowest_clock_and_the_span() -> None:
    """The horizon is exact to the millisecond and moves with the slowest claim."""
    alignment = own(0, of=3)
    poll(alignment, 0, *(record(0, i, OLD_MS + SPAN_MS + i) for i in range(3)), ends={0: 3})
    alignment.look(claims(p1=Claim(OLD_MS, False, 1), p2=Claim(NOW_MS, False, 1)), 0)
    assert taken(alignment, 0) == [(0, 0)]
    alignment.look(claims(p1=Claim(OLD_MS + 1, False, 2), p2=Claim(NOW_MS, False, 1)), 1)
    assert taken(alignment, 1) == [(0, 1)]
    assert alignment.wait_seconds(1) == 0
    assert taken(alignment, 2) == []
    assert alignment.wait_seconds(9) == 7


def test_a_claim_from_before_an_outage_counts_for_nothing() -> None:
    """The claim says caught up, but no signer renews it, so only its clock counts."""
    alignment = own(0, of=2)
    poll(alignment, 0, record(0, 0, NOW_MS), ends={0: 1})
    for at in range(10):
        alignment.look(claims(p1=Claim(OLD_MS, True, 1)), at)
        assert taken(alignment, at) == []


def test_a_claim_that_is_renewed_counts_for_a_while() -> None:
    """The claim frees live records until its owner has been silent for too long."""
    alignment = own(0, of=2)
    alignment.look(claims(p1=Claim(OLD_MS, True, 1)), 0)
    alignment.look(claims(p1=Claim(OLD_MS, True, 2)), RENEW_SECONDS)
    late = RENEW_SECONDS + CLAIM_SECONDS
    poll(alignment, late, record(0, 0, NOW_MS), ends={0: 1})
    assert taken(alignment, late) == [(0, 0)]
    poll(alignment, late + 0.1, record(0, 1, NOW_MS), ends={0: 2})
    assert taken(alignment, late + 0.1) == []


def test_an_old_record_passes_a_claim_made_after_it_was_in_the_log() -> None:
    """Claim 4 was made after claim 2 was visible, and claim 2 came after the record had settled."""
    for empty_ms, passes in ((0, True), (500, True), (501, False), (None, False)):
        alignment = own(0, of=2)
        poll(alignment, 0, record(0, 0, OLD_MS + 2 * SPAN_MS), ends={0: 1})
        for at, stamp in ((0, 1), (SETTLE_SECONDS + 0.5, 1), (2, 2), (3, 3)):
            alignment.look(claims(p1=Claim(OLD_MS, True, stamp, empty_ms=0)), at)
            poll(alignment, at, ends={0: 1})
            assert taken(alignment, at) == []
        alignment.look(claims(p1=Claim(OLD_MS, True, 4, empty_ms=empty_ms)), 4)
        assert taken(alignment, 4) == [(0, 0)] * passes


def test_a_partition_that_moves_away_has_to_renew_its_claim_first() -> None:
    """This signer's own commit for the partition proves nothing about the next owner."""
    alignment = own(0, 1)
    alignment.drop([1])
    alignment.look(claims(p1=Claim(OLD_MS, True, 5)), 0)
    poll(alignment, 0, record(0, 0, NOW_MS), ends={0: 1})
    assert taken(alignment, 0) == []
    alignment.look(claims(p1=Claim(OLD_MS, True, 6)), 1)
    assert taken(alignment, 1) == [(0, 0)]


def test_after_the_longest_wait_the_others_go_on_and_that_is_counted() -> None:
    """The slow partition holds back the others again as soon as it advances."""
    alignment = own(0, of=2, wait_seconds_max=60)
    alignment.look(claims(p1=Claim(OLD_MS, False, 1)), 0)
    records = [record(0, i, OLD_MS + SPAN_MS * (i + 1)) for i in range(4)]
    poll(alignment, 0, *records[:3], ends={0: 4})
    assert taken(alignment, 0) == [(0, 0)]
    assert taken(alignment, 1) == []
    assert taken(alignment, 61) == []
    step = alignment.take(ALL, ALL, NOW_MS, 61.1)
    assert (len(step.records), step.unaligned) == (2, 2)
    alignment.look(claims(p1=Claim(OLD_MS + 1, False, 2)), 62)
    poll(alignment, 62, records[3], ends={0: 4})
    assert taken(alignment, 62) == []


def test_old_times_delay_nothing_that_is_caught_up() -> None:
    """A producer with a slow clock writes now and then: its partition has no backlog when its records are read."""
    alignment = own(0, 1)
    for i in range(20):
        poll(
            alignment,
            i,
            record(1, i, 1_000 + i),
            record(0, i, NOW_MS + 1_000 * i),
            ends={0: i + 1, 1: i + 1},
            now_ms=NOW_MS + 1_000 * i,
        )
        assert taken(alignment, i, now_ms=NOW_MS + 1_000 * i) == [(1, i), (0, i)]


def test_how_far_partitions_are_behind_is_reported_for_those_with_a_backlog() -> None:
    """The lag is in seconds, from the next record; caught-up partitions report none."""
    alignment = own(0, 1, 2)
    poll(alignment, 0, record(0, 0, NOW_MS - 9_000), ends={0: 1, 1: 0, 2: 4})
    assert alignment.behind_seconds(NOW_MS) == {0: 9.0, 1: 0.0, 2: 0.0}
