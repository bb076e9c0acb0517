"""What a deployment needs: memory, cores, disk, network and times, from rate and window.

Theory of operation. Bytes of a document come from a sample under the settings (``sample``), times from the table of the
package, scaled to this machine (``capacity``). The number of matchers is the least with which memory holds all shards
when one matcher is gone, and the tables of standbys as far as other matchers are left. Every matcher and the linker
read every document, so one core of each bounds a stream.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from neardup.stories.sources.ledger import STORIES_MAX
from neardup.stories.verdicts.records import STORY_BYTES
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, SIGN
from neardup_workers.outside.topics.replication import replicas_wanted
from neardup_workers.outside.topics.rules import LOG_SEGMENT_BYTES, MARGIN_SECONDS
from neardup_workers.running.commands.size.capacity import Capacity
from neardup_workers.running.commands.size.sample import Sample

# A process that uses more of a core falls behind when the load varies.
CORE_MAX = 0.7
# The greatest value of the setting ``window_documents``.
WINDOW_DOCUMENTS_MAX = 1 << 30
MATCHERS_MIN, SHARDS_MIN, MATCHERS_MAX = 2, 8, 4_096
# Bytes of a decided document in the state of a linker without its id, and of one that waits (``docs/OPERATIONS.md``).
_LINKER_BYTES, _WAITING_BYTES = 72, 100
# The share of the documents that are stories with a second member, at most as a rule; bytes of a story of the ledger.
_WITH_STORY, _LEDGER_BYTES = 0.1, 330
# A takeover may take so long: nothing is found meanwhile for the shards of the matcher that died.
TAKEOVER_SECONDS_MAX = 600.0
# How long ``links`` are kept: until the linker has decided and trimmed.
_LINKS_SECONDS = 600
# Of the cluster: enough for as many replicas as are wanted.
_NODES = 3
_MICRO, GIB = 1e-6, 2.0**30


class Load(NamedTuple):
    """A stream: documents a second, bytes of a document as sent, bytes of its id, pairs for each document; bytes of
    memory that a process may have."""

    rate: float
    document_bytes: float
    id_bytes: int
    pairs: float
    memory_max: float


class Divided(NamedTuple):
    """How matchers divide the window: their number, that of shards, how many shards one may own when another is gone,
    how many tables it may have then or before, and the bytes of a document over all shards."""

    matchers: int
    shards: int
    owned: int
    held: int
    document_bytes: float

    def memory(self, documents: int, capacity: Capacity) -> float:
        """Return the bytes of a matcher that has the most tables."""
        return capacity.process_bytes + documents * self.document_bytes * self.held / self.shards


class Role(NamedTuple):
    """A role: processes, cores that each uses, and bytes of memory of each."""

    role: str
    processes: int
    cores: float
    memory: float


class Topic(NamedTuple):
    """A topic: bytes of a document in it, seconds for which it keeps them, bytes on the disks of all replicas, bytes a
    second in from producers and out to readers."""

    topic: str
    document_bytes: float
    kept_seconds: float
    disk: float
    written: float
    read: float


class Sized(NamedTuple):
    """All that a deployment needs. ``restore_seconds`` is that of one matcher after another has died without standbys;
    ``takeover_seconds`` is the session of the dead one, and the restore where no matcher stands by. ``streams`` is 1
    unless the load is too large for one stream."""

    window_documents: int
    table_bytes: float
    shards: int
    roles: tuple[Role, ...]
    topics: tuple[Topic, ...]
    restore_seconds: float
    takeover_seconds: float
    streams: int
    problems: tuple[tuple[str, str], ...]


def size_of(settings: StreamSettings, load: Load, sample: Sample, capacity: Capacity, loop: float) -> Sized:
    """Compute what a stream needs.

    Args:
        settings: of the workers; ``shards`` counts if it is given, else as many are recommended as are needed.
        load: the stream.
        sample: bytes of a document.
        capacity: the table.
        loop: microseconds of the loop of the table on this machine.
    """
    wanted = load.rate * _window_seconds(settings)
    documents = int(min(wanted, settings.window_documents, settings.evidence_bytes_max / sample.counted))
    given = settings.shards if "shards" in settings.model_fields_set else None
    divided = _divided(documents, given, settings.standbys, load, sample, capacity)
    reading, shard = loop * _MICRO * capacity.matcher_document, loop * _MICRO * capacity.matcher_shard
    matcher = reading + shard * divided.held
    replayed = documents * (reading + shard * divided.owned) * capacity.restore_of_match
    matching = Role(MATCH, divided.matchers, load.rate * matcher, divided.memory(documents, capacity))
    roles = tuple(_roles(settings, load, sample, capacity, loop, documents, matching))
    topics = tuple(_topics(settings, load, sample, capacity, divided))
    busiest = max((role for role in roles if role.role in (MATCH, LINK)), key=lambda role: role.cores)
    streams = math.ceil(max(busiest.cores / CORE_MAX, wanted / WINDOW_DOCUMENTS_MAX))
    takeover = settings.session_timeout_seconds + (0.0 if settings.standbys else replayed)
    problems = [*_evictions(settings, wanted, sample), *_unfit(settings, load, roles, takeover)]
    useful = None if given is None else given * (1 + settings.standbys)
    if useful is not None and divided.matchers > useful:
        what = f"{divided.matchers} matchers are needed and shards={given}: more than {useful} have nothing to do"
        problems.append((what, "leave shards away to see how many are needed, and make the topics with them"))
    if streams > 1:
        problems.append(_too_large(load, wanted, busiest, streams))
    return Sized(
        documents, divided.document_bytes, divided.shards, roles, topics, replayed, takeover, streams, tuple(problems)
    )


def _window_seconds(settings: StreamSettings) -> float:
    return (settings.window_seconds or 0.0) + settings.lateness_seconds


def _divided(
    documents: int, given: int | None, standbys: int, load: Load, sample: Sample, capacity: Capacity
) -> Divided:
    """The least number of matchers whose memory holds all shards, and their standbys, when one of them is gone."""
    marked = sample.table - sample.counted + load.id_bytes  # a mark has no evidence
    matchers = MATCHERS_MIN
    while True:
        shards = given or max(SHARDS_MIN, 1 << math.ceil(math.log2(2 * matchers)))
        table = (sample.table + marked * (capacity.shards_ratio(shards) - 1)) * capacity.slack
        # Each table is in one matcher, and in as many others as stand by and are there.
        owned, *tables = (
            math.ceil(shards * (1 + min(wanted, there - 1)) / there)
            for there, wanted in ((matchers - 1, 0), (matchers - 1, standbys), (matchers, standbys))
        )
        divided = Divided(matchers, shards, owned, max(tables), table)
        fits = divided.memory(documents, capacity) <= load.memory_max
        if fits or matchers == MATCHERS_MAX or (divided.held == 1 and given):
            return divided
        matchers += 1


def _roles(
    settings: StreamSettings, load: Load, sample: Sample, capacity: Capacity, loop: float, documents: int,
    matching: Role,
) -> Iterator[Role]:  # fmt: skip
    core = load.rate * loop * _MICRO  # the share of a core that the loop takes at this rate
    signing = core * (capacity.signer_document + capacity.signer_kilobyte * load.document_bytes / 1e3)
    yield _shared(SIGN, signing, capacity)
    yield matching
    if settings.verdicts:
        linking = _linking(settings, load, sample, documents)
        yield Role(LINK, 2, core * capacity.linker_document, capacity.process_bytes + linking)
        yield _shared(FILTER, core * capacity.filter_document, capacity)


def _linking(settings: StreamSettings, load: Load, sample: Sample, documents: int) -> float:
    """The bytes of the state of a linker: decisions, what waits, messages, stories, and the ledger of sources."""
    decided = documents * (_LINKER_BYTES + load.id_bytes) + settings.undecided_max * _WAITING_BYTES
    messages = min(settings.messages_bytes_max, documents * sample.signed)
    story = STORY_BYTES + sample.counted + load.id_bytes
    stories = min(settings.evidence_bytes_max, documents * _WITH_STORY * story)
    return decided + messages + stories + min(documents, STORIES_MAX) * _LEDGER_BYTES


def _shared(role: str, cores: float, capacity: Capacity) -> Role:
    """A role whose processes share the partitions."""
    processes = max(1, math.ceil(cores / CORE_MAX))
    return Role(role, processes, cores / processes, capacity.process_bytes)


def _topics(
    settings: StreamSettings, load: Load, sample: Sample, capacity: Capacity, divided: Divided
) -> Iterator[Topic]:
    """The topics in the order of a document's way, with the bytes of values and keys, before compression."""
    replicas = replicas_wanted(settings, _NODES)
    retention, verdicts = float(settings.retention_seconds), settings.verdicts
    window = _window_seconds(settings)
    pair, decided = capacity.candidate_bytes + 2 * load.id_bytes, capacity.verdict_bytes + load.id_bytes
    long = max(retention, window + MARGIN_SECONDS)

    def topic(name: str, document_bytes: float, kept: float, readers: int, more: float = 0.0) -> Topic:
        written = document_bytes * load.rate
        return Topic(name, document_bytes, kept, (written * kept + more) * replicas, written, written * readers)

    segment = float(LOG_SEGMENT_BYTES)
    yield topic("documents", load.document_bytes, retention, 1 + verdicts)
    yield topic("signed", sample.signed, window, divided.matchers + verdicts, segment)
    yield topic("candidates", load.pairs * pair, retention, 0)
    if verdicts:
        links = load.pairs * capacity.link_bytes
        yield topic("links", links, _LINKS_SECONDS, 1, segment * divided.shards)
        yield topic("verdicts", decided, long, 1)
        yield topic("clusters", capacity.cluster_bytes, window, 0)
        yield topic("documents.unique", load.document_bytes, retention, 0)


