"""A whole cluster in one process from one seed: signers, matchers, an outside producer, and all failures.

Every schedule keeps these laws, which ``sim_checks`` checks when the cluster is quiet. No committed record of
``documents`` is lost, repeated or changed in ``bands`` or ``documents.dead``. ``candidates`` follows from the log of
``bands`` and keeps the guarantees of DESIGN for the documents.

The workers are the real ones. Before each call of a worker to its transport, other workers may take turns, time may
pass and sessions may end. So the schedule can interrupt a step at every point where the world can change. A crash is an
exception out of a call, or a dropped object. A zombie is an object that the test keeps and calls again after another
worker took its place.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from memory_transport import MemoryTransport
from sim_documents import Feed
from sim_growth import add_shards, end_of, growth_of
from sim_scenario import Crash, Place, Scenario
from sim_watched import CRASHES, FAULTS, Counting, Watched, check_fence
from topics_world import TopicsWorld
from verdict_oracle import limits_of

from neardup.pairs.json_lines import Fields
from neardup_workers.doing.stages.filtering.filter import FilterPlan, FilterWorker
from neardup_workers.doing.stages.matching.matcher import MatchWorker
from neardup_workers.doing.stages.matching.plan import MatchPlan
from neardup_workers.doing.stages.matching.windows import decode_window
from neardup_workers.doing.stages.member import WorkerMember
from neardup_workers.doing.stages.sign_worker import SignWorker
from neardup_workers.doing.stages.signer import SignPlan
from neardup_workers.doing.stages.verdicts.intake import LinkPlan
from neardup_workers.doing.stages.verdicts.linker import LinkWorker
from neardup_workers.outside.topics.messages import Envelope
from neardup_workers.outside.topics.names import Names, generation, topic_names
from neardup_workers.outside.topics.signed import offset_and_row
from neardup_workers.outside.transport.protocol import FencedError, OutcomeUnknownError, Record, UnreachableError

KINDS = SIGNERS, MATCHERS, LINKERS, FILTERS = "signers", "matchers", "linkers", "filters"
START = "earliest"
DOCUMENTS_PARTITIONS_MAX = 6
# Rounds of one second each until the cluster must be quiet; sessions and transactions end within 15.
ROUNDS_MAX, QUIET_ROUNDS = 600, 40


class Cluster(TopicsWorld):
    """Topics, places and their workers; ``Simulation`` and the tests of failures as data act on it."""

    def __init__(self, scenario: Scenario, seed: object = 0) -> None:
        self.scenario, self.config = scenario, scenario.config
        self.rng = random.Random(f"{seed}/schedule")
        shards = scenario.shards
        self.topics = topic_names("", generation(self.config.signing_fingerprint, shards))
        most = DOCUMENTS_PARTITIONS_MAX
        counts = scenario.documents_partitions, 2, 1, 3, shards, most, 2, 1, 1, most, 1
        super().__init__(dict(zip(self.topics, counts, strict=True)))
        with_verdicts = scenario.linkers > 0
        self.generation = generation(self.config.signing_fingerprint, shards)
        envelope = Envelope(self.config.scheme, self.generation)
        skew_seconds, step_bytes = scenario.habits.skew_seconds, scenario.step_bytes
        fields = Fields(kind=self.config.plan.kind, rank="timestamp", source="source")
        self.sign_plan = SignPlan(
            self.config, fields, self.topics, 2, skew_seconds, START, step_bytes,
            verdicts=with_verdicts, representative=scenario.representative, canaries_every=scenario.canaries_every,
        )  # fmt: skip
        self.match_plan = MatchPlan(
            self.config, self.topics, shards, 3, envelope, START, False, LINKERS, step_bytes, scenario.step_pairs,
            scenario.canaries_every > 0, with_verdicts, scenario.standbys,
        )  # fmt: skip
        self.link_plan = LinkPlan(
            self.config, self.topics, shards, 2, limits_of(self.config), START, False, MATCHERS, step_bytes,
            scenario.undecided_max, scenario.messages_bytes, standbys=scenario.standbys,
        )  # fmt: skip
        self.filter_plan = FilterPlan(
            Names(self.topics, self.generation, ""), scenario.forward, START, False, step_bytes
        )
        self.feed = Feed(random.Random(f"{seed}/documents"), self.memory, self.topics.documents, scenario.habits)
        self.places: list[Place] = []
        self.zombies: list[Place] = []
        self.events: Counter[str] = Counter()
        self.observer, self.of_linkers = Counting(), Counting()
        self.signed: dict[int, list[Record]] = {0: []}
        self.links: dict[int, list[Record]] = defaultdict(list)
        self._read: Counter[tuple[str, int]] = Counter()
        self._acted = 0

    def between(self, place: Place, call: str) -> None:
        """Hook before a call of that worker; does nothing here."""

    def add(self, kind: str) -> Place:
        """Add a place with its own name; its worker starts in its first turn."""
        self.events[f"{kind} ever"] += 1
        place = Place(kind, f"{kind}-{self.events[f'{kind} ever']}", self.scenario.static)
        self.places.append(place)
        return place

    def start(self, place: Place) -> None:
        """Start a new process in a place; raises ``UnreachableError`` as the start of a worker does."""
        transport: Any = Watched(MemoryTransport(self.memory), lambda call: self.between(place, call))
        instance = place.name if place.static else ""
        topics = {SIGNERS: self.topics.documents, MATCHERS: self.topics.links, LINKERS: self.topics.signed}
        topics[FILTERS] = self.topics.verdicts
        topic = topics[place.kind]
        place.producer = transport.producer(place.name)
        place.consumer = transport.consumer(topic, place.kind, instance)
        producer, consumer = (
            Watched(x, lambda call: self.between(place, call)) for x in (place.producer, place.consumer)
        )
        observer = self.of_linkers if place.kind == LINKERS else self.observer
        member = WorkerMember(transport, consumer, producer, observer, self.clock)
        if place.kind == SIGNERS:
            place.worker = SignWorker(member, self.sign_plan, self.clock)
        elif place.kind == LINKERS:
            self.events["linkers restored"] += bool(self.memory.offsets(LINKERS, self.topics.verdicts))
            place.worker = LinkWorker(member, self.link_plan)
        elif place.kind == FILTERS:
            place.worker = FilterWorker(member, self.filter_plan)
        else:
            self.events["tables kept"] += len(place.kept)
            ends = self.memory.group(MATCHERS, topic).offsets.values()
            self.events["starts inside a message"] += any(decode_window(end.metadata).row for end in ends)
            place.worker = MatchWorker(member, self.match_plan)
            place.worker.inherit(place.kept)
            place.kept = {}

    def turn(self, place: Place, records_max: int = 500, trims: bool = False) -> int:
        """Take one turn of a worker as its process does, or trim; return the number of records read."""
        try:
            if place.worker is None:
                self.start(place)
            assert place.worker is not None
            if trims:
                place.worker.trim()  # type: ignore[union-attr]
                return 0
            taken = place.worker.turn(0.0, records_max)
        except Crash:
            self.crash(place)
            self.events["crash in a call"] += 1
        except UnreachableError:
            self.events["unreachable"] += 1
        except (FencedError, OutcomeUnknownError) as error:
            self.events[type(error).__name__ + (" of a zombie" if place.abandoned else "")] += 1
            kept = place.worker.hand_over() if isinstance(place.worker, MatchWorker) else {}
            if self.rng.random() < 0.5:
                place.producer.close()
                place.consumer.close()
            self.crash(place)
            place.kept = kept
            place.paused_until = self._acted + self.rng.choice([0, 0, 20, 60])  # others may take turns
        else:
            place.taken += taken
            check_fence(place.worker, self.memory)
            tables = getattr(place.worker, "tables", {}).values()
            self.events["ends inside a message"] += any(offset_and_row(table.position)[1] for table in tables)
            return taken
        return 0

    def crash(self, place: Place) -> None:
        """End the process; it closes nothing."""
        place.worker, place.kept = None, {}
        self.zombies = [zombie for zombie in self.zombies if zombie is not place]

    def abandon(self, place: Place) -> None:
        """Free the place of a worker that counts as dead; the worker lives on as a zombie."""
        if place.worker is not None:
            zombie = Place(place.kind, place.name, place.static, place.worker, place.consumer, place.producer)
            zombie.abandoned = True
            self.zombies.append(zombie)
            place.worker = None

    def leave(self, place: Place) -> None:
        """Stop gracefully and permanently."""
        if place.worker is not None:
            place.producer.close()
            place.consumer.close()
        self.places.remove(place)

    def record(self) -> None:
        """Save the committed records of ``signed`` and ``links`` before they are trimmed."""
        topics = self.topics
        for topic, logs in ((topics.signed, self.signed), (topics.links, self.links)):
            for partition in range(self.memory.partitions(topic)):
                records, position = self.memory.log(topic, partition).read(self._read[topic, partition], 1 << 30)
                logs[partition] += records
                self._read[topic, partition] = position

    def trim(self, place: Place) -> None:
        """Trim as a matcher and a linker do at intervals."""
        self.record()
        if isinstance(place.worker, MatchWorker | LinkWorker):
            self.turn(place, trims=True)

    def settle(self, records_max: int = 500) -> None:
        """Give every worker turns until no offset has moved for longer than session plus transaction timeout."""
        self.memory.clear_faults()
        self.memory.reachable = True
        for zombie in list(self.zombies):
            self.turn(zombie)
        self.zombies.clear()
        quiet = 0
        for _ in range(ROUNDS_MAX):
            moved = sum(self.turn(place, records_max) for place in list(self.places))
            for place in self.places:
                # The transport in memory does not report a takeover of an instance; the real client raises FencedError
                # after a while.
                if place.worker is not None and place.consumer._is_replaced:
                    self.crash(place)
            self.memory.advance(1.0)
            quiet = 0 if moved or not self.is_done() else quiet + 1
            if quiet == QUIET_ROUNDS:
                self.record()
                return
        raise AssertionError(f"stuck: {self.standing()}")

    def is_done(self) -> bool:
        """Whether the groups have read all committed records of ``documents`` and ``signed``."""
        return all(offset >= end for offset, end in self.standing().values())

    def standing(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Committed offset and end of the last record of each partition that a group reads."""
        out, topics, shards = {}, self.topics, growth_of(self).shards
        read = [(SIGNERS, topics.documents, topics.documents), (MATCHERS, topics.links, topics.signed)]
        read += [(LINKERS, topics.signed, topics.signed)] if self.scenario.linkers else []
        read += [(FILTERS, topics.verdicts, topics.verdicts)] if self.scenario.filters else []
        ends: dict[tuple[str, int], int] = {}
        for name, shared, topic in read:
            offsets = self.memory.group(name, shared).offsets
            for partition in range(shards if name == MATCHERS else self.memory.partitions(shared)):
                place = topic, partition if shared == topic else 0
                if place not in ends:
                    ends[place] = end_of(self, *place)
                out[name, partition] = (offsets[partition].offset if partition in offsets else -1, ends[place])
        return out

    @contextmanager
    def limits(self) -> Iterator[None]:
        """Small messages and short stretches, so that small runs have many of both."""
        with (
            mock.patch("neardup_workers.outside.topics.signed.BYTES_MAX", self.scenario.message_bytes),
            mock.patch("memory_transport.READ_RECORDS", self.scenario.stretch_records),
            mock.patch("neardup_workers.doing.stages.matching.matcher._STEP_PAIRS_MIN", 1),
            mock.patch("neardup_workers.doing.stages.matching.matcher._STEP_SECONDS_MAX", self.scenario.step_seconds),
            mock.patch("neardup_workers.doing.stages.verdicts.held._STEP_ROWS_MAX", self.scenario.link_rows),
            mock.patch("neardup_workers.doing.stages.verdicts.held._STEP_PAIRS_MAX", self.scenario.link_pairs),
            mock.patch("neardup_workers.doing.stages.verdicts.sources._STORIES", self.scenario.sources_stories),
            mock.patch("neardup_workers.outside.topics.verdicts.RUN_BYTES_MAX", self.scenario.message_bytes),
            mock.patch("neardup_workers.doing.stages.matching.standbys._REFRESH_SECONDS", 0.0),
            mock.patch("neardup_workers.doing.stages.verdicts.beginning.standby._REFRESH_SECONDS", 0.0),
            mock.patch("neardup_workers.doing.stages.verdicts.beginning.standby._AGAIN_SECONDS", 1.0),
            mock.patch("neardup_workers.doing.stages.matching.matcher.TRAIL_BYTES", self.scenario.trail_bytes),
        ):
            yield


