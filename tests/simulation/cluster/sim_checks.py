"""The laws of a quiet cluster; the docstring of each check begins with its law."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import dropwhile

import numpy as np
import orjson
from sim_cluster import MATCHERS, Cluster
from sim_documents import Truth
from sim_model import Event, Promise, Replayed, Row, Said, Sketches, promised, replayed, trees
from sim_verdicts import check_clusters, check_unique, check_verdicts

from neardup.stream.bands_message import decode
from neardup.stream.partitions import Partition
from neardup.stream.table import NO_TIME
from neardup.workers.stages.matcher import MatchWorker
from neardup.workers.stages.partition_table import PartitionTable, decode_window
from neardup.workers.topics.names import generation

MICROSECONDS = 1_000_000


class Outcome:
    """The data of a quiet cluster, and its models."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.config = cluster, cluster.config
        self.partitions = cluster.scenario.bands_partitions
        self.truths = cluster.feed.truths
        self.documents = [t for t in self.truths if t.reason is None and t.text is not None]
        self.sketches = Sketches(self.config, self.partitions, [t.text or "" for t in self.documents])
        fingerprint = self.config.signing_fingerprint
        self.events: dict[int, list[Event]] = {}
        for partition, records in cluster.bands.items():
            messages = [decode(record.value or b"", fingerprint) for record in records]
            self.events[partition] = [
                Event(
                    _rows(message.batch),
                    [id_.decode() for id_ in message.removed],
                    None if message.stream_time == NO_TIME else message.stream_time,
                )
                for message in messages
            ]
        self.said: list[Said] = []
        self.notices: list[str] = []
        self._read_candidates()
        self.replayed = {
            partition: replayed(events, partition, self.partitions, self.config, self.sketches)
            for partition, events in self.events.items()
        }
        self.verdicts: Counter[str] = Counter()
        self.clusters: Counter[str] = Counter()
        self.forwarded = 0
        self.promise: Promise = promised(self.truths, self.config, self.sketches)
        self.in_promise = not self.total("late") and not self.total("evicted")
        copies = Counter(self.sketches.content_of[t.text or ""] for t in self.documents)
        # A bucket holds each content once; a chain of copies holds every copy.
        self.uncut = max(len(copies), *copies.values(), 0) <= self.config.bucket_candidates_max if copies else True

    def total(self, name: str) -> int:
        """The sum of a count of the model over all partitions."""
        return sum(getattr(model, name) for model in self.replayed.values())

    def _read_candidates(self) -> None:
        expected_generation = generation(self.config.signing_fingerprint, self.partitions)
        for record in self.cluster.memory.records(self.cluster.topics.candidates):
            fields = orjson.loads(record.value or b"")
            assert fields.pop("generation") == expected_generation
            if "removed" in fields:
                assert record.key == fields["removed"].encode()
                self.notices.append(fields["removed"])
                continue
            assert record.key == fields["newer"].encode()
            assert fields.pop("scheme") == self.config.scheme
            times = [round(fields[name] * MICROSECONDS) for name in ("older_timestamp", "newer_timestamp")]
            self.said.append(Said(fields["older"], fields["newer"], *times, fields["similarity"], fields["buckets"]))


def _rows(batch) -> list[Row]:  # type: ignore[no-untyped-def]
    ids = batch.ids_at(np.arange(batch.size))
    return [
        Row(id_, time, content.tobytes())
        for id_, time, content in zip(ids, batch.times.tolist(), batch.contents, strict=True)
    ]


def check(cluster: Cluster) -> Outcome:
    """Check all laws; return the outcome."""
    outcome = Outcome(cluster)
    check_dead_letters(outcome)
    check_signed(outcome)
    check_order(outcome)
    check_nothing_wrong(outcome)
    check_notices(outcome)
    if cluster.scenario.linkers:
        check_verdicts(outcome)
        check_clusters(outcome)
    if cluster.scenario.filters:
        check_unique(outcome)
    if outcome.uncut:
        check_matched(outcome)
        check_tables(outcome)
        if outcome.in_promise:
            check_promise(outcome)
    return outcome