def _evictions(settings: StreamSettings, wanted: float, sample: Sample) -> Iterator[tuple[str, str]]:
    """What the limits of the window cut, and what to do."""
    for name, most, needed in (
        ("window_documents", settings.window_documents, wanted),
        ("evidence_bytes_max", settings.evidence_bytes_max, wanted * sample.counted),
    ):
        if needed > most and wanted <= WINDOW_DOCUMENTS_MAX:
            yield (
                f"the window has {wanted:,.0f} documents, and {name}={most:,} evicts a part of them: pairs with them "
                "are missed",
                f"set {name} to {math.ceil(needed)} or more; this size counts what the setting allows",
            )


def _unfit(settings: StreamSettings, load: Load, roles: tuple[Role, ...], takeover: float) -> Iterator[tuple[str, str]]:
    """What a role needs that it cannot have, and a takeover that takes too long; and what to do."""
    for role in roles:
        parts = math.ceil(role.memory / load.memory_max)
        if parts > 1:
            why = "it has the window of the whole stream" if role.role == LINK else "more of them have no shard"
            yield (
                f"a process of role {role.role} needs {role.memory / GIB:,.1f} GiB, and --memory is "
                f"{load.memory_max / GIB:,.1f} GiB: {why}",
                f"give it a machine with that memory, shorten the window, or divide the documents over {parts} streams",
            )
        if role.role in (SIGN, FILTER) and role.processes > settings.documents_partitions:
            yield (
                f"{role.processes} processes of role {role.role} are needed and documents_partitions="
                f"{settings.documents_partitions}: more have nothing to do",
                f"set documents_partitions to {role.processes} or more, and make the topics with it",
            )
    if takeover > TAKEOVER_SECONDS_MAX:
        yield (
            f"a takeover takes {takeover / 60:,.0f} minutes, and should take {TAKEOVER_SECONDS_MAX / 60:.0f}: until "
            "then, nothing is found and decided for the shards of a matcher that died",
            "set standbys to 1, and size it again: other matchers then keep a second table of each shard",
        )


def _too_large(load: Load, wanted: float, busiest: Role, streams: int) -> tuple[str, str]:
    reader = "matcher" if busiest.role == MATCH else "linker"
    return (
        f"too large for one stream: {wanted:,.0f} documents in the window, of at most {WINDOW_DOCUMENTS_MAX:,}; "
        f"every {reader} reads all documents and needs {busiest.cores:.2f} cores, of at most {CORE_MAX}",
        f"divide the documents over {streams} streams, each with its own topic_prefix, so that those that can be "
        f"near-duplicates meet (by language, collection or kind): {load.rate / streams:,.0f} a second each",
    )
