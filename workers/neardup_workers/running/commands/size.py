"""``neardup size``: what a deployment needs before it exists, and what cannot work. No broker is asked.

Theory of operation. Bytes of a document come from a sample: random words, signed under the settings and added to a
table. Times are those that benchmark K8 measures (``Capacity``). The number of matchers is the least with which memory
holds all shards when one matcher is gone, and the tables of standbys as far as other matchers are left. Every matcher
and the linker read every document, so one core of each bounds a stream.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from neardup.documents.document import Document
from neardup.errors import ConfigError
from neardup.pairs.signing import Signer
from neardup.stories.sources.ledger import STORIES_MAX
from neardup.stories.verdicts.records import STORY_BYTES
from neardup_workers.doing.session.table_bytes import table_bytes
from neardup_workers.doing.stages.matching.cursors import SEEN_PART
from neardup_workers.outside.display.printing import facts, print_found, table_of
from neardup_workers.outside.options.running import SizeOptions
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.process.memory import bytes_of
from neardup_workers.outside.settings.kafka import StreamSettings, limits_of
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, SIGN

_SEED = 25
# Bytes of a document as JSON apart from its text and its id.
_JSON_BYTES = 50
# A process that uses more of a core falls behind when the load varies.
CORE_MAX = 0.7
# The greatest value of the setting ``window_documents``.
WINDOW_DOCUMENTS_MAX = 1 << 30
MATCHERS_MIN, SHARDS_MIN, MATCHERS_MAX = 2, 8, 4_096
# Bytes of a decided document in the state of a linker without its id, and of one that waits: both as they are held. The
# bound on those that wait counts more (``_UNDECIDED_BYTES`` of the settings).
_LINKER_BYTES, _WAITING_BYTES = 72, 100
# The fraction of documents that are stories with a second member, at most as a rule; bytes of a story of the ledger.
_WITH_STORY, _LEDGER_BYTES = 0.1, 190
# A takeover may take so long: nothing is found meanwhile for the shards of the matcher that died.
TAKEOVER_SECONDS_MAX = 600.0
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


# What a document costs, as benchmark K8 measures it (``make bench-kafka``), on one core of a shared machine:
# microseconds of a signer for a document, and for each kilobyte of it; of a matcher for a document, and for each shard
# that it holds; of a linker and of a filter; the time of a restore over that of matching the same documents. A linker
# that takes over reads each document of the window for so many microseconds (``S14-linker``).
SIGNER_DOCUMENT, SIGNER_KILOBYTE, MATCHER_DOCUMENT, MATCHER_SHARD = 9.677, 1.551, 4.138, 0.271
LINKER_DOCUMENT, FILTER_DOCUMENT, RESTORE_OF_MATCH = 5.603, 26.96, 0.9247
LINKER_RESTORE = 8.8
# Memory that is allocated over what is used; of a worker apart from its window.
SLACK, PROCESS_BYTES = 1.067, 314_600_000.0
# Bytes of a document in the filter of contents that every matcher has, up to its part of the tables (``SEEN_PART``).
SEEN_BYTES = 13


class Load(NamedTuple):
    """A stream: documents a second; bytes that a process may have; bytes of a document as sent, of its id, in one
    table, and counted by ``evidence_bytes_max``."""

    rate: float
    memory_max: float
    sent: float
    id: int
    table: float
    counted: float


class Role(NamedTuple):
    """A role: processes, cores that each uses, and bytes of memory of each."""

    role: str
    processes: int
    cores: float
    memory: float


class Sized(NamedTuple):
    """What a deployment needs. ``restore_seconds`` is that of one matcher after another has died without standbys;
    ``takeover_seconds`` is the session of the dead one, and the restore where no matcher stands by;
    ``linker_restore_seconds`` and ``linker_takeover_seconds`` are those of the one linker that decides, 0 without
    verdicts. ``streams`` is 1 unless the load is too large for one. A problem is what is wrong, and what to do."""

    window_documents: int
    table_bytes_per_document: float
    shards: int
    streams: int
    restore_seconds: float
    takeover_seconds: float
    linker_restore_seconds: float
    linker_takeover_seconds: float
    roles: tuple[Role, ...]
    problems: tuple[tuple[str, str], ...]


def size(options: SizeOptions, settings: StreamSettings) -> Exit:
    """Print what a stream needs; returns ``Exit.UNFIT`` if that cannot work.

    Raises:
        ConfigError: the sizes cannot be read, or the scheme compares no texts.
    """
    memory_max, sent = bytes_of("--memory", options.memory), options.text_bytes + options.ids + _JSON_BYTES
    sample = sampled(settings, options.text_bytes, options.ids)
    sized = size_of(settings, Load(options.rate, memory_max, sent, options.ids, *sample))
    values: dict[str, Any] = sized._asdict() | {
        "roles": [role._asdict() for role in sized.roles],
        "problems": [{"what": what, "do": do} for what, do in sized.problems],
    }
    print_found(values, [*_tables(sized)], as_json=options.as_json, columns=110)
    return Exit.UNFIT if sized.problems else Exit.SUCCESS


def sampled(settings: StreamSettings, text_bytes: int, id_bytes: int) -> tuple[float, float]:
    """Sign texts of ``text_bytes`` with ids of ``id_bytes``, and add them to a table several times, with other keys;
    returns the bytes of a document with its id in one table, and those that ``evidence_bytes_max`` counts. Raises
    ``ConfigError`` if the scheme compares no texts, or refuses all of them."""
    if settings.plan.kind != "text":
        raise ConfigError(
            f"scheme={settings.scheme} compares {settings.plan.kind}, and a sample has texts: size a scheme of texts, "
            "or fill a window with your documents and read the metric neardup_table_bytes"
        )
    rng, count = np.random.default_rng(_SEED), min(max((4 << 20) // text_bytes, 200), 2_000)
    words = rng.integers(1 << 24, size=(count, text_bytes // 3 + 1)).tolist()
    texts = (" ".join([f"{word:x}" for word in row])[:text_bytes] for row in words)
    documents = [Document(f"{i:0{id_bytes}d}"[:id_bytes], text) for i, text in enumerate(texts)]
    batch = Signer(settings).sign(documents).batch
    if not batch.size:
        raise ConfigError(f"text_bytes={text_bytes}: every text is refused as too short; give the bytes of real texts")
    return table_bytes(settings, batch), (len(batch.ids) + len(batch.ragged)) / batch.size


def size_of(settings: StreamSettings, load: Load) -> Sized:
    """Compute what a stream needs; ``shards`` counts if it is given, else as many are recommended as are needed."""
    wanted = load.rate * ((settings.window_seconds or 0.0) + settings.lateness_seconds)
    documents = int(min(wanted, settings.window_documents, settings.evidence_bytes_max / load.counted))
    given = settings.shards if "shards" in settings.model_fields_set else None
    matchers, shards, owned, held, table = _divided(documents, given, settings.standbys, load)
    replayed = documents * (MATCHER_DOCUMENT + MATCHER_SHARD * owned) / 1e6 * RESTORE_OF_MATCH
    cores, memory = (MATCHER_DOCUMENT + MATCHER_SHARD * held) / 1e6, documents * table * held / shards
    roles = (*_roles(settings, load, documents, Role(MATCH, matchers, load.rate * cores, PROCESS_BYTES + memory)),)
    busiest = max((role for role in roles if role.role in (MATCH, LINK)), key=lambda role: role.cores)
    streams = math.ceil(max(busiest.cores / CORE_MAX, wanted / WINDOW_DOCUMENTS_MAX))
    session = settings.client.session_timeout_seconds
    linked = documents * LINKER_RESTORE / 1e6 if settings.verdicts else 0.0
    takeover, linking = (session + (0.0 if settings.standbys else restore) for restore in (replayed, linked))
    linking = linking if settings.verdicts else 0.0
    problems = [*_evictions(settings, load, wanted), *_unfit(settings, load, roles), *_waits(takeover, linking)]
    if given is not None and matchers > given * (1 + settings.standbys):
        useful = given * (1 + settings.standbys)
        what = f"{matchers} matchers are needed and shards={given}: more than {useful} have nothing to do"
        problems.append((what, "leave shards away to see how many are needed, and make the topics with them"))
    if streams > 1:
        what = (
            f"too large for one stream: {wanted:,.0f} documents in the window, of at most {WINDOW_DOCUMENTS_MAX:,}; "
            f"every {'matcher' if busiest.role == MATCH else 'linker'} reads all documents and needs "
            f"{busiest.cores:.2f} cores, of at most {CORE_MAX}"
        )
        do = (
            f"divide the documents over {streams} streams, each with its own topic_prefix, so that those that can be "
            f"near-duplicates meet (by language, collection or kind): {load.rate / streams:,.0f} a second each"
        )
        problems.append((what, do))
    return Sized(documents, table, shards, streams, replayed, takeover, linked, linking, roles, tuple(problems))


def _divided(documents: int, given: int | None, standbys: int, load: Load) -> tuple[int, int, int, int, float]:
    """Return how matchers divide the window: their number, that of shards, how many shards one may own when another is
    gone, how many tables it may have then or before, and the bytes of a document over all shards."""
    matchers = MATCHERS_MIN
    while True:
        shards = given or max(SHARDS_MIN, 1 << math.ceil(math.log2(2 * matchers)))
        table = (load.table + min(matchers * SEEN_BYTES, (load.table - load.counted) / SEEN_PART)) * SLACK
        # Each table is in one matcher, and in as many others as stand by and are there.
        owned, *tables = (
            math.ceil(shards * (1 + min(wanted, there - 1)) / there)
            for there, wanted in ((matchers - 1, 0), (matchers - 1, standbys), (matchers, standbys))
        )
        held = max(tables)
        fits = PROCESS_BYTES + documents * table * held / shards <= load.memory_max
        if fits or matchers == MATCHERS_MAX or (held == 1 and given):
            return matchers, shards, owned, held, table
        matchers += 1


def _roles(settings: StreamSettings, load: Load, documents: int, matching: Role) -> Iterator[Role]:
    def shared(role: str, microseconds: float) -> Role:  # its processes share the partitions
        cores = load.rate * microseconds / 1e6
        processes = max(1, math.ceil(cores / CORE_MAX))
        return Role(role, processes, cores / processes, PROCESS_BYTES)

    yield shared(SIGN, SIGNER_DOCUMENT + SIGNER_KILOBYTE * load.sent / 1e3)
    yield matching
    if settings.verdicts:
        limits = limits_of(settings.memory_max)
        decided = documents * (_LINKER_BYTES + load.id) + limits.undecided_max * _WAITING_BYTES
        messages = min(limits.messages_bytes_max, documents * load.table)
        stories = min(settings.evidence_bytes_max, documents * _WITH_STORY * (STORY_BYTES + load.counted + load.id))
        memory = decided + messages + stories + min(documents, STORIES_MAX) * _LEDGER_BYTES
        yield Role(LINK, max(2, 1 + settings.standbys), load.rate * LINKER_DOCUMENT / 1e6, PROCESS_BYTES + memory)
        yield shared(FILTER, FILTER_DOCUMENT)


def _evictions(settings: StreamSettings, load: Load, wanted: float) -> Iterator[tuple[str, str]]:
    """What the limits of the window evict, and what to do."""
    for name, most, needed in (
        ("window_documents", settings.window_documents, wanted),
        ("evidence_bytes_max", settings.evidence_bytes_max, wanted * load.counted),
    ):
        if needed > most and wanted <= WINDOW_DOCUMENTS_MAX:
            yield (
                f"the window has {wanted:,.0f} documents, and {name}={most:,} evicts a part of them: pairs with them "
                "are missed",
                f"set {name} to {math.ceil(needed)} or more; this size counts what the setting allows",
            )


def _unfit(settings: StreamSettings, load: Load, roles: tuple[Role, ...]) -> Iterator[tuple[str, str]]:
    """What a role needs that it cannot have, and what to do."""
    for role in roles:
        parts = math.ceil(role.memory / load.memory_max)
        if parts > 1:
            why = "it has the window of the whole stream" if role.role == LINK else "more of them have no shard"
            yield (
                f"a process of role {role.role} needs {_bytes(role.memory)}, and --memory is "
                f"{_bytes(load.memory_max)}: {why}",
                f"give it a machine with that memory, shorten the window, or divide the documents over {parts} streams",
            )
        if role.role in (SIGN, FILTER) and role.processes > settings.documents_partitions:
            yield (
                f"{role.processes} processes of role {role.role} are needed and documents_partitions="
                f"{settings.documents_partitions}: more have nothing to do",
                f"set documents_partitions to {role.processes} or more, and make the topics with it",
            )


def _waits(takeover: float, linking: float) -> Iterator[tuple[str, str]]:
    """A takeover of a shard, or of the linker, that takes too long; and what to do."""
    for what, seconds, then, kept in (
        ("a takeover takes", takeover, "nothing is found and decided for the shards of a matcher that died until then",
         "set standbys to 1, and size it again: other matchers then keep a second table of each shard"),
        ("a linker that takes over reads the whole window for", linking, "no verdict is written until then",
         "set standbys to 1: the second linker then keeps all that the first one holds"),
    ):  # fmt: skip
        if seconds > TAKEOVER_SECONDS_MAX:
            yield f"{what} {seconds / 60:,.0f} minutes, and should take {TAKEOVER_SECONDS_MAX / 60:.0f}: {then}", kept


def _tables(sized: Sized) -> Iterator[Table]:
    yield facts("Stream", [
        ("documents in the window", f"{sized.window_documents:,}", ""),
        ("memory of a document", f"{sized.table_bytes_per_document:,.0f} B", "over all shards"),
        ("shards", str(sized.shards), "setting shards; neardup topics shards adds some later"),
        ("restore", f"{sized.restore_seconds:,.0f} s", "of a matcher that takes over the most shards"),
        ("takeover", f"{sized.takeover_seconds:,.0f} s", "after a death: session, and restore without standbys"),
        ("restore of the linker", f"{sized.linker_restore_seconds:,.0f} s", "of all that it has decided of the window"),
        ("its takeover", f"{sized.linker_takeover_seconds:,.0f} s", "session, and restore without standbys"),
    ])  # fmt: skip
    roles = [(role.role, str(role.processes), f"{role.cores:.2f}", _bytes(role.memory)) for role in sized.roles]
    yield table_of(("role", "processes", "cores of each", "memory of each"), roles, justify="left", title="Roles")
    if sized.problems:
        yield table_of(("what is wrong", "what to do"), sized.problems, justify="left", title="Problems")


def _bytes(value: float) -> str:
    unit = next((name for name, size in reversed(_UNITS.items()) if value >= size), "KiB")
    return f"{value / _UNITS[unit]:,.1f} {unit}"
