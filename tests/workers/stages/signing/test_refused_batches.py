"""Batches that stay compressed: a signer skips them, a matcher stops."""

from __future__ import annotations

from unittest import mock

import numpy as np
import orjson
import pytest
from match_world import CONFIG, SIGN, TOPICS, MatchWorld
from sign_world import SignWorld
from topics_world import turns

from neardup.pairs.window_message import WireError
from neardup.stories.verdicts.rule import DOCUMENT, REFUSAL
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.telemetry.observer import Observer
from neardup_workers.outside.topics.signed import decode_signed
from neardup_workers.outside.transport.protocol import UnreadableError
from neardup_workers.running.service.shell import failure_of
from neardup_workers.running.service.supervisor import FINAL


def test_a_batch_that_was_refused_is_one_dead_letter_and_is_passed_over() -> None:
    """The letter names partition, offsets and reason, and counts each document; records around the batch are signed."""
    world = SignWorld(SIGN, {"batch_bytes_max": 1_000})
    cluster = world.memory
    document = '{"id": "%s", "text": "some words to be read", "timestamp": 1}'
    cluster.append(TOPICS.documents, 0, (document % "before").encode())
    cluster.append_batch(TOPICS.documents, 0, [b"x" * 400] * 3, packed_bytes=70)
    cluster.append_batch(TOPICS.documents, 0, [(document % "after").encode()], packed_bytes=70)
    observer = mock.Mock(spec=Observer)
    turns(world.worker(observer=observer))
    [letter] = [orjson.loads(record.value or b"") for record in cluster.records(TOPICS.dead)]
    found = {name: letter[name] for name in ("reason", "topic", "partition", "offset", "offset_last", "batch_bytes")}
    assert found == {
        "reason": "batch_too_large", "topic": "documents", "partition": 0, "offset": 1, "offset_last": 3,
        "batch_bytes": 70,
    }  # fmt: skip
    assert mock.call("refused", 3, "batch_too_large") in observer.count.call_args_list
    [message] = cluster.records(TOPICS.signed)
    rows = decode_signed(message.value or b"", CONFIG.signing_fingerprint, CONFIG.plan.width)
    assert rows.kinds.tolist() == [DOCUMENT, REFUSAL, REFUSAL, REFUSAL, DOCUMENT]
    assert rows.places.tolist() == [0, 1, 2, 3, 4]
    assert rows.documents().ids_at(np.arange(2)) == ["before", "after"]
    assert world.offsets() == {0: 5, 1: 0}


def test_a_batch_of_signed_that_is_not_unpacked_stops_the_worker() -> None:
    """No signer writes such a batch, and a window must not miss one."""
    world = MatchWorld()
    one = world.worker()
    world.memory.batch_bytes_max = 100
    world.memory.append_batch(TOPICS.signed, 0, [b"x" * 60] * 2, packed_bytes=20)
    with pytest.raises(WireError, match=r"offsets 0 to 1 of partition 0 of signed .* raise memory_max"):
        turns(one)


def test_a_batch_that_is_not_readable_ends_a_worker_for_good() -> None:
    """The supervisor does not restart it, because the batch never changes."""
    failure = failure_of(UnreadableError("the batch at offset 7 is packed by codec 5"))
    assert (failure.code, str(failure)) == (Exit.TOPIC, "the batch at offset 7 is packed by codec 5")
    assert failure.code in FINAL
