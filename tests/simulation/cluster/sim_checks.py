"""The laws of a quiet cluster; the docstring of each check begins with its law."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import orjson
from sim_cluster import MATCHERS, Cluster
from sim_documents import Truth
from sim_growth import growth_of
from sim_model import Event, Promise, Row, Said, Sketches, promised, replayed, trees
from sim_verdicts import check_clusters, check_one_process, check_sources, check_standing, check_unique, check_verdicts

from neardup.pairs.batches import CONTENT_HALF
from neardup.pairs.shards import Shard, shards_of
from neardup.schemes.config import Config
from neardup.stories.verdicts.rule import DOCUMENT, REMOVAL
from neardup.window.chains import MARK
from neardup_workers.doing.stages.matching.matcher import MatchWorker
from neardup_workers.doing.stages.matching.shard_table import ShardTable
from neardup_workers.doing.stages.matching.stretches import read_stretches
from neardup_workers.doing.stages.matching.windows import decode_window
from neardup_workers.outside.topics.names import generation
from neardup_workers.outside.topics.signed import decode_signed, position_of
from neardup_workers.outside.transport.protocol import Record

MICROSECONDS = 1_000_000


class Outcome:
    """The data of a quiet cluster, and its models."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.config = cluster, cluster.config
        self.growth = growth_of(cluster)
        self.truths = cluster.feed.truths
        self.documents = [t for t in self.truths if t.reason is None and t.text is not None]
        self.sketches = Sketches(self.config, [t.text or "" for t in self.documents])
        self.events = [
            event._replace(shards=self.growth.until(position_of(record.offset)).shards)
            for record in cluster.signed[0] for event in events_of(record, self.config)
        ]  # fmt: skip
        self.said: list[Said] = []
        self.notices: list[str] = []
        self._read_candidates()
        self.model = replayed(self.events, self.config, self.sketches)
        self.verdicts: Counter[str] = Counter()
        self.clusters: Counter[str] = Counter()
        self.sources: Counter[str] = Counter()
        self.forwarded = 0
        self.standing = 0  # linkers that stand by
        self.promise: Promise = promised(self.truths, self.config, self.sketches)
        self.in_promise = not self.model.late and not self.model.evicted
        copies = Counter(self.sketches.content_of[t.text or ""] for t in self.documents)
        # A bucket holds each content once; a chain of copies holds every copy.
        self.uncut = max(len(copies), *copies.values(), 0) <= self.config.bucket_candidates_max if copies else True

    def _read_candidates(self) -> None:
        expected_generation = generation(self.config.signing_fingerprint, self.growth.first)
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


def events_of(record: Record, config: Config) -> list[Event]:
    """The documents and the removals of a message of ``signed``."""
    rows = decode_signed(record.value or b"", config.signing_fingerprint, config.plan.width)
    data, starts = rows.ids.tobytes(), rows.id_starts.tolist()
    documents = zip(rows.times.tolist(), rows.contents, strict=True)
    out = []
    for i, kind in enumerate(rows.kinds.tolist()):
        id_ = data[starts[i] : starts[i + 1]].decode()
        if kind == DOCUMENT:
            time, content = next(documents)
            out.append(Event(Row(id_, time, content.tobytes())))
        elif kind == REMOVAL:
            out.append(Event(None, id_))
    return out


def check(cluster: Cluster) -> Outcome:
    """Check all laws; return the outcome."""
    outcome = Outcome(cluster)
    check_dead_letters(outcome)
    check_signed(outcome)
    check_order(outcome)
    check_nothing_wrong(outcome)
    check_notices(outcome)
    check_canaries(outcome)
    if cluster.scenario.linkers:
        check_verdicts(outcome)
        if outcome.uncut:
            check_one_process(outcome)
        check_clusters(outcome)
        check_sources(outcome)
        check_standing(outcome)
    if cluster.scenario.filters:
        check_unique(outcome)
    if outcome.uncut:
        check_matched(outcome)
        check_tables(outcome)
        if outcome.in_promise:
            check_promise(outcome)
    return outcome


def check_canaries(outcome: Outcome) -> None:
    """No shard of any process misses a document of its window without a cause."""
    assert not outcome.cluster.observer.canaries["fault"], outcome.cluster.observer.canaries


def check_dead_letters(outcome: Outcome) -> None:
    """Every unreadable record has one dead letter, with its reason and its origin; no other record has one."""
    topics = outcome.cluster.topics
    letters = [orjson.loads(r.value or b"") for r in outcome.cluster.memory.records(topics.dead)]
    assert all(letter["topic"] == topics.documents for letter in letters)
    found = Counter((letter["partition"], letter["offset"], letter["reason"]) for letter in letters)
    assert found == Counter((t.partition, t.offset, t.reason) for t in outcome.truths if t.reason is not None)


def check_signed(outcome: Outcome) -> None:
    """Each record of ``documents`` is one row of ``signed``, and no other row is there."""
    found = Counter(event.row for event in outcome.events if event.row is not None)
    contents = outcome.sketches.content_of
    assert found == Counter(Row(t.id, t.time, contents[t.text or ""]) for t in outcome.documents)
    cluster, config = outcome.cluster, outcome.config
    rows = [
        decode_signed(record.value or b"", config.signing_fingerprint, config.plan.width)
        for record in cluster.signed[0]
    ]
    places = Counter(place for part in rows if part.growth is None for place in part.places.tolist())
    assert places == Counter(t.partition << 48 | t.offset for t in outcome.truths)


