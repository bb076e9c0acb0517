"""Canaries on a real broker: through signer, matchers, linker and filter, and in no output."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from kafka_world import Place, World, stories

from neardup.stories.canaries.looks import FAULT, FOUND
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, SIGN
from neardup_workers.outside.topics.signed import decode_signed, encode_signed
from neardup_workers.running.service.roles import ROLES

Worlds = Callable[..., World]
DOCUMENTS = stories(240)


def signed(world: World) -> tuple[list[bytes], int]:
    """The messages of ``signed`` without their canaries, and how many messages have some."""
    fingerprint, width, out, have = world.settings.signing_fingerprint, world.settings.plan.width, [], 0
    for record in world.records(world.topics.signed):
        rows = decode_signed(record.value or b"", fingerprint, width)
        have += len(rows.canaries) > 0
        out += encode_signed(rows._replace(canaries=np.empty(0, np.uint8)), fingerprint)
    return out, have


def outputs(world: World) -> dict[str, Any]:
    """What readers of each topic get, byte for byte and with offsets, and what every group has committed: of matchers
    with the stream time and the counts of each shard; of signers without the moment of the commit, of settings without
    the ids of topics."""
    topics = {name: topic for name, topic in world.topics._asdict().items() if name != "signed"}
    records = {
        name: [(r.partition, r.offset, r.key, r.value, r.headers) for r in world.records(topic)]
        for name, topic in topics.items()
    }
    records["settings"] = [(*at[:3], re.sub(rb'"topics":{.*?}', b"", at[3]), at[4]) for at in records["settings"]]
    shared = {role: ROLES[role].topic(world.topics) for role in (SIGN, MATCH, LINK, FILTER)}
    places = {role: world.transport.group_offsets(world.names.group(role), topic) for role, topic in shared.items()}
    for partition, at in places[SIGN].items():
        places[SIGN][partition] = at._replace(metadata=re.sub(r'"(stamp|empty_ms)": \d+', "", at.metadata))
    return {"signed": signed(world)[0], **records, **places}


def filled(world: World, time_ms: int) -> World:
    """Run all roles over the documents, one role after the other; the matcher is killed between two parts. Messages
    have the time ``time_ms``."""
    signer, matcher, linker, filter_ = (world.place(role) for role in (SIGN, MATCH, LINK, FILTER))
    for part in (DOCUMENTS[:120], DOCUMENTS[120:]):
        world.load(part, time_ms)
        for place in (signer, matcher, linker, filter_):
            world.run(partial(is_idle, world, place), f"{place.role} has read all")
        outcomes = matcher.worker.canaries.looks.outcomes
        assert (outcomes[FOUND] > 20, outcomes[FAULT]) == (world.limits.canaries_every > 0, 0)
        matcher.kill()
    assert world.pairs() == world.expected(DOCUMENTS) != []
    return world


def is_idle(world: World, place: Place) -> bool:
    """Whether a worker has read its topic to the end."""
    at = place.running()
    return all(at.get(partition, -1) >= end for partition, end in world.ends_of(place.role).items())


def test_canaries_change_no_byte_and_are_found(worlds: Worlds) -> None:
    """Two deployments read the same documents, one without canaries; a killed matcher is restored from the log."""
    given, often = {"verdicts": True, "documents_partitions": 1}, {"canaries_per_second_max": 1e9}
    now_ms = int(time.time() * 1000)  # retention deletes old messages of documents and documents.unique
    plain, watched = (filled(worlds(**given, limits={**often, "canaries_every": every}), now_ms) for every in (0, 4))
    expected, found = outputs(plain), outputs(watched)
    for name, value in expected.items():
        assert found[name] == value, name
    assert all(expected[name] for name in ("candidates", "verdicts", "originals", "unique", MATCH, LINK))
    assert [signed(world)[1] > 0 for world in (plain, watched)] == [False, True]