def check_dead_letters(outcome: Outcome) -> None:
    """Every unreadable record has one dead letter, with its reason and its origin; no other record has one."""
    topics = outcome.cluster.topics
    letters = [orjson.loads(r.value or b"") for r in outcome.cluster.memory.records(topics.dead)]
    assert all(letter["topic"] == topics.documents for letter in letters)
    found = Counter((letter["partition"], letter["offset"], letter["reason"]) for letter in letters)
    assert found == Counter((t.partition, t.offset, t.reason) for t in outcome.truths if t.reason is not None)


def check_signed(outcome: Outcome) -> None:
    """Each document is once in every partition that owns one of its keys, and in no other partition."""
    sketches = outcome.sketches
    for partition, events in outcome.events.items():
        found = Counter(row for event in events for row in event.rows)
        expected: Counter[Row] = Counter()
        for truth in outcome.documents:
            content = sketches.content_of[truth.text or ""]
            if partition in sketches.places[sketches.number[content]]:
                expected[Row(truth.id, truth.time, content)] += 1
        assert found == expected, (partition, found - expected, expected - found)


def check_order(outcome: Outcome) -> None:
    """In every partition, versions and removals of an id keep their order of ``documents``.

    Consecutive removals may become one.
    """
    sketches = outcome.sketches
    for partition, events in outcome.events.items():
        wanted: dict[str, list[int | None]] = defaultdict(list)
        for truth in sorted(outcome.truths, key=lambda t: t.offset):
            if truth.reason is not None:
                continue
            if truth.text is None:
                wanted[truth.id].append(None)
            elif partition in sketches.places[sketches.number[sketches.content_of[truth.text]]]:
                wanted[truth.id].append(truth.time)
        found: dict[str, list[int | None]] = defaultdict(list)
        for event in events:
            for row in event.rows:
                found[row.id].append(row.time)
            for name in event.removed:
                found[name].append(None)
        assert {k: _run_once(v) for k, v in found.items()} == {k: _run_once(v) for k, v in wanted.items()}, partition
        assert all(found[name].count(None) <= wanted[name].count(None) for name in wanted)


def _run_once(marks: list[int | None]) -> list[int | None]:
    return [mark for i, mark in enumerate(marks) if mark is not None or i == 0 or marks[i - 1] is not None]


def check_nothing_wrong(outcome: Outcome) -> None:
    """Every pair occurs once, joins two committed versions of different ids within the window, shares a bucket and
    reaches ``score_min``.
    """
    sketches, window = outcome.sketches, round((outcome.config.window_seconds or 0) * MICROSECONDS)
    contents: dict[tuple[str, int], set[int]] = defaultdict(set)
    times_sent = Counter((t.id, t.time) for t in outcome.documents)
    for truth in outcome.documents:
        contents[truth.id, truth.time].add(sketches.number[sketches.content_of[truth.text or ""]])
    for said, times in Counter(outcome.said).items():
        (older, older_time), (newer, newer_time) = (said.older, said.older_time), (said.newer, said.newer_time)
        assert older != newer, said
        assert (older_time, older) < (newer_time, newer), said
        assert newer_time - older_time <= window, said
        pairs = [(a, b) for a in contents[older, older_time] for b in contents[newer, newer_time]]
        right = [
            (a, b)
            for a, b in pairs
            if said.buckets == sketches.buckets[a, b]
            and said.similarity == (1.0 if a == b else float(np.round(sketches.similarity[a, b], 4)))
            and (a == b or sketches.pairs[a, b])
        ]
        assert right, (said, pairs)
        # A record sent twice gives two versions of one name and time; each version may be matched once.
        assert times <= times_sent[older, older_time] * times_sent[newer, newer_time], (times, said)