def check_order(outcome: Outcome) -> None:
    """Versions and removals of an id keep their order of ``documents``."""
    wanted: dict[str, list[int | None]] = defaultdict(list)
    for truth in sorted(outcome.truths, key=lambda t: t.offset):
        if truth.reason is None:
            wanted[truth.id].append(None if truth.text is None else truth.time)
    found: dict[str, list[int | None]] = defaultdict(list)
    for row, removed, _ in outcome.events:
        found[removed if row is None else row.id].append(None if row is None else row.time)
    assert found == wanted


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
        assert older_time <= newer_time, said
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
    """``candidates`` follows from ``signed``: each pair of one table occurs once. Other pairs are those of documents
    with a copy, which a shard that knows no copy of them has found."""
    found, expected = Counter(outcome.said), Counter(outcome.model.said)
    assert not expected - found, {"missing": expected - found}
    for said in found - expected:
        assert said.similarity < 1.0, said
        assert said.versions() & outcome.model.copied, said


def check_notices(outcome: Outcome) -> None:
    """One shard announces each removal."""
    found = Counter(outcome.notices)
    assert found == Counter(outcome.model.notices)
    assert found == Counter(t.id for t in outcome.truths if t.reason is None and t.text is None)


def check_tables(outcome: Outcome) -> None:
    """A table restored from the committed window holds the documents of the model that its shard owns, and so does the
    running table."""
    cluster, config = outcome.cluster, outcome.config
    group = cluster.memory.group(MATCHERS, cluster.topics.links)
    log = cluster.memory.log(cluster.topics.signed, 0)
    for shard in range(outcome.growth.shards):
        committed = group.offsets[shard]
        window = decode_window(committed.metadata)
        assert window.fingerprint == config.matching_fingerprint
        assert window.growth == outcome.growth
        table = ShardTable(config, Shard(shard, outcome.growth.first), window)
        end = position_of(committed.offset, window.row)
        records = log.read(window.start, 1 << 30, committed.offset + (window.row > 0))[0]
        for stretch in read_stretches(records, config):
            for _ in table.apply(stretch.until(end), publish=False):
                pass
        table.commit()
        _check_table(table, outcome)
        running = [p.worker for p in cluster.places if isinstance(p.worker, MatchWorker) and shard in p.worker.tables]
        assert len(running) == 1, f"{len(running)} workers run shard {shard}"
        _check_table(running[0].tables[shard], outcome)
    check_standbys(outcome)


def check_standbys(outcome: Outcome) -> None:
    """Each shard has its standbys, if there are enough members; their tables are at the committed offset and hold what
    the table of the owner holds. The members own equally many shards, one more or less."""
    cluster = outcome.cluster
    workers = [place.worker for place in cluster.places if isinstance(place.worker, MatchWorker)]
    offsets = cluster.memory.group(MATCHERS, cluster.topics.links).offsets
    for shard in range(outcome.growth.shards):
        tables = [w.standbys.tables[shard] for w in workers if shard in w.standbys.tables]
        assert len(tables) == min(cluster.scenario.standbys, len(workers) - 1), shard
        committed = offsets[shard]
        for table in tables:
            assert table.position == position_of(committed.offset, decode_window(committed.metadata).row)
            _check_table(table, outcome)
    owned = [len(worker.tables) + len(worker.beginnings.unused) for worker in workers]
    assert max(owned) - min(owned) <= 1, owned


def _check_table(table: ShardTable, outcome: Outcome) -> None:
    """Compare what has not expired: each shard drops expired documents when its oldest one has expired."""
    model, config, inner = outcome.model, outcome.config, table.matcher.table
    spans = round(MICROSECONDS * (config.window_seconds or 0)) + round(MICROSECONDS * config.lateness_seconds)
    horizon = (model.stream or 0) - spans
    slots = np.arange(inner.oldest, inner.slot_end)
    held = slots[inner.store.flags[inner._slots.at(slots)] & MARK == 0]
    found = zip(inner.ids(held), inner.times(held).tolist(), strict=True)
    rows = [entry.row for entry in model.live]
    halves = np.array([np.frombuffer(row.content, np.uint64)[CONTENT_HALF] for row in rows], np.uint64)
    shards = np.array([entry.shards for entry in model.live], np.int64)
    owned = np.zeros(len(rows), np.bool_)
    for count in set(shards.tolist()):
        owned[shards == count] = shards_of(halves[shards == count], count) == table.shard.number
    expected = [(row.id, row.time) for row, own in zip(rows, owned.tolist(), strict=True) if own]
    assert [item for item in found if item[1] >= horizon] == [item for item in expected if item[1] >= horizon]
    assert model.stream is None or inner.stream_time == model.stream


def check_promise(outcome: Outcome) -> None:
    """Within lateness and without eviction, each promised pair of contents occurs, and n copies have n - 1 links.
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
    assert all(pairs[pair] >= 1 for pair in promise.pairs)
    assert not promise.none & pairs.keys()
    for content, documents in promise.links.items():
        _check_links(documents, links[content])


def _check_links(documents: list[Truth], links: list[tuple[str, str]]) -> None:
    assert len(links) == len(documents) - 1
    assert list(trees(links).values()) in ([len(documents)], [])
