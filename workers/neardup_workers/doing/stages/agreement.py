"""What all workers of a deployment agree on: who owns the topics of a prefix, and the settings that decide results.

``neardup topics create`` writes records into the topic ``settings``, and nothing removes one. The group of the first
record owns the prefix. The last record of a generation has the settings in force. Every worker compares its own when
it starts, before partitions that it was given begin, and when the topic has grown; one that disagrees ends. So two
workers with different windows, say, never work on one stream, and settings change only while no worker is a member.

A change writes its record in a transaction, then looks for members, then commits. A worker is a member, then looks
whether all that is written can be read. So one of the two sees the other, whatever the order.

The record has values, so a worker can name the setting that differs. A fingerprint in the messages of ``signed`` could
not, and old messages would have to be read after each change.

The record also has the ids of the topics in which committed offsets name records. A topic that was deleted and made
again has another one: its offsets name other records, and a worker would pass over them in silence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import orjson

from neardup_workers.doing.stages.starts import decoded_metadata
from neardup_workers.outside.process.exits import Exit, Failure
from neardup_workers.outside.settings.kafka import StreamSettings
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, ROLES, SIGN, names_of
from neardup_workers.outside.transport.protocol import (
    Committed,
    Message,
    Transport,
    UnknownTopicError,
    UnreachableError,
)

_VERSION = 1
_PARTITION = 0
# Role -> the topics in which offsets name records for it, by their fields of ``Topics``.
_LOGS: dict[str, tuple[str, ...]] = {
    SIGN: ("documents", "signed"), MATCH: ("signed", "links"),
    LINK: ("signed", "links", "verdicts"), FILTER: ("verdicts", "documents"),
}  # fmt: skip
# A committed record is read behind the open transactions of others, which end within this time.
_READ_SECONDS, _LOOK_SECONDS = 60.0, 0.1
# The broker that answers may not know new topics yet, or know the older ones.
_ID_SECONDS = 5.0


class Agreed(NamedTuple):
    """What a deployment agrees on: its group, the matching fingerprint, the settings of the library that are not at
    their defaults, the other settings that decide results; and the ids of its topics."""

    group: str
    matching: str
    library: Mapping[str, Any]
    others: Mapping[str, Any]
    topics: Mapping[str, str] = {}


def agreed_of(settings: StreamSettings) -> Agreed:
    """Return what these settings agree with."""
    others = {
        "verdicts": settings.verdicts,
        "pairs_max": settings.pairs_max,
        "story_seconds_max": settings.story_seconds_max,
        "representative": settings.representative,
        "forward": sorted(settings.forward),
        "fields": sorted(settings.fields),
        "timestamp_unit": settings.timestamp_unit,
        "decode": settings.decode,
    }
    return Agreed(settings.group, settings.matching_fingerprint, settings.signing_settings, others)


def differences(settings: StreamSettings, force: Agreed) -> str:
    """Name the settings that decide results and are not those in force; empty if all are."""
    own = agreed_of(settings)
    named = [
        f"{name} is {own.others[name]}, but was {force.others.get(name)}"
        for name in own.others
        if own.others[name] != force.others.get(name)
    ]
    if own.matching != force.matching:
        known = settings.matched_otherwise(force.library)
        named.append(known or f"the matching fingerprint is {own.matching[:8]}, but was {force.matching[:8]}")
    return "; ".join(named)


def in_force(transport: Transport, settings: StreamSettings) -> Agreed | None:
    """Return what is in force for the generation of these settings; ``None`` if that is nothing yet.

    Raises ``Failure`` if another deployment owns the prefix; ``UnknownTopicError``, ``UnreachableError``.
    """
    names = names_of(settings)
    first, end = transport.bounds(names.topics.settings)[_PARTITION]
    force, owner = None, settings.group
    stretches = transport.read(names.topics.settings, _PARTITION, first, end) if first < end else ()
    records = [record for stretch in stretches for record in stretch]
    for n, record in enumerate(records):
        with decoded_metadata((record.value or b"").decode(errors="replace"), _VERSION, "administrator") as made:
            one = Agreed(*({"topics": {}, **made}[name] for name in Agreed._fields))
        owner = one.group if n == 0 else owner
        force = one if record.key == names.generation.encode() and one.group == owner else force
    if owner != settings.group:
        raise Failure(
            Exit.TOPIC,
            f"the topics of topic_prefix {settings.topic_prefix!r} belong to the deployment with group {owner!r}, "
            f"which made them, and this one has group {settings.group!r}: give it another topic_prefix, or "
            f"group={owner}",
        )
    return force


def check_kept(transport: Transport, ids: Mapping[str, str]) -> None:
    """Raise ``Failure`` if one of these topics has not this id: it was deleted, and made again."""
    for topic in _with_other_ids(transport, ids):
        raise Failure(
            Exit.GAP,
            f"{topic} was deleted and made again: what stood in it is lost, and committed offsets name other records "
            "now: end all workers, and run neardup topics create if it has no record yet, or begin a new generation "
            "(another seed, for instance)",
        )


def _with_other_ids(transport: Transport, ids: Mapping[str, str]) -> list[str]:
    """Return the topics that have another id than this one; one that the broker does not say is none."""
    found = transport.topic_ids(ids)
    return [topic for topic, known in ids.items() if (found.get(topic) or known) != known]


def _logs(settings: StreamSettings, roles: Collection[str]) -> set[str]:
    """Return the topics in which offsets name records for some roles."""
    topics = names_of(settings).topics
    return {getattr(topics, field) for role in roles for field in _LOGS[role]}


def logs_of(force: Agreed, settings: StreamSettings, *roles: str) -> dict[str, str]:
    """Return the ids of the topics in which offsets name records for some roles, as far as they are in force."""
    wanted = _logs(settings, roles)
    return {topic: known for topic, known in force.topics.items() if topic in wanted}


def begun_again(transport: Transport, settings: StreamSettings) -> set[str]:
    """Return the topics with other ids than those in force and without a record, of a run that has not agreed yet.

    Raises ``Failure`` if another deployment owns the prefix; ``UnreachableError``.
    """
    force = None
    with suppress(UnknownTopicError):
        force = in_force(transport, settings)
    if force is None:
        return set()
    other = _with_other_ids(transport, logs_of(force, settings, *ROLES))
    return {topic for topic in other if not any(end for _, end in transport.bounds(topic, written=True).values())}


def check_agreed(transport: Transport, settings: StreamSettings) -> Agreed:
    """Return what is in force. Raises ``Failure`` unless the settings that decide results are that; and the errors of
    ``in_force``."""
    names, force = names_of(settings), in_force(transport, settings)
    if force is None:
        raise Failure(
            Exit.TOPIC,
            f"{names.topics.settings} has no settings of generation {names.generation}: run neardup topics create with "
            "the settings of the workers",
        )
    if named := differences(settings, force):
        raise Failure(
            Exit.GENERATION,
            f"{named} in the settings in force for generation {names.generation}: give all workers the same ones; to "
            "change them, end all workers, run neardup topics create with the new ones, and start all with them",
        )
    return force


class Watch:
    """The check of one worker: it reads the topic again when that has grown, and keeps to the topics that it began
    with."""

    def __init__(self, transport: Transport, settings: StreamSettings, role: str) -> None:
        self._transport, self._settings, self._role = transport, settings, role
        self._ids: dict[str, str] = {}
        self._topic, self._seen = names_of(settings).topics.settings, -1

    def look(self, *, begins: bool = False) -> None:
        """Check what is new. Raises as ``check_agreed``; for a worker that ``begins`` a partition, ``UnreachableError``
        while a change is under way."""
        written = self._transport.bounds(self._topic, written=True) if begins else {}
        end = self._transport.bounds(self._topic)[_PARTITION][1]
        if begins and end < written[_PARTITION][1]:
            raise UnreachableError(f"the end of a change of settings: a transaction is open in {self._topic}")
        if end != self._seen:
            force = check_agreed(self._transport, self._settings)
            self._ids = {**logs_of(force, self._settings, self._role), **self._ids}
            self._seen = end
        check_kept(self._transport, self._ids)

    def note(self, group: str, metadata: str) -> None:
        """Commit that a group without members has seen the topic so far, with metadata. Raises as ``set_offsets``."""
        self._transport.set_offsets(group, self._topic, {_PARTITION: Committed(self._seen, metadata)})


def agree(
    transport: Transport,
    settings: StreamSettings,
    sleep: Callable[[float], None] = time.sleep,
    made: Collection[str] = (),
) -> str:
    """Put the settings in force if no worker works with others; return what has changed, empty if nothing has.

    ``made`` are topics that the caller has made just now.

    Raises ``Failure`` if another deployment owns the prefix, if workers are members, if another administrator was
    first, or if somebody else has made a topic again; ``UnreachableError`` if the broker does not say the ids of those
    that are made; the errors of a transport.
    """
    names, force = names_of(settings), in_force(transport, settings)
    before = {} if force is None else logs_of(force, settings, *ROLES)
    check_kept(transport, {topic: known for topic, known in before.items() if topic not in made})
    logs = _logs(settings, ROLES)
    for _ in range(round(_ID_SECONDS / _LOOK_SECONDS)):
        ids = transport.topic_ids(logs)
        late = [topic for topic in sorted(logs.intersection(made)) if ids.get(topic) in (None, before.get(topic))]
        if not late:
            break
        sleep(_LOOK_SECONDS)
    else:
        raise UnreachableError(
            f"the new id of {', '.join(late)} was not known in {_ID_SECONDS:g} s: see whether all brokers are up, and "
            "run the command again"
        )
    given = {topic: known for topic, known in ids.items() if known}
    own = agreed_of(settings)._replace(topics={**before, **given})
    changed = "" if force is None else differences(settings, force)
    if force is not None and not changed and own.topics == before:
        return ""
    value = orjson.dumps({"version": _VERSION, **own._asdict()})
    producer = transport.producer(f"{names.prefix}-create-{names.generation}")
    try:
        producer.begin()
        producer.send(Message(names.topics.settings, _PARTITION, value, names.generation.encode()))
        producer.flush()
        working = [group for group in map(names.group, ROLES) if changed and transport.members(group)]
        if working:
            raise Failure(
                Exit.GENERATION,
                f"{changed}, and {', '.join(working)} have members: end all workers, wait for the session (10 s) of "
                "one that was killed, and run neardup topics create again",
            )
        producer.commit()
    finally:
        producer.close()  # aborts what is not committed
    _await_all(transport, names.topics.settings, sleep)
    check_agreed(transport, settings)
    return changed


def _await_all(transport: Transport, topic: str, sleep: Callable[[float], None]) -> None:
    """Wait until all that is written can be read: the marker of a commit follows its answer."""
    for _ in range(round(_READ_SECONDS / _LOOK_SECONDS)):
        if transport.bounds(topic) == transport.bounds(topic, written=True):
            return
        sleep(_LOOK_SECONDS)
    raise UnreachableError(
        f"what is written into {topic} was not read in {_READ_SECONDS:g} s: a transaction is open there; run the "
        "command again, which says what is in force"
    )
