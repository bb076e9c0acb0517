"""The matcher: rows of ``signed`` in, pairs out, one table for each of its shards, one transaction a step.

The group of matchers owns the partitions of ``links``: partition s stands for shard s. The committed offset of
partition s is the offset in ``signed`` up to which shard s has published; its metadata names the beginning of the
window. Every member reads ``signed`` whole, without the group, through two cursors (``cursors``).

A shard goes through these states; only this loop changes them:

- *unused*: assigned, and no shard yet: ``links`` has more partitions than there are shards. When shard 0 passes a
  control row, its step commits the first offsets of the shards that the row adds; until then they wait.
- *waiting*: assigned, without a position. The worker reads the committed offset. If the read fails (a predecessor's
  transaction is pending, the broker is away), the next turn repeats it.
- *restoring*: the worker applies the log from the beginning of the window, or from a kept table on, to the committed
  offset without publishing, some messages at a time between polls. So the other shards continue.
- *running*: every step publishes its pairs and commits its offset. A shard behind the running cursor reads through the
  other cursor, until it has caught up.
- *revoked*: its table is dropped, in any state, unless this member stands by for the shard from now on.

A step, and the effect of a crash after each part:

1. ``poll``, for the membership; read messages, unless some of those at hand are not passed yet.
2. Tables apply rows, each in an open step with a journal, the shard that is furthest behind first, until messages and
   results reach ``step_bytes_max``, the pairs ``step_pairs_max`` or the time half a second, possibly inside a message.
   The remaining rows are for the next steps.
3. ``transact`` publishes pairs and offsets. Before it, a crash has no effect: the next owner restores to the last one.
4. The tables commit, and look up canaries. A crash after 3 loses only memory.

If the transaction is known to have failed, the tables undo the step, the rows remain, and the next step has half as
many pairs, so that a slow broker can accept it in time. If the outcome is unknown or the member was fenced, the worker
restarts, and its successor inherits the tables with their open steps. A table continues if its shard is assigned again
at once and the table is at the committed offset or behind it, with or without its open step. So does the table of a
shard that the member stands by for (``standbys``). Every other table is dropped, and restored from the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from neardup.documents.ids import ID_BYTES_MAX
from neardup.pairs.pipeline import SLICE_CANDIDATES
from neardup.pairs.shards import Shard
from neardup_workers.doing.stages.matching.canaries import ShardLooks
from neardup_workers.doing.stages.matching.cursors import TRAIL_BYTES, Cursor, SeenRows
from neardup_workers.doing.stages.matching.plan import Beginnings, MatchPlan, Restore, check_gap
from neardup_workers.doing.stages.matching.reports import (
    Recall,
    link_messages,
    pair_messages,
    report_step,
    report_tables,
)
from neardup_workers.doing.stages.matching.shard_table import Applied, ShardTable
from neardup_workers.doing.stages.matching.standbys import Standbys
from neardup_workers.doing.stages.matching.trims import Trims
from neardup_workers.doing.stages.matching.windows import Window, decode_window, encode_window
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.doing.stages.starts import check_end
from neardup_workers.outside.telemetry.observer import stage
from neardup_workers.outside.topics.signed import PARTITION, offset_and_row, position_of
from neardup_workers.outside.transport.assignment import Offer
from neardup_workers.outside.transport.protocol import (
    AbortedError,
    Committed,
    FencedError,
    Message,
    OffsetGoneError,
    Polled,
    UnreachableError,
)

# A step ends after this time, whatever each document meets: verdicts and the group wait for it. A candidate leads to a
# link of some 20 bytes.
_STEP_SECONDS_MAX, _STEP_CANDIDATES_MAX = 0.5, 1 << 20
# An abort halves the pairs of the next step, down to this, and each commit adds a quarter, up to the setting.
_STEP_PAIRS_MIN = 256
# Messages of a turn that restores, in bytes: about a second for some shards.
_RESTORE_BYTES = 8 << 20


class MatchWorker:
    """The loop of a matcher; ``turn`` runs it once. See the module for the states."""

    def __init__(self, member: WorkerMember, plan: MatchPlan) -> None:
        self.member, self.plan, self.observer = member, plan, member.observer
        self.restoring: dict[int, Restore] = {}
        self.tables: dict[int, ShardTable] = {}
        self.kept: dict[int, ShardTable] = {}  # of the previous worker, until the first assignment
        self.pairs_max = plan.step_pairs_max  # of the next step
        trails, topic = (TRAIL_BYTES if plan.standbys else 0, 0), plan.topics.signed
        self._seen = SeenRows(plan.config)
        readers = [(member.transport.reader(topic), size) for size in trails]
        self.cursor, self.behind = (Cursor(reader, plan.config, size, self._seen) for reader, size in readers)
        self.standbys = Standbys(member, plan, self.cursor)
        self.canaries = ShardLooks(plan.config, member.observer, on=plan.canaries)
        self.recall = Recall(plan.config, member.observer, self.canaries)
        self.beginnings = Beginnings(member, plan)
        self._late: set[int] = set()  # shards of tables that read through ``behind``
        self._trims = Trims(member, plan)

    @property
    def ready(self) -> bool:
        """Whether every assigned shard is running, unless it is unused."""
        return not self.member.waiting and not self.restoring

    @property
    def running(self) -> set[int]:
        """The shards whose rows are matched."""
        return set(self.tables)

    def restore_progress(self) -> tuple[int, int]:
        """Return the messages that restores have applied, once for each shard, and all of them."""
        progress = [restore.progress for restore in self.restoring.values()]
        return sum(done for done, _ in progress), sum(messages for _, messages in progress)

    def waiting_records(self) -> dict[int, int]:
        """Return the number of stretches that are read and not passed, by shard; shards without any are absent."""
        counts = {shard: sum(1 for _ in self._cursor(shard).ahead(t.position)) for shard, t in self.tables.items()}
        return {shard: count for shard, count in counts.items() if count}

    def positions(self) -> dict[int, int]:
        """Return the offset in ``signed`` up to which each running shard has read."""
        return {shard: self._cursor(shard).offset for shard in self.tables}

    def lag(self) -> dict[int, int]:
        """Return messages of ``signed`` between each running shard and the end, as far as the reader knows."""
        return {shard: self._cursor(shard).lag(table.position) for shard, table in self.tables.items()}

    def turn(self, timeout_seconds: float, records_max: int) -> int:
        """Poll, restore some messages, match one step; returns the number of messages that were read.

        Raises ``FencedError`` and ``OutcomeUnknownError`` (restart), ``UnreachableError`` (call it again),
        ``WireError``, ``ConfigError``, ``OffsetGoneError`` (stop: a restart does not help).
        """
        tables = frozenset([*self.standbys.ready, *self.tables, *self.kept])
        self.member.consumer.offer(Offer(self.plan.standbys, tables))
        timeout = 0.0 if self.restoring or self.standbys.is_busy else timeout_seconds
        with stage(self.observer, "poll"):
            polled = self.member.poll(timeout, 1, at_hand=bool(self.tables))
        self._follow(polled)
        self.member.begin(self._assign)
        read = self._read(timeout_seconds, records_max)
        if self.tables and not polled.is_joining:  # else the commit would be refused
            self._step()
        self._move()
        self.standbys.turn(records_max)
        return read

    def _follow(self, polled: Polled) -> None:
        """Follow the changes of the group: tables of shards that moved stay if this member stands by for them."""
        for shard in polled.revoked:
            self.beginnings.unused.discard(shard)
            self._late.discard(shard)
            restore = self.restoring.pop(shard, None)
            if (table := self.tables.pop(shard, restore and restore.table)) is not None:
                self.kept[shard] = table
        self.member.waiting |= self.beginnings.wake()
        self.kept |= self.standbys.take(polled.assigned)
        if self.member.joined:
            self.standbys.follow(polled.standbys, self.kept)
            self.kept = {shard: table for shard, table in self.kept.items() if shard in self.member.waiting}

    def close(self) -> None:
        """Free the readers; never raises."""
        self.standbys.close()
        self.cursor.reader.close()
        self.behind.reader.close()

    def _cursor(self, shard: int) -> Cursor:
        return self.behind if shard in self._late else self.cursor

    def _read(self, timeout_seconds: float, records_max: int) -> int:
        """Read through both cursors, and restore; returns the number of messages."""
        read = 0
        if self.restoring or self._late:
            with stage(self.observer, "restore"):
                bytes_max = min(_RESTORE_BYTES, self.plan.step_bytes_max)
                read += self._read_by(self.behind, 0.0, records_max, bytes_max)
                self._restore()
        if self.tables.keys() - self._late:
            with stage(self.observer, "poll"):
                is_idle = not (self.restoring or self._late or self.member.waiting or self.standbys.is_busy)
                timeout = timeout_seconds if is_idle else 0.0
                read += self._read_by(self.cursor, timeout, records_max, self.plan.step_bytes_max)
        return read

    def _read_by(self, cursor: Cursor, timeout_seconds: float, records_max: int, bytes_max: int) -> int:
        """Read through a cursor; raises ``FencedError`` if others have passed and trimmed its messages: this member was
        suspended for longer than its session, and does not know yet that its shards have moved."""
        try:
            records = cursor.read(timeout_seconds, records_max, bytes_max)
        except OffsetGoneError as gone:
            for shard, table in self.tables.items():
                committed = self.member.consumer.committed(shard)
                if committed is not None and committed.offset > offset_and_row(table.position)[0]:
                    raise FencedError(
                        f"others have matched shard {shard} up to offset {committed.offset} of "
                        f"{self.plan.topics.signed}: restart from the committed offsets"
                    ) from gone
            if cursor is self.behind and self.restoring:
                # The log was trimmed during the restore. If another member trimmed it while this member was suspended,
                # the next poll revokes the shards. If not, the offsets are read again, and a gap is reported.
                self.member.waiting.update(self.restoring)
                self.restoring.clear()
                return 0
            raise
        self.observer.count("bytes", sum(len(record.value or b"") for record in records))
        return len(records)

    def _assign(self, shard: int) -> bool:
        """Read the committed offset, and begin to restore the window that its metadata names; returns whether it is
        known, or the shard is unused.

        One under other settings of matching is claimed at once for the whole log, so that no trim of shard 0 drops
        what a longer window needs, and the whole log is restored.
        """
        plan, fingerprint = self.plan, self.plan.config.matching_fingerprint
        first = self._first()
        committed = self.beginnings.committed(shard)
        if committed is None:
            return shard in self.beginnings.unused
        check_end(
            self.member.transport, plan.topics.signed, self.member.membership.group, {PARTITION: committed.offset}
        )
        committed = self.beginnings.linked(shard, committed)
        kept, window, end = self.kept.pop(shard, None), decode_window(committed.metadata), committed.offset
        if kept is not None and kept.settle(committed) and offset_and_row(kept.position)[0] >= min(first, end):
            self._replay(shard, kept, position_of(end, window.row), "kept")
            return True
        if window.fingerprint != fingerprint:
            start, published = min(first, end), window.published
            window = Window(
                start, None, fingerprint, window.growth, window.row, published=published, counted=window.counted
            )
            claim = Committed(end, encode_window(window))
            self.member.transact([], plan.topics.links, {shard: claim})
            first = self._first()
            window = window._replace(start=max(window.start, min(first, end)))
        if window.start < first:
            check_gap(self.plan, shard, window.start, first)
            window = window.behind(first)._replace(row=window.row if first <= end else 0)
            if first > end:  # the gap may have a control row, which others have passed
                growth = self.beginnings.growth()
                window, end = window._replace(growth=growth.until(position_of(first))), first
        table = ShardTable(plan.config, Shard(shard, plan.shards), window)
        self._replay(shard, table, position_of(end, window.row), "restored")
        return True

    def _replay(self, shard: int, table: ShardTable, end: int, how: str) -> None:
        """Apply the rows between a table and the committed position; run it if there are none."""
        self.observer.count("takeovers", 1, how)
        if table.position == end:
            self._run(shard, table)
            return
        self._join_behind(table)
        self.restoring[shard] = Restore(table, offset_and_row(table.position)[0], end)

    def _first(self) -> int:
        return self.member.transport.bounds(self.plan.topics.signed)[PARTITION][0]

    def _join_behind(self, table: ShardTable) -> None:
        """Let a table read through the cursor ``behind``, which goes back to its position if it is ahead of it."""
        others = [restore.table for restore in self.restoring.values()]
        others += [self.tables[shard] for shard in self._late]
        if not others or table.position < self.behind.passed:
            last = min([table, *others], key=lambda one: one.position)
            self.behind.follow(last.position, last.time_before)

    def _restore(self) -> None:
        """Apply the messages at hand to the tables that are restored; a table at its end begins to run."""
        for shard, restore in list(self.restoring.items()):
            table, _, end = restore
            documents = table.replay(self.behind.ahead(table.position), end, self.behind.offset)
            self.observer.count("restored_documents", documents)
            if table.position < end:
                done, messages = restore.progress
                self.observer.set("restore_progress_ratio", done / max(1, messages), str(shard))
            else:
                del self.restoring[shard]
                table.increments()  # drop the counts of the restore
                self.canaries.restored(table, self.behind.hand)
                self._run(shard, table)

    def _run(self, shard: int, table: ShardTable) -> None:
        """Match the rows of a shard from the position of its table on."""
        if not self.tables.keys() - self._late:
            self.cursor.follow(table.position, table.time_before)
        elif table.position < self.cursor.passed:
            self._join_behind(table)
            self._late.add(shard)
        self.tables[shard] = table
        self.observer.set("restore_progress_ratio", 1.0, str(shard))

    def _move(self) -> None:
        """Drop what all shards of a cursor have passed, and move shards that have caught up to the running ones."""
        for shard in sorted(self._late):
            if not self.tables.keys() - self._late:
                self.cursor.follow(self.tables[shard].position, self.tables[shard].time_before)
            if self.tables[shard].position >= self.cursor.passed:
                self._late.discard(shard)
        self.cursor.pass_by(self.tables[shard].position for shard in self.tables.keys() - self._late)
        restoring = [restore.table.position for restore in self.restoring.values()]
        self.behind.pass_by([*restoring, *(self.tables[shard].position for shard in self._late)])

    def hand_over(self) -> dict[int, ShardTable]:
        """Return the tables for the next worker; this worker must not be used again."""
        return {**self.kept, **self.standbys.tables, **self.tables}

    def inherit(self, kept: Mapping[int, ShardTable]) -> None:
        """Accept the tables of the previous worker; call it before the first turn."""
        self.kept = dict(kept)

    def _step(self) -> None:
        """Match as many rows as a step holds, and publish. If the step is aborted, the tables are unchanged."""
        plan = self.plan
        messages: list[Message] = []
        began: dict[int, int] = {}  # shard -> its position before the step
        done: list[tuple[int, Applied]] = []
        new: list[tuple[int, Applied]] = []  # what is not in candidates yet
        size, candidates, at = 0, 0, self.member.clock()
        with stage(self.observer, "match"):
            for shard, applied, is_new in self._applied(began):
                done.append((shard, applied))
                new += [(shard, applied)] if is_new else []
                led_to = pair_messages(applied, shard, plan) if is_new else []
                messages += led_to
                size += sum(len(message.value or b"") for message in led_to)
                candidates += applied.candidates
                if size >= plan.step_bytes_max or len(messages) >= self.pairs_max or candidates >= _STEP_CANDIDATES_MAX:
                    break
                if not 0 <= self.member.clock() - at < _STEP_SECONDS_MAX:  # nor after a clock that goes back
                    break
        moved = {shard: first for shard, first in began.items() if self.tables[shard].position > first}
        if not moved:
            return
        progress = {shard: (first, self.tables[shard].position) for shard, first in moved.items()}
        links = list(link_messages(done, progress, plan.config, plan.topics.links)) if plan.verdicts else []
        try:
            offsets = {shard: self.tables[shard].committed() for shard in moved}
            offsets |= self.beginnings.born(self.tables.get(0))
            self.member.transact(messages + links, plan.topics.links, offsets)
        except (AbortedError, UnreachableError):
            for shard in began:
                self.tables[shard].undo()
            self.member.aborted_in_row += 1
            self.pairs_max = max(_STEP_PAIRS_MIN, min(self.pairs_max, len(messages)) // 2)
            return
        self.member.aborted_in_row = 0
        self.pairs_max = min(plan.step_pairs_max, self.pairs_max * 5 // 4)
        for shard in began:
            self.tables[shard].commit()
        for shard, first in moved.items():
            table = self.tables[shard]
            self.canaries.look(table, max(first, table.published), self._cursor(shard).hand)
        self.recall.count(new)
        self._seen.grow(table.matcher.table for table in self.tables.values())
        report_step(self.observer, self.member.clock(), [self.tables[shard] for shard in moved], new, len(messages))

    def _applied(self, began: dict[int, int]) -> Iterator[tuple[int, Applied, bool]]:
        """Apply the stretches at hand to the tables, slice by slice on demand; yields the result of each slice, and
        whether its pairs are to be published.

        ``began`` gets the position of each table before its first row.
        """
        # A pair holds two ids, one of them also as its key: so a slice of pairs stays within the bytes of a step.
        fitting = self.plan.step_bytes_max // (4 * ID_BYTES_MAX)
        candidates_max = max(1, min(SLICE_CANDIDATES, self.pairs_max, fitting))
        for shard in sorted(self.tables, key=lambda shard: (self.tables[shard].position, shard)):
            table = self.tables[shard]
            for stretch in self._cursor(shard).ahead(table.position):
                began.setdefault(shard, table.position)
                if table.position < table.published < stretch.end:
                    behind = stretch.until(table.published)
                    for applied in table.apply(behind, candidates_max=candidates_max, pairs_max=0):
                        yield shard, applied, False
                is_new = table.position >= table.published
                for applied in table.apply(stretch, candidates_max=candidates_max, pairs_max=self.plan.pairs_max):
                    yield shard, applied, is_new

    def observe(self) -> None:
        """Report tables and standbys, the buckets of the newest documents of tables, and what all of them find."""
        self.standbys.observe()
        report_tables(self.observer, self.member.clock(), self.tables, self._seen.memory_bytes)
        self.recall.measure(self.tables.values())

    def trim(self) -> None:
        """Drop the log below the windows of all shards, if this member owns shard 0; raises the errors of a step."""
        if 0 in self.tables:
            offsets = {shard: table.committed() for shard, table in self.tables.items()}
            self._trims.trim(offsets, self.tables[0].growth.shards)
