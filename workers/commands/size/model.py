"""What a deployment needs: memory, cores, disk, network and times, from rate and window.

Theory of operation. Bytes of a document come from a sample under the settings (``sample``), times from the table of the
package, scaled to this machine (``capacity``). The number of matchers is the least with which memory holds all shards
when one matcher is gone. Every matcher and the linker read every document, so one core of each bounds a stream.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from neardup.workers.commands.size.capacity import Capacity
from neardup.workers.commands.size.sample import Sample
from neardup.workers.settings.kafka import UNDECIDED_MAX, StreamSettings
from neardup.workers.topics.names import FILTER, LINK, MATCH, SIGN
from neardup.workers.topics.rules import LOG_SEGMENT_BYTES

# A process that uses more of a core falls behind when the load varies.
CORE_MAX = 0.7
# The greatest value of the setting ``window_documents``.
WINDOW_DOCUMENTS_MAX = 1 << 30
MATCHERS_MIN, SHARDS_MIN, MATCHERS_MAX = 2, 8, 4_096
# Bytes of a decided document in the state of a linker without its id, and of one that waits (``docs/ARCHITECTURE.md``).
_LINKER_BYTES, _WAITING_BYTES = 72, 100
# How long ``links`` are kept: until the linker has decided and trimmed, or a day of progress without verdicts.
_LINKS_SECONDS = 600
_REPLICAS = 3
_MICRO = 1e-6


class Load(NamedTuple):
    """A stream: documents a second, bytes of a document as sent, bytes of its id, pairs for each document; bytes of
    memory that a matcher may have."""

    rate: float
    document_bytes: float
    id_bytes: int
    pairs: float
    memory_max: float


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
    """All that a deployment needs. ``restore_seconds`` is that of one matcher after another has died, ``takeover``
    the session of the dead one as well. ``streams`` is 1 unless the load is too large for one stream."""

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
    seconds = (settings.window_seconds or 0.0) + settings.lateness_seconds
    wanted = load.rate * seconds
    documents = int(min(wanted, settings.window_documents, settings.evidence_bytes_max / sample.counted))
    given = settings.shards if "shards" in settings.model_fields_set else None
    matchers, shards, table = _divided(documents, given, load, sample, capacity)
    held = math.ceil(shards / max(1, matchers - 1))
    core = load.rate * loop * _MICRO
    matcher = capacity.matcher_document + capacity.matcher_shard * held
    replayed = documents * loop * _MICRO * matcher * capacity.restore_of_match
    roles = tuple(
        _roles(settings, load, capacity, core, documents, (matchers, matcher, table * documents * held / shards))
    )
    topics = tuple(_topics(settings, load, sample, capacity, roles))
    busiest = max((role for role in roles if role.role in (MATCH, LINK)), key=lambda role: role.cores)
    streams = math.ceil(max(busiest.cores / CORE_MAX, wanted / WINDOW_DOCUMENTS_MAX))
    problems = [*_problems(settings, load, sample, wanted, matchers, given, busiest, streams)]
    return Sized(
        documents, table, shards, roles, topics, replayed, settings.session_timeout_seconds + replayed, streams,
        tuple(problems),
    )  # fmt: skip


def _divided(
    documents: int, given: int | None, load: Load, sample: Sample, capacity: Capacity
) -> tuple[int, int, float]:
    """The number of matchers, the number of shards, and the bytes of a document over all shards."""
    matchers = MATCHERS_MIN
    while True:
        shards = given or max(SHARDS_MIN, 1 << math.ceil(math.log2(2 * matchers)))
        marked = sample.table - sample.counted + load.id_bytes  # a mark has no evidence
        table = (sample.table + marked * (capacity.shards_ratio(shards) - 1)) * capacity.slack
        held = math.ceil(shards / (matchers - 1))
        fits = capacity.process_bytes + documents * table * held / shards <= load.memory_max
        if fits or matchers == MATCHERS_MAX or (held == 1 and given):
            return matchers, shards, table
        matchers += 1


def _roles(
    settings: StreamSettings, load: Load, capacity: Capacity, core: float, documents: int,
    matching: tuple[int, float, float],
) -> Iterator[Role]:  # fmt: skip
    """``core`` is the share of a core that the loop takes at this rate; ``matching`` the number of matchers, the time
    of a document in one, and its bytes of tables."""
    signing = core * (capacity.signer_document + capacity.signer_kilobyte * load.document_bytes / 1e3)
    yield _shared(SIGN, signing, capacity)
    matchers, matcher, tables = matching
    yield Role(MATCH, matchers, core * matcher, capacity.process_bytes + tables)
    if settings.verdicts:
        linking = documents * (_LINKER_BYTES + load.id_bytes) + UNDECIDED_MAX * _WAITING_BYTES
        yield Role(LINK, 2, core * capacity.linker_document, capacity.process_bytes + linking)
        yield _shared(FILTER, core * capacity.filter_document, capacity)


def _shared(role: str, cores: float, capacity: Capacity) -> Role:
    """A role whose processes share the partitions."""
    processes = max(1, math.ceil(cores / CORE_MAX))
    return Role(role, processes, cores / processes, capacity.process_bytes)


def _topics(
    settings: StreamSettings, load: Load, sample: Sample, capacity: Capacity, roles: tuple[Role, ...]
) -> Iterator[Topic]:
    """The topics in the order of a document's way, with the bytes of values and keys, before compression."""
    replicas = settings.replication_factor if settings.replication_factor > 0 else _REPLICAS
    retention, verdicts = float(settings.retention_seconds), settings.verdicts
    window = (settings.window_seconds or 0.0) + settings.lateness_seconds
    number = {role.role: role.processes for role in roles}
    pair, decided = capacity.candidate_bytes + 2 * load.id_bytes, capacity.verdict_bytes + load.id_bytes
    long = max(retention, window + settings.retention_margin_seconds)

    def topic(name: str, document_bytes: float, kept: float, readers: int, more: float = 0.0) -> Topic:
        written = document_bytes * load.rate
        return Topic(name, document_bytes, kept, (written * kept + more) * replicas, written, written * readers)

    segment = float(LOG_SEGMENT_BYTES)
    yield topic("documents", load.document_bytes, retention, 1 + verdicts)
    yield topic("signed", sample.signed, window, number[MATCH] + verdicts, segment)
    yield topic("candidates", load.pairs * pair, retention, 0)
    if verdicts:
        links = load.pairs * capacity.link_bytes
        yield topic("links", links, _LINKS_SECONDS, 1, segment * settings.shards)
        yield topic("verdicts", decided, long, 1)
        yield topic("clusters", capacity.cluster_bytes, window, 0)
        yield topic("documents.unique", load.document_bytes, retention, 0)


def _problems(
    settings: StreamSettings,
    load: Load,
    sample: Sample,
    wanted: float,
    matchers: int,
    given: int | None,
    busiest: Role,
    streams: int,
) -> Iterator[tuple[str, str]]:  # fmt: skip
    """What does not fit, and what to do."""
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
    if given is not None and matchers > given:
        yield (
            f"{matchers} matchers are needed and shards={given}: more than {given} have nothing to do",
            "leave shards away to see how many are needed, and make the topics with them",
        )
    if streams > 1:
        reader = "matcher" if busiest.role == MATCH else "linker"
        yield (
            f"too large for one stream: {wanted:,.0f} documents in the window, of at most {WINDOW_DOCUMENTS_MAX:,}; "
            f"every {reader} reads all documents and needs {busiest.cores:.2f} cores, of at most {CORE_MAX}",
            f"divide the documents over {streams} streams, each with its own topic_prefix, so that those that can be "
            f"near-duplicates meet (by language, collection or kind): {load.rate / streams:,.0f} a second each",
        )