def check_matched(outcome: Outcome) -> None:
    """``candidates`` follows from the log of ``bands``: each pair and each notice occurs once."""
    found = Counter(outcome.said)
    expected = Counter(said for model in outcome.replayed.values() for said in model.said)
    assert found == expected, {"too many": found - expected, "missing": expected - found}


def check_notices(outcome: Outcome) -> None:
    """The partition that owns an id announces its removal: at least one notice for each id, at most one for each
    tombstone.
    """
    found = Counter(outcome.notices)
    assert found == Counter(name for model in outcome.replayed.values() for name in model.notices)
    tombstones = Counter(t.id for t in outcome.truths if t.reason is None and t.text is None)
    assert found.keys() == tombstones.keys()
    assert all(found[name] <= tombstones[name] for name in found)


def check_tables(outcome: Outcome) -> None:
    """A table restored from the committed window holds the items of the model, and so does the running table."""
    cluster, fingerprint = outcome.cluster, outcome.config.matching_fingerprint
    group = cluster.memory.group(MATCHERS, cluster.topics.bands)
    for partition, model in outcome.replayed.items():
        committed = group.offsets[partition]
        window = decode_window(committed.metadata)
        assert window.fingerprint == fingerprint
        table = PartitionTable(outcome.config, Partition(partition, outcome.partitions), window)
        log = cluster.memory.log(cluster.topics.bands, partition)
        for record in log.read(window.start, 1 << 30, committed.offset)[0]:
            table.apply(record, publish=False)
        table.commit()
        horizon = (
            (model.stream or 0)
            - round(1e6 * (outcome.config.window_seconds or 0))
            - round(1e6 * outcome.config.lateness_seconds)
        )
        _check_table(table, model, horizon)
        running = [
            p.worker for p in cluster.places if isinstance(p.worker, MatchWorker) and partition in p.worker.tables
        ]
        assert len(running) == 1, f"{len(running)} workers run partition {partition}"
        _check_table(running[0].tables[partition], model, horizon)


def _check_table(table: PartitionTable, model: Replayed, horizon: int) -> None:
    inner = table.matcher.table
    slots = np.arange(inner.oldest, inner.slot_end)
    found = list(zip(inner.ids(slots), inner.times(slots).tolist(), strict=True))
    # The next item drops expired items at the old end before it probes. An item behind an evicted item may have expired
    # already; a restored table, which never held the evicted item, has dropped it earlier.
    expected = [(entry.row.id, entry.row.time) for entry in model.live]
    past = [list(dropwhile(lambda item: item[1] < horizon, items)) for items in (found, expected)]
    assert past[0] == past[1]
    assert found == past[0] or model.evicted
    assert model.stream is None or inner.stream_time == model.stream


def check_promise(outcome: Outcome) -> None:
    """Within lateness and without eviction, each promised pair of contents occurs once, and n copies have n - 1 links.
    ``sim_model.promised`` lists the promised contents.
    """
    sketches, promise = outcome.sketches, outcome.promise
    version: dict[tuple[str, int], int] = {
        (t.id, t.time): sketches.number[sketches.content_of[t.text or ""]] for t in outcome.documents
    }
    pairs: Counter[frozenset[int]] = Counter()
    links: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for said in outcome.said:
        a, b = version[said.older, said.older_time], version[said.newer, said.newer_time]
        if a == b:
            links[a].append((said.older, said.newer))
        else:
            pairs[frozenset((a, b))] += 1
    assert {pair: pairs[pair] for pair in promise.pairs} == dict.fromkeys(promise.pairs, 1)
    assert not promise.none & pairs.keys()
    for content, documents in promise.links.items():
        _check_links(documents, links[content])


def _check_links(documents: list[Truth], links: list[tuple[str, str]]) -> None:
    assert len(links) == len(documents) - 1
    assert list(trees(links).values()) in ([len(documents)], [])
