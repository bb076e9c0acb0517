"""``neardup status``: one screen about a deployment, from its topics and the offsets of its groups alone.

It needs no worker to answer, so it also says what is wrong when none does. It reads, for each role, where the group
stands, the first record that it has not committed, and the newest record of what it writes; who owns each shard and
stands by for it; and what keeps a member from its work, as that has noted it. How far a standby is behind, only its
member knows. It joins no group and changes nothing.

Each ``Problem`` is a sentence about what is wrong, and one about what to do. The exit code is that of the worst one, so
a probe can use the command.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from rich.table import Table

from neardup.pairs.estimates.limits import counted_documents, counted_recall
from neardup_workers.doing.stages.agreement import check_agreed, check_kept, logs_of
from neardup_workers.doing.stages.matching.windows import added_counts, decode_window
from neardup_workers.doing.stages.verdicts.positions import decode_signed_metadata
from neardup_workers.outside.display.printing import print_found, table_of, time_text
from neardup_workers.outside.options.running import StatusOptions
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.durations import seconds_of
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, ROLES, SIGN, Names, names_of
from neardup_workers.outside.topics.replication import judge_replication
from neardup_workers.outside.topics.rules import Finding, judge, judge_together, topic_plans
from neardup_workers.outside.topics.signed import PARTITION
from neardup_workers.outside.transport.protocol import Committed, Record, Transport, UnknownTopicError, UnreachableError
from neardup_workers.running.commands.topics.shards import ShardState, linker_of, shard_table, states_of
from neardup_workers.running.commands.topics.waiting import (
    Problem,
    problem_tables,
    waiting_of,
    waiting_problems,
    waiting_tables,
)


class _Kind(NamedTuple):
    """What the workers of a role are called, the topic that they read, the topic whose newest record is their last
    output (what a filter writes has the times of documents), the topic whose partitions they share, and what each of
    these is, what a member does that has committed nothing."""

    called: str
    reads: str
    writes: str | None
    shares: str
    part: str = "partition"
    begins: str = "restores, or needs --from earliest"


_ROLES: dict[str, _Kind] = {
    SIGN: _Kind("signer", "documents", "signed", "documents"),
    MATCH: _Kind("matcher", "signed", "candidates", "links", "shard"),
    LINK: _Kind("linker", "signed", "verdicts", "signed", begins="waits for links, or needs --from earliest"),
    FILTER: _Kind("filter", "verdicts", None, "verdicts"),
}
# The worst comes first.
_CODES = (Exit.TOPIC, Exit.GAP, Exit.GENERATION, Exit.STUCK)
# The last records of a partition may be markers of transactions: so many offsets before the end are read.
_TAIL_OFFSETS = 4
# A transaction of a step takes a fraction of this time.
_OPEN_SECONDS, _OPEN_LOOK_SECONDS = 2.0, 0.1
_WAIT_SECONDS, _RECORDS_MAX, _BYTES_MAX, _MILLISECONDS = 10.0, 100, 1 << 20, 1e3


@dataclass(frozen=True)
class Unread:
    """Where a group stands in a partition of ``topic``: its committed offset, the log, and what it has not read.

    ``records`` counts offsets from the first record that is not committed; ``since`` is the time of this record in
    seconds.
    """

    partition: int
    committed: int | None
    first: int
    end: int
    records: int
    since: float | None


@dataclass(frozen=True)
class Role:
    """A role: its group, its members, and each partition of the topic that it reads."""

    role: str
    group: str
    topic: str
    members: int
    partitions: tuple[Unread, ...]
    last_output: float | None  # seconds; None if there is none

    @property
    def slowest(self) -> Unread | None:
        """The partition with the oldest record that is not committed."""
        waiting = [one for one in self.partitions if one.since is not None]
        return min(waiting, key=lambda one: one.since or 0.0, default=None)

    @property
    def records(self) -> int:
        """Records that are not committed."""
        return sum(one.records for one in self.partitions)


def status(options: StatusOptions, transport: Transport, settings: StreamSettings) -> Exit:
    """Print the state of a deployment; returns the code of the worst problem. Raises ``UnreachableError``."""
    names, now = names_of(settings), time.time()
    behind_max = seconds_of("--behind-max", options.behind_max)
    matched = transport.group_offsets(names.group(MATCH), names.topics.links)
    roles = look(transport, settings, names, matched)
    shards = states_of(transport, settings, matched)
    linked = transport.group_offsets(names.group(LINK), names.topics.signed) if settings.verdicts else {}
    linker = linker_of(transport, settings, linked.get(PARTITION)) if settings.verdicts else []
    waiting = waiting_of(transport, names, [role.role for role in roles], now)
    problems = [*topic_problems(transport, settings), *standby_problems([*shards, *linker], settings.standbys)]
    problems += [problem for role in roles for problem in role_problems(role, now, behind_max)]
    problems += waiting_problems(waiting)
    problems += [*agreement_problems(transport, settings), *setting_problems(matched, settings)]
    read = dict.fromkeys(role.topic for role in roles)
    problems += [problem for topic in read for problem in held_problems(transport, topic)]
    problems += link_problems(linked.get(PARTITION), names.topics.signed)
    behind = [role for role in roles if role.slowest is not None]
    # The role with the oldest record that is not committed: nothing later is decided everywhere.
    held = min(behind, key=lambda role: (role.slowest and role.slowest.since) or 0.0, default=None)
    limits = limits_of(matched)
    values: dict[str, Any] = {
        "generation": names.generation,
        "roles": [_values(role, now) for role in roles],
        "watermark": None if held is None or held.slowest is None else held.slowest.since,
        "held_back_by": None if held is None else held.role,
        "waiting": [one.values() for one in waiting],
        "shards": [one._asdict() for one in shards],
        "linker": linker[0]._asdict() if linker else None,
        "limits": limits,
        "problems": [{"what": one.what, "do": one.do, "code": int(one.code)} for one in problems],
    }
    shown = [*shards, *linker]
    standing = [shard_table(shown)] if settings.standbys or any(one.standbys for one in shown) else []
    tables = [_table(names, roles, held, now), *waiting_tables(waiting), *standing, *_limit_tables(limits)]
    print_found(values, [*tables, *problem_tables(problems)], as_json=options.as_json)
    return next((code for code in _CODES if any(one.code == code for one in problems)), Exit.SUCCESS)


def look(transport: Transport, settings: StreamSettings, names: Names, matched: Mapping[int, Committed]) -> list[Role]:
    """Return the standing of each role of the deployment whose topics exist; ``matched`` are the offsets of the
    matchers."""
    wanted = [SIGN, MATCH, LINK, FILTER] if settings.verdicts else [SIGN, MATCH]
    roles = []
    for role in wanted:
        kind = _ROLES[role]
        topic, shared, group = getattr(names.topics, kind.reads), getattr(names.topics, kind.shares), names.group(role)
        try:
            output = None if kind.writes is None else _newest(transport, getattr(names.topics, kind.writes))
            offsets = matched if role == MATCH else transport.group_offsets(group, shared)
            unread = tuple(_unread(transport, topic, offsets, shared))
        except UnknownTopicError:
            continue
        roles.append(Role(role, group, topic, transport.members(group), unread, output))
    return roles


def limits_of(matched: Mapping[int, Committed]) -> dict[str, Any]:
    """Return what limits of candidates cost the shards since they began, as matchers have committed it."""
    counts = added_counts([decode_window(one.metadata).counts for one in matched.values()])
    return {"documents": counted_documents(counts), "pairs": counted_recall(counts), **counts}


def topic_problems(transport: Transport, settings: StreamSettings) -> Iterator[Problem]:
    """Yield what is wrong with the topics."""
    names = names_of(settings)
    findings: dict[str, list[Finding]] = {}
    for plan in topic_plans(settings):
        try:
            partitions = transport.partitions(plan.name)
        except UnknownTopicError:
            made = f", or give the settings of the workers: these make generation {names.generation}"
            do = f"make it with neardup topics create{made if names.generation in plan.name else ''}"
            yield Problem(f"the topic {plan.name} is missing", do, Exit.TOPIC)
            continue
        configs = transport.configs(plan.name)
        replication = judge_replication(
            transport.replication(plan.name), configs, allow_single=settings.allow_single_replica
        )
        findings[plan.name] = [*judge(plan, partitions, configs), *replication]
    wrong: dict[Finding, list[str]] = {}
    for topic, rows in judge_together(settings, findings).items():
        for row in rows:
            if row.problem or row.warning:
                wrong.setdefault(row, []).append(topic)
    for row, topics in wrong.items():
        which = f"all {len(topics)} topics" if len(topics) == len(findings) > 1 else ", ".join(topics)
        what = f"{which}: {row.key}={row.value} {row.problem or row.warning}"
        whose = "the topic" if len(topics) == 1 else "these topics"
        do = f"change {row.key} of {whose} with the tools of Kafka; neardup topics describe shows all"
        yield Problem(what, do, Exit.TOPIC if row.problem else Exit.SUCCESS)


def role_problems(role: Role, now: float, behind_max: float) -> Iterator[Problem]:
    """Yield what is wrong with a role."""
    kind, called, count = _ROLES[role.role], _ROLES[role.role].called, len(role.partitions)
    if not role.members:
        waits = f", and {role.records:,} records wait in {role.topic}" if role.records else ""
        do = f"start one with neardup {role.role}, or see why it ended in its log"
        yield Problem(f"no {called} is a member of {role.group}{waits}", do, Exit.STUCK)
    elif role.records and all(one.committed is None for one in role.partitions):
        what = f"{role.group} has members and has never committed an offset of {role.topic}"
        yield Problem(what, f"see the log of the {called}: it {kind.begins}", Exit.STUCK)
    if role.members > count and role.role != LINK:
        what = f"{role.members - count} of {role.members} {called}s have no {kind.part}: there are {count}"
        yield Problem(what, "end them, or keep them to take over")
    for one in role.partitions:
        log = f"{kind.part} {one.partition} of {role.topic}"
        if one.committed is not None and one.committed < one.first:
            what = f"offsets {one.committed} to {one.first} of {log} were deleted before a {called} had read them"
            do = f"give {role.topic} a longer retention, then start the {called} with --allow-gap, which goes on behind"
            yield Problem(what, do, Exit.GAP)
        elif one.committed is not None and one.committed > one.end:
            what = f"{log} ends at {one.end}, and {role.group} has committed {one.committed}: the topic was made again"
            do = f"end the {called}s, delete the group with the tools of Kafka, and start with --from earliest"
            yield Problem(what, do, Exit.GAP)
    slowest = role.slowest
    if slowest is not None and slowest.since is not None and role.members and now - slowest.since > behind_max:
        what = (
            f"{called}s are behind: {kind.part} {slowest.partition} of {role.topic} has {slowest.records:,} unread "
            f"records, the oldest from {time_text(slowest.since)}"
        )
        do = (
            f"start more {called}s: {role.members} share {count} {kind.part}s"
            if role.members < count and role.role != LINK
            else f"see the log and /readyz of the {called} that has this {kind.part}: there are as many as can work"
        )
        yield Problem(what, do, Exit.STUCK)


def agreement_problems(transport: Transport, settings: StreamSettings) -> Iterator[Problem]:
    """Yield what would end workers with these settings: another owner of the prefix, other settings in force, or a
    topic that was made again."""
    try:
        check_kept(transport, logs_of(check_agreed(transport, settings), settings, *ROLES))
    except UnknownTopicError:
        return  # a topic that is missing is a problem of its own
    except Failure as failure:
        what, _, do = str(failure).rpartition(": ")
        yield Problem(what, do, failure.code)


def setting_problems(matched: Mapping[int, Committed], settings: StreamSettings) -> Iterator[Problem]:
    """Yield the shards that were matched last with other settings: a linker waits until they agree."""
    own = settings.matching_fingerprint
    if shards := [shard for shard, at in sorted(matched.items()) if decode_window(at.metadata).fingerprint != own]:
        what = f"shards {shards} were matched last with other settings of matching than these ({own[:8]})"
        do = "give this command the settings of the workers, and all matchers and the linker the same ones"
        yield Problem(what, do, Exit.STUCK if settings.verdicts else Exit.SUCCESS)


def held_problems(transport: Transport, topic: str) -> Iterator[Problem]:
    """Yield the partitions in which a transaction stays open: what is written behind it is unread, and no lag shows it.

    A transaction of a step is open for a moment, too, so the ends are read until it has ended, or for longer than one.
    """
    deadline, held = time.monotonic() + _OPEN_SECONDS, None
    while True:
        ends, written = transport.bounds(topic), transport.bounds(topic, written=True)
        now = {partition: end for partition, (_, end) in ends.items() if end < written[partition][1]}
        held = now if held is None else {one: end for one, end in held.items() if now.get(one) == end}
        if not held:
            return
        if time.monotonic() >= deadline:
            break
        time.sleep(_OPEN_LOOK_SECONDS)
    for partition, end in sorted(held.items()):
        what = (
            f"a transaction is open at offset {end} of partition {partition} of {topic}: the "
            f"{written[partition][1] - end:,} offsets from there on cannot be read yet"
        )
        do = "see who holds it: kafka-transactions.sh find-hanging or describe; its producer ends it, or its timeout"
        yield Problem(what, do, Exit.STUCK)


def standby_problems(shards: Sequence[ShardState], wanted: int) -> Iterator[Problem]:
    """Yield remarks about shards, and a linker, with fewer standbys than are wanted: a takeover restores the window."""
    cold = [one.shard for one in shards if one.owner is not None and len(one.standbys) < wanted]
    do = "with this setting, or wait while their group rebalances"
    if numbers := [shard for shard in cold if shard is not None]:
        count = sum(one.shard is not None for one in shards)
        what = f"of {count} shards, {len(numbers)} have fewer standbys than standbys={wanted}: {numbers}"
        yield Problem(what, f"start more matchers {do}")
    if None in cold:
        yield Problem(f"the linker has fewer standbys than standbys={wanted}", f"start more linkers {do}")


def link_problems(linked: Committed | None, topic: str) -> Iterator[Problem]:
    """Yield a remark about the documents that the first linker passed, by the offset of the linkers in ``signed``."""
    skipped = 0 if linked is None else decode_signed_metadata(linked).skipped
    if skipped:
        what = f"{skipped:,} documents of {topic} have no verdict: matchers had worked without verdicts before"
        yield Problem(what, "nothing, if no reader needs them; else send them again: they get a verdict then")


def _unread(transport: Transport, topic: str, offsets: Mapping[int, Committed], shared: str) -> Iterator[Unread]:
    """Yield the standing of a group in each partition of the topic that it shares, by its offsets; where it shares
    another topic than it reads, each partition stands for a part of the one partition that it reads."""
    bounds = parts = transport.bounds(topic)
    if shared != topic:  # a partition without an offset is a shard to come, once others have one
        parts = dict.fromkeys(offsets or range(transport.partitions(shared)), bounds[0])
    committed = {partition: offsets[partition].offset if partition in offsets else None for partition in parts}
    starts = {partition: max(first, committed[partition] or 0) for partition, (first, _) in parts.items()}
    read: dict[int, list[Record]] = {}
    if shared == topic:
        read = _read(transport, topic, {p: at for p, at in starts.items() if at < bounds[p][1]}, bounds)
    else:
        for start in {start for start in starts.values() if start < bounds[0][1]}:
            first_records = _read(transport, topic, {0: start}, bounds).get(0, [])
            read |= {partition: first_records for partition, at in starts.items() if at == start}
    for partition, (first, end) in sorted(parts.items()):
        oldest = read.get(partition, [])[:1]
        records = end - oldest[0].offset if oldest else 0
        since = oldest[0].timestamp_ms / _MILLISECONDS if oldest else None
        yield Unread(partition, committed[partition], first, end, records, since)


def _newest(transport: Transport, topic: str) -> float | None:
    """Return the time of the newest record of a topic, in seconds."""
    bounds = transport.bounds(topic)
    starts = {p: max(first, end - _TAIL_OFFSETS) for p, (first, end) in bounds.items() if end > first}
    times = [record.timestamp_ms for records in _read(transport, topic, starts, bounds).values() for record in records]
    return max(times) / _MILLISECONDS if times else None


def _read(
    transport: Transport, topic: str, starts: Mapping[int, int], bounds: Mapping[int, tuple[int, int]]
) -> dict[int, list[Record]]:
    """Return records of each partition from its start on, at least one if there is one before the end."""
    records: dict[int, list[Record]] = {}
    if not starts:
        return records
    with closing(transport.reader(topic)) as reader:
        reader.follow(starts)
        deadline = time.monotonic() + _WAIT_SECONDS
        while waiting := {p for p, at in reader.positions().items() if at < bounds[p][1] and p not in records}:
            if time.monotonic() > deadline:
                raise UnreachableError(f"{topic} was not read in {_WAIT_SECONDS:g} s; see whether the broker is up")
            reader.hold(starts.keys() - waiting)
            for record in reader.poll(0.1, _RECORDS_MAX, _BYTES_MAX):
                records.setdefault(record.partition, []).append(record)
    return records


def _values(role: Role, now: float) -> dict[str, Any]:
    slowest = role.slowest
    return {
        **asdict(role),
        "lag_records": role.records,
        "lag_seconds": None if slowest is None or slowest.since is None else round(max(0.0, now - slowest.since), 3),
    }


def _table(names: Names, roles: Sequence[Role], held: Role | None, now: float) -> Table:
    title = f"generation {names.generation}"
    if held is not None and held.slowest is not None and held.slowest.since is not None:
        title += f"; all is decided up to {time_text(held.slowest.since)}, held back by {held.role}"
    rows = [
        (role.role, str(role.members), f"{role.topic} ({len(role.partitions)})", f"{role.records:,}",
         _ago(None if role.slowest is None else role.slowest.since, now), _ago(role.last_output, now))
        for role in roles
    ]  # fmt: skip
    headings = ("role", "members", "reads", "unread", "oldest unread", "last output")
    return table_of(headings, rows, justify="left", title=title, title_justify="left")


def _limit_tables(limits: Mapping[str, Any]) -> list[Table]:
    if limits["documents"] is None:
        return []
    pairs = limits["near_pairs"] + limits["missed_pairs"]
    documents = limits["near_documents"] + limits["lone_documents"]
    rows = [
        ("documents with a pair", f"at least {_percent(limits['documents'])}", f"{documents:,}"),
        ("pairs", f"about {_percent(limits['pairs'])}", f"{pairs:,}"),
    ]
    title = "what limits of candidates leave"
    return [table_of(("", "found", "of"), rows, justify="left", title=title, title_justify="left")]


def _percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{100 * fraction:.2f} %"


def _ago(at: float | None, now: float) -> str:
    return "-" if at is None else f"{max(0.0, now - at):,.0f} s ago"
