"""``neardup topics replay``: sets the signers back, so that a new ``signed`` gets the documents of one window.

A ``signed`` that was just made is empty: the topic was deleted. The signers would go on at their committed offsets, and
no document would find one from before. The command commits earlier offsets for them: in each partition that of the
first document of the window, or of the first one without a verdict if that is earlier. Linkers pass what has a verdict.

It commits as a signer does, as the only member of their group. If a signer joins meanwhile, the broker refuses the
commit. So nothing is set back under a signer that works.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import closing
from typing import NamedTuple

from neardup_workers.doing.stages.agreement import check_agreed
from neardup_workers.doing.stages.transaction import transact
from neardup_workers.doing.stages.verdicts.beginning.first import last_record, last_verdicts
from neardup_workers.doing.stages.verdicts.positions import decode_verdicts_metadata
from neardup_workers.outside.display.printing import time_text
from neardup_workers.outside.options.running import ReplayOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.kafka import LIMITS, StreamLimits, StreamSettings
from neardup_workers.outside.topics.names import LINK, SIGN, Names, names_of
from neardup_workers.outside.topics.signed import PARTITION
from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Committed,
    Consumer,
    FencedError,
    Membership,
    OutcomeUnknownError,
    Transport,
)

# To join a group without members takes a moment, and on a broker its group.initial.rebalance.delay.ms.
_JOIN_SECONDS = 30.0
_MILLISECONDS = 1e3


class Begin(NamedTuple):
    """Where signers go on in a partition of ``documents``, and where they stood before."""

    partition: int
    offset: int
    before: int


def replay(
    options: ReplayOptions, transport: Transport, settings: StreamSettings, limits: StreamLimits = LIMITS
) -> None:
    """Set the signers back and say what they repeat.

    Raises:
        Failure: signers work, ``signed`` has documents already, or documents of the window are gone.
        TransportError: the broker does not answer, or does not allow it.
    """
    check_agreed(transport, settings)
    names = names_of(settings)
    group, topic = names.group(SIGN), names.topics.documents
    # In this order: without the right to read a topic the broker says that a group has no offsets there.
    firsts = {partition: first for partition, (first, _) in transport.bounds(topic).items()}
    committed = _committed(transport, group, topic)
    begins = {partition: at.offset for partition, at in committed.items()}
    is_new = transport.bounds(names.topics.signed)[PARTITION][1] == 0
    if options.window:
        signed = names.topics.signed
        if not is_new:
            raise Failure(
                Exit.USAGE,
                f"{signed} has documents, and those of a window before them would be late: --no-window signs only "
                f"those again that have no verdict. To fill all windows again, end all workers, delete {signed}, "
                f"{names.topics.links} and the groups of match and link with the tools of Kafka, make the topics with "
                "neardup topics create, and replay again",
            )
        since = _window_begins(transport, topic, begins, firsts, settings, limits.skew_seconds)
        at = transport.offsets_at(topic, int(since * _MILLISECONDS))
        sys.stdout.write(f"the window begins at {time_text(since)}\n")
        _check_kept(settings, {p: first for p, first in firsts.items() if 0 < first == at[p] < begins.get(p, 0)}, since)
        begins = {partition: min(offset, at[partition]) for partition, offset in begins.items()}
    if settings.verdicts:
        open_ = _undecided(transport, names, firsts)
        wanted = {partition: min(offset, open_.get(partition, offset)) for partition, offset in begins.items()}
        _check_kept(settings, {p: firsts[p] for p, offset in wanted.items() if offset < firsts[p]}, None)
        begins = {partition: max(offset, firsts[partition]) for partition, offset in wanted.items()}
    _commit(transport, names, {partition: Committed(offset, "") for partition, offset in begins.items()})
    _say([Begin(p, offset, committed[p].offset) for p, offset in sorted(begins.items())], topic, settings)


def _committed(transport: Transport, group: str, topic: str) -> dict[int, Committed]:
    """Return the offsets of the signers, of whom none works."""
    if members := transport.members(group):
        raise Failure(
            Exit.USAGE,
            f"{members} signers are members of group {group}, and would go on from where they are: end them, wait for "
            "the session (10 s) if one was killed, and replay again",
        )
    committed = transport.group_offsets(group, topic)
    if not committed:
        raise Failure(
            Exit.USAGE,
            f"group {group} has no committed offsets of {topic}, so there is nothing to set back: start signers with "
            "--from earliest, which signs all documents",
        )
    return committed


def _window_begins(
    transport: Transport,
    topic: str,
    reached: Mapping[int, int],
    firsts: Mapping[int, int],
    settings: StreamSettings,
    skew_seconds: float,
) -> float:
    """Return the time in seconds before which no document can be in the window, from the last one that was signed."""
    begins = [last_record(transport, topic, p, firsts[p], offset) for p, offset in reached.items()]
    times = [record.timestamp_ms / _MILLISECONDS for record in begins if record is not None]
    spans = (settings.window_seconds or 0.0) + settings.lateness_seconds + skew_seconds
    return max(0.0, min(time.time(), max(times, default=0.0)) - spans)


def _undecided(transport: Transport, names: Names, firsts: Mapping[int, int]) -> dict[int, int]:
    """Return the first offset without a verdict of each partition; nothing if there are no verdicts yet."""
    verdicts = names.topics.verdicts
    undecided = {partition: int(line["offset"]) + 1 for partition, line in last_verdicts(transport, verdicts).items()}
    for partition, at in transport.group_offsets(names.group(LINK), verdicts).items():
        undecided[partition] = max(undecided.get(partition, 0), decode_verdicts_metadata(at).decided)
    return {**firsts, **undecided} if undecided else {}


def _check_kept(settings: StreamSettings, gone: Mapping[int, int], since: float | None) -> None:
    """Raise ``Failure`` if documents that are wanted are gone: partition -> first offset that is kept."""
    if gone and not settings.allow_gap:
        what = "without a verdict" if since is None else f"of the window, which begins at {time_text(since)},"
        logs = ", ".join(f"offset {first} of partition {partition}" for partition, first in sorted(gone.items()))
        raise Failure(
            Exit.GAP,
            f"documents {what} may be gone: the log begins at {logs}. Give documents a longer retention; "
            "--allow-gap goes on without them",
        )


def _commit(transport: Transport, names: Names, offsets: dict[int, Committed]) -> None:
    """Commit as the only member of the group of the signers, or raise ``Failure``."""
    group, topic = names.group(SIGN), names.topics.documents
    with (
        closing(transport.producer(f"{names.prefix}-replay-{SIGN}")) as producer,
        closing(transport.consumer(topic, group, "")) as consumer,
    ):
        membership = _joined(consumer, set(range(transport.partitions(topic))))
        try:
            if membership is None:
                raise FencedError("another member has partitions")
            transact(producer, [], topic, offsets, membership)
        except (AbortedError, FencedError) as error:
            raise Failure(
                Exit.FENCED, f"nothing was changed, because a member joined group {group}: end it, and replay again"
            ) from error
        except OutcomeUnknownError as error:
            raise Failure(Exit.BROKER, f"{error}; replay again before a signer starts") from error


def _joined(consumer: Consumer, wanted: set[int]) -> Membership | None:
    """Return the membership with which all partitions are owned, or ``None`` if they are not."""
    owned: set[int] = set()
    deadline = time.monotonic() + _JOIN_SECONDS
    while time.monotonic() < deadline:
        polled = consumer.poll(0.1, 1)
        owned = (owned - set(polled.revoked)) | set(polled.assigned)
        if owned == wanted and not polled.is_joining:
            return polled.membership
    return None


def _say(begins: list[Begin], topic: str, settings: StreamSettings) -> None:
    for one in begins:
        sys.stdout.write(f"{topic} partition {one.partition}: from offset {one.before:,} back to {one.offset:,}\n")
    count = sum(one.before - one.offset for one in begins)
    verdicts = " No document gets a second verdict, and none is forwarded twice." if settings.verdicts else ""
    sys.stdout.write(
        f"{count:,} offsets are signed again when signers start (no --from). Pairs among these documents are published "
        f"again, and so are dead letters.{verdicts}\n"
    )