class Simulation(Cluster):
    """A cluster and a schedule; one seed determines both."""

    def __init__(self, scenario: Scenario, seed: object, trace: Callable[[str], None] | None = None) -> None:
        super().__init__(scenario, seed)
        self._trace = trace
        self._stack: list[Place] = []
        self._away_until = 0
        for kind in (one for one in KINDS for _ in range(getattr(scenario, one))):
            self.add(kind)

    def run(self) -> None:
        """Run the whole schedule, then wait for quiet."""
        with self.limits():
            while self._acted < self.scenario.actions:
                self.act()
            self.settle()

    def between(self, place: Place, call: str) -> None:
        """Let other workers run first with some probability, as if the process had been stopped before the call."""
        if self._acted >= self.scenario.actions or len(self._stack) > 2:
            return
        if self.rng.random() < self.scenario.interleaved:
            self._tell(f"{place.name} stands before {call}")
            self.events["interleaved"] += 1
            for _ in range(self.rng.randint(1, 8)):
                self.act()

    def act(self) -> None:
        """Take one action."""
        self._acted += 1
        if self._acted == self._away_until:
            self.memory.reachable = True
        name = self.rng.choices(list(self.scenario.weights), list(self.scenario.weights.values()))[0]
        self.events[name] += 1
        getattr(self, f"_{name}")()

    def _tell(self, what: str) -> None:
        if self._trace is not None:
            self._trace(f"{self._acted:4} {self.memory.now_seconds - 1.6e9:8.1f}  {'  ' * len(self._stack)}{what}")

    def _some(
        self, kinds: tuple[str, ...] = (SIGNERS, MATCHERS, LINKERS, FILTERS), zombies: bool = False
    ) -> Place | None:
        every = [*self.places, *self.zombies] if zombies else self.places
        free = [p for p in every if p not in self._stack and p.kind in kinds and p.paused_until <= self._acted]
        return self.rng.choice(free) if free else None

    def _turn(self) -> None:
        place = self._some(zombies=True)
        if place is None:
            return
        records_max = self.rng.choice([1, 3, 10, 100])
        self._tell(f"turn of {place.name}{' (zombie)' if place.abandoned else ''}, {records_max}")
        self._stack.append(place)
        taken = self.turn(place, records_max)
        self._stack.pop()
        self._tell(f"... {place.name} took {taken}{'' if place.worker else ', and is gone'}")

    def _produce(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            truth = self.feed.send()
            self._tell(f"{truth}")

    def _advance(self) -> None:
        self.memory.advance(self.rng.choice([0.1, 0.5, 2.0]))

    def _sleep(self) -> None:
        seconds = self.rng.choice([6.0, 12.0, 20.0, 60.0])
        self._tell(f"{seconds} s pass")
        self.memory.advance(seconds)

    def _crash(self) -> None:
        place = self._some()
        if place is not None:
            self._tell(f"crash of {place.name}")
            self.crash(place)
            place.paused_until = self._acted + self.rng.choice([0, 5, 40])

    def _crash_in(self) -> None:
        call = self.rng.choice(CRASHES)
        self._tell(f"the next {call} crashes")
        self.memory.fail_next(call, raises=Crash())

    def _fault(self) -> None:
        call, times = self.rng.choice(FAULTS), self.rng.choice([1, 1, 1, 3])
        self._tell(f"the next {call} fails, {times} times")
        self.memory.fail_next(call, times=times)

    def _pause(self) -> None:
        place = self._some()
        if place is not None:
            place.paused_until = self._acted + self.rng.choice([5, 20, 60])
            self._tell(f"{place.name} sleeps until {place.paused_until}")

    def _zombie(self) -> None:
        place = self._some()
        if place is not None:
            self._tell(f"{place.name} becomes a zombie")
            self.abandon(place)

    def _join(self) -> None:
        kind = self.rng.choice([kind for kind in KINDS if getattr(self.scenario, kind)])
        if sum(place.kind == kind for place in self.places) < 4:
            self._tell(f"{self.add(kind).name} joins")

    def _leave(self) -> None:
        place = self._some()
        if place is not None and sum(other.kind == place.kind for other in self.places) > 1:
            self._tell(f"{place.name} leaves")
            self.leave(place)

    def _cut_short(self) -> None:
        place = self._some((MATCHERS, LINKERS), zombies=True)
        owners = [p for p in (*self.places, *self.zombies) if 0 in getattr(p.worker, "tables", {})]
        owners = [p for p in owners if p not in self._stack and p.paused_until <= self._acted]
        if owners and place not in owners and place is not None and place.kind == MATCHERS:
            place = self.rng.choice(owners)  # others do not trim
        if place is not None:
            self._tell(f"{place.name} trims")
            self._stack.append(place)
            for _ in range(2):  # a trim goes below the least of two rounds
                self.trim(place)
            self._stack.pop()

    def _grow(self) -> None:
        if self.memory.partitions(self.topics.documents) < DOCUMENTS_PARTITIONS_MAX:
            self._tell("documents has one more partition")
            self.memory.add_partitions(self.topics.documents, 1)

    def _more_shards(self) -> None:
        self._stack.append(Place("administrator", "administrator", static=False))
        add_shards(self, growth_of(self).shards + self.rng.choice([1, 2, 6]))
        self._stack.pop()

    def _broker_away(self) -> None:
        self._tell("the broker goes away")
        self.memory.reachable = False
        self._away_until = self._acted + self.rng.randint(1, 30)
