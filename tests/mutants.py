"""Mutants of the workers, each with the tests that must fail on it: ``python tests/mutants.py``, by hand.

A mutant is one guard of the protocol taken away: a few lines of one file, replaced. The script copies the tree to a
temporary folder, checks that the named tests pass there, then applies one mutant after the other, runs its tests, and
undoes it. A mutant is *killed* when a test fails, *survives* when they pass, and is *lost* when its text stands in
the file no longer, or more than once: then the code has moved on, and the row below must follow it. An error outside
the tests, as of a broker that does not start, kills nothing.

    python tests/mutants.py                       all
    python tests/mutants.py flush settle          those whose names hold one of the words
    python tests/mutants.py --layer simulation    those of one layer

Exit codes: 0 all are killed; 1 one survives or is lost, or a test fails without any mutant.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support" / "models"))
from linker_mutants import LINKER_MUTANTS
from mutant_runs import Mutant, run_mutants

PRODUCER = "workers/neardup_workers/outside/transport/kafka/producer.py"
CONSUMER = "workers/neardup_workers/outside/transport/kafka/consumer.py"
MATCHER = "workers/neardup_workers/doing/stages/matching/matcher.py"
TABLE = "workers/neardup_workers/doing/stages/matching/shard_table.py"
ALIGNMENT = "workers/neardup_workers/doing/stages/alignment.py"
TRANSACTION = "workers/neardup_workers/doing/stages/transaction.py"
INTAKE = "workers/neardup_workers/doing/stages/verdicts/intake.py"
SHELL = "workers/neardup_workers/running/service/shell.py"
STATES = "workers/neardup_workers/running/service/states.py"
WATCHDOG = "workers/neardup_workers/outside/process/watchdog.py"

WATERMARKS = "workers/neardup_workers/doing/stages/verdicts/watermarks.py"
LINK_STATE = "workers/neardup_workers/doing/stages/verdicts/state.py"
LEDGER = "workers/neardup_workers/doing/stages/verdicts/sources.py"
FILTER = "workers/neardup_workers/doing/stages/filtering/filter.py"

SEQUENCES = "tests/simulation/test_verdict_sequences.py"
STORIES = "tests/simulation/stories/test_stories_on_topics.py"
SOURCES = "tests/simulation/stories/test_sources_on_topics.py"
SCHEDULES = "tests/simulation/test_schedules.py"
AS_DATA = "tests/simulation/test_failures_as_data.py"
TURNS = "tests/simulation/test_turns_of_the_world.py"
GROWTH = "tests/simulation/growth/test_growth.py"
CATCH_UP = "tests/simulation/test_catch_up.py"
MATCHERS = "tests/workers/stages/test_matcher.py"
STANDBYS = "tests/workers/stages/test_standbys.py"
ALIGNED = "tests/workers/stages/signing/test_alignment.py"
_SHARDS = "tests/laws/test_shard_laws.py::"
_CASES = ("[one_permutation chars]", "[exact]")
UNION = tuple(f"{_SHARDS}test_shards_find_together_what_one_table_finds{case}" for case in _CASES)
REPEATED = tuple(f"{_SHARDS}test_copies_repeat_no_pair_of_contents{case}" for case in _CASES)
GROWN = tuple(f"{_SHARDS}test_a_growth_repeats_no_pair_of_contents{case}" for case in _CASES)
FILTERED = ("tests/stream/windows/test_seen.py::test_a_filter_forgets_what_a_removal_or_a_version_makes_unsure",)
WAITS = "tests/workers/service/test_shell_waits.py"
STEPS = "tests/workers/stages/test_matcher_steps.py"
STEP = "stream/neardup/window/step.py"
GUARDS = "tests/kafka/transport/test_kafka_guards.py"

MUTANTS = (
    Mutant("a shard adds a foreign document", "table", STEP,
        "        is_own, added = not kind & FOREIGN, items.added[i]\n",
        "        is_own, added = kind >= 0, items.added[i]\n", UNION),
    Mutant("a window bounds a shard instead of the stream", "table", STEP,
        "state[STREAM_ITEMS] - at[0] >= limits.items or state[STREAM_BYTES] - at[1] + size > limits.bytes",
        "state[SLOT_END] - state[OLDEST] >= limits.items or state[LIVE_BYTES] + size > limits.bytes", UNION),
    Mutant("a copy of a document of another shard is looked up", "table", STEP,
        "    walked = (copy == NONE and not kind & COPIED) or limits.ranking\n",
        "    walked = copy == NONE or limits.ranking\n", REPEATED),
    Mutant("a content that has moved to another shard stays in the buckets", "table", STEP,
        "        if options.add and (is_own or hides_held(store, top, options)):\n",
        "        if options.add and is_own:\n", GROWN),
    Mutant("the filter knows what an id removed", "table", "stream/neardup/stories/windows/seen.py",
        " or hashed == id_ or generation <= seen.removed[hashed]:\n",
        " or hashed == id_:\n", FILTERED),
    Mutant("limits of the window are those of a shard", "table", STEP,
        "    if len(store.before):\n        at =",
        "    if len(store.before) < 0:\n        at =", UNION),
    Mutant("a removal in the stream has no effect", "table", STEP,
        "            if not remove(store, items, i, base, journal):\n",
        "            if items.times[i] > 0 and not remove(store, items, i, base, journal):\n", UNION),
    Mutant("a document behind a future one is found after its time", "table", "stream/neardup/window/chains.py",
        "    if other < store.state[STREAM_TIME] - limits.window - limits.lateness:\n",
        "    if other < store.state[STREAM_TIME] - limits.window - limits.lateness - limits.window:\n", UNION),
    Mutant("a linker waits for one shard alone", "simulation", WATERMARKS,
        "        reached = min(self._known)\n",
        "        reached = max(self._known)\n", (SEQUENCES,)),
    Mutant("a restart reads links behind pairs that wait", "simulation", WATERMARKS,
        "            shard: next((held.offset for held in self._held[shard] if held.end > decided), at)\n",
        "            shard: at\n", (SCHEDULES,)),
    Mutant("a pair of a document that has a copy counts", "simulation", LINK_STATE,
        "            kept = is_copy | ~np.isin(later, later[is_copy])\n",
        "            kept = np.ones(len(later), np.bool_)\n", (SEQUENCES,)),
    Mutant("evidence of a living original is not restored", "simulation", LINK_STATE,
        "        self.compared.held.evidence.update(_by_row(kept))\n",
        '        self.compared.held.evidence.update(dict.fromkeys(_by_row(kept), b""))\n', (STORIES,)),
    Mutant("matchers trim what a linker still compares", "simulation",
        "workers/neardup_workers/doing/stages/matching/plan.py",
        "linker.offset, decode_signed_metadata(linker).window])\n",
        "linker.offset])\n", (SEQUENCES,)),
    Mutant("a restart forgets the time of the newest member", "simulation",
        "workers/neardup_workers/doing/stages/verdicts/originals.py",
        "[ID, BEGIN, OLDEST, NEWEST]] = numbers[known]\n",
        "[ID, BEGIN, OLDEST, NEWEST]] = numbers[known][:, [0, 1, 2, 1]]\n", (STORIES,)),
    *LINKER_MUTANTS,
    Mutant("a restart counts verdicts that the topic of sources counts", "simulation", LEDGER,
        "        again = found.numbers >= kept.step\n",
        "        again = found.numbers >= kept.step - 1\n", (SOURCES,)),
    Mutant("a story keeps the record of its second member", "simulation", LEDGER,
        "[one for one in self._written.items() if one[1] != self._shared[one[0]]]",
        "[one for one in self._written.items() if self._shared[one[0]] is None]", (SOURCES,)),
    Mutant("a filter begins a record of verdicts again", "simulation", FILTER,
        "        skipped = lane.metadata.row if not lane.runs and record.offset == lane.offset else 0\n",
        "        skipped = 0\n", ("tests/workers/stages/verdicts/test_filter.py",)),
    Mutant("flush before the offsets is skipped", "simulation", TRANSACTION,
        "            producer.flush()\n",
        "            pass\n", (AS_DATA,)),
    Mutant("a takeover of a table ahead of the commit", "simulation", TABLE,
        "        if not is_same or not start <= self.position <= end:\n",
        "        if not is_same or not start <= self.position:\n", (STANDBYS,)),
    Mutant(
        "a standby goes beyond the commit", "simulation", TABLE,
        "part = stretch if stretch.end <= end else stretch.until(end)", "part = stretch", (STANDBYS, SCHEDULES)),
    Mutant("an open step of a kept table counts as committed", "simulation", TABLE,
        "        if self._open and self.committed() == committed:\n",
        "        if self._open:\n", ("tests/workers/stages/test_shard_table.py", TURNS)),
    Mutant("a partition that moves is given before its owner gives it up", "simulation",
        "workers/neardup_workers/outside/transport/assignment.py",
        "        moving = {one for one in mine if owners.get(one, name) != name}\n",
        "        moving: set[int] = set()\n", ("tests/workers/transport/test_assignment.py",)),
    Mutant("bounds are read after the committed offset", "simulation", MATCHER,
        "        first = self._first()\n"
        "        committed = self.beginnings.committed(shard)\n",
        "        committed = self.beginnings.committed(shard)\n"
        "        first = self._first()\n", (TURNS,)),
    Mutant("the log is trimmed without asking the group", "simulation",
        "workers/neardup_workers/doing/stages/matching/trims.py",
        "            member.transact([], topics.links, offsets)\n",
        "            pass\n", (TURNS,)),
    Mutant("a zombie takes what others trimmed for a gap", "simulation", MATCHER,
        "                if committed is not None and committed.offset > offset_and_row(table.position)[0]:\n",
        "                if False:\n", (TURNS,)),
    Mutant("a restore forgets the oldest slots", "simulation", TABLE,
        "        first = next((mark for mark in self._marks if mark.slot_end > oldest), None)\n",
        "        first = next((mark for mark in self._marks if mark.slot_end > oldest + 3), None)\n", (SCHEDULES,)),
    Mutant("a restore begins one message late", "simulation", MATCHER,
        "        table = ShardTable(plan.config, Shard(shard, plan.shards), window)\n",
        "        table = ShardTable(plan.config, Shard(shard, plan.shards), window._replace(start=window.start + 1))\n",
        (SCHEDULES,)),
    Mutant("a restore does not restore stream time", "simulation", TABLE,
        "            self.matcher.table.set_stream_time(time)\n",
        "            pass\n", (SCHEDULES,)),
    Mutant("a restore forgets the row inside a message", "simulation", TABLE,
        "_replace(row=row, counts=", "_replace(row=0, counts=", (SCHEDULES,)),
    Mutant("a window lacks documents that count for rarity", "simulation", TABLE,
        "counted is not None and first < start", "counted is None",
        ("tests/simulation/stories/test_rarity_on_topics.py",)),
    Mutant("a removal is applied at the end of its message", "simulation",
        "workers/neardup_workers/outside/topics/signed.py",
        "        read = np.flatnonzero(is_document(self.kinds) | (self.kinds == REMOVAL))\n",
        "        read = np.flatnonzero(is_document(self.kinds) | (self.kinds == REMOVAL))\n"
        "        read = read[np.argsort(self.kinds[read] == REMOVAL, kind=\"stable\")]\n",
        ("tests/workers/stages/test_shard_table.py",)),
    Mutant("the log is trimmed above the window of another shard", "simulation",
        "workers/neardup_workers/doing/stages/matching/plan.py",
        "    starts = [decode_window(committed.metadata).start for committed in offsets.values()]\n",
        "    starts = [decode_window(offsets[0].metadata).start]\n",
        (f"{MATCHERS}::test_trimming_keeps_all_that_a_successor_needs",)),
    Mutant("a control row is applied one row late", "simulation", "stream/neardup/pairs/pipeline.py",
        "        settled = shard.settled if shard.grown else 0\n",
        "        if shard.grown and first < rows.batch.size and self.table.slot_end == shard.settled:\n"
        "            before = Shard(shard.number, shard.grown[-1][1])\n"
        "            items.kinds[first] = rows.items_of(before, by_content=True).kinds[first]\n"
        "        settled = shard.settled if shard.grown else 0\n", (GROWTH,)),
    Mutant("the log is trimmed above the first offset of a new shard", "simulation",
        "workers/neardup_workers/doing/stages/matching/plan.py",
        "    starts = [decode_window(committed.metadata).start for committed in offsets.values()]\n",
        "    starts = [decode_window(at.metadata).start for shard, at in offsets.items() if shard < plan.shards]\n",
        (f"{GROWTH}::test_a_trim_keeps_what_new_shards_need",)),
    Mutant("a member skips the rows that its second shard has not passed", "simulation",
        "workers/neardup_workers/doing/stages/matching/cursors.py",
        "        least = min(positions, default=None)\n",
        "        least = max(positions, default=None)\n", ("tests/workers/stages/test_matcher_steps.py",)),
    Mutant("nothing waits at the horizon", "simulation", ALIGNMENT,
        "bisect_right(lane.times, limits.hard)",
        "len(lane.times)", (CATCH_UP,)),
    Mutant("a claim of catch-up counts before it was seen renewed", "twin", ALIGNMENT,
        "seen.claim.is_caught_up and at - seen.changed_at <= CLAIM_SECONDS\n",
        "seen.claim.is_caught_up\n", (ALIGNED,)),
    Mutant("a partition with an open transaction counts as empty", "twin", ALIGNMENT,
        "lane.position == end.written",
        "lane.position >= end.committed", (ALIGNED,)),
    Mutant("an old record passes an empty partition at once", "twin", ALIGNMENT,
        "index if index < len(self.times) and self.times[index] < limits.live_ms else len(self.times)",
        "len(self.times)", (ALIGNED,)),
    Mutant("a record from the future sets the clock", "twin", ALIGNMENT,
        "one.timestamp_ms if one.timestamp_ms <= now_ms else before",
        "one.timestamp_ms", (ALIGNED,)),
    Mutant("records at hand outlive their partition", "twin", ALIGNMENT,
        "        for partition in partitions:\n            self.lanes.pop(partition, None)\n",
        "        for partition in partitions:\n", (ALIGNED,)),
    Mutant("futures are not checked after the flush", "broker", PRODUCER,
        "        if failed:\n",
        "        if False:\n", (GUARDS,)),
    Mutant("the membership is read live instead of noted at the assignment", "broker", CONSUMER,
        "            records, self._notes.membership, tuple(sorted(assigned))",
        "            records, self._notes.live(), tuple(sorted(assigned))", (GUARDS,)),
    Mutant("records polled before their partition moved are not checked", "broker", CONSUMER,
        "        self._check_membership(bool(records))\n",
        "", (GUARDS,)),
    Mutant("records of partitions that went are kept", "broker", CONSUMER,
        "records = [record for record in records if record.partition not in gone]",
        "records = list(records)", (GUARDS,)),
    Mutant("a failed producer is used again", "broker", PRODUCER,
        "        self._stale = True\n        if self._is_fenced(error):\n",
        "        if self._is_fenced(error):\n", (GUARDS,)),
    Mutant("a step of a matcher ends at no time", "deadline", MATCHER,
        "                if not 0 <= self.member.clock() - at < _STEP_SECONDS_MAX:",
        "                if self.member.clock() - at < -1e9:",
        (f"{STEPS}::test_a_step_ends_after_half_a_second_inside_a_message",)),
    Mutant("a step of a linker ends at no pairs", "deadline", WATERMARKS,
        "        if sum(self._pairs) > pairs_max:\n",
        "        if sum(self._pairs) < 0:\n", ("tests/workers/stages/verdicts/test_watermarks.py",)),
    Mutant("what is decided without a step stays held", "deadline", INTAKE,
        "        self.watermarks.settle(state.decided_position(self.position))\n",
        "", (f"{SCHEDULES}::test_failures_lose_repeat_and_falsify_nothing",)),
    *(
        Mutant(name, "deadline", STATES, of, "{}", (WAITS,)) for name, of in {
            "a worker waits for its group without a limit":
                '{} if made.worker.member.joined else {"the worker": 0}',
            "a partition waits for its offset without a limit":
                '{} if member.awaited else {f"partition {partition}": 0 for partition in member.waiting}',
            "a restore reads nothing without a limit":
                '{"the restore": made.restored()[0]} if made.restoring() else {}',
            "a worker whose steps are aborted stays ready":
                '{"the step": 0} if made.worker.member.aborted_in_row else {}',
        }.items()
    ),
    Mutant("a second wait restarts the worker again", "deadline", WATCHDOG,
        "        self._before.add(what)\n",
        "", (WAITS,)),
    Mutant("a wait is too long before its deadline", "deadline", SHELL,
        "        deadline = max(usual, limits.stall_seconds_max)\n",
        "        deadline = limits.stall_seconds_max\n", (WAITS,)),
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(run_mutants(MUTANTS, __doc__.partition("\n")[0]))
