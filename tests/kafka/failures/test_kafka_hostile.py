"""Hostile documents, clocks and messages on a real broker: workers report or count each of them and continue."""

from __future__ import annotations

import base64
import gc
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from kafka_deployment import WAIT_SECONDS_MAX, Deployment
from kafka_world import World, stories

from neardup import Config, Document, Signer
from neardup.stories.sources.representatives import NO_RANK
from neardup.stories.verdicts.rule import DOCUMENT
from neardup_workers.outside.process.exits import Exit
from neardup_workers.outside.topics.messages import DEAD_BYTES_MAX
from neardup_workers.outside.topics.names import MATCH, SIGN
from neardup_workers.outside.topics.signed import SignedRows, encode_signed
from neardup_workers.outside.transport.protocol import Message, OffsetGoneError, Record

Worlds = Callable[..., World]
YEAR_SECONDS = 365 * 86_400.0
NOW = 1.7e9


def hostile(folder: Path) -> list[bytes]:
    """Each string of the list as a line and as a text, or each file of the suite."""
    if folder.name == "blns":
        texts = json.loads((folder / "blns.json").read_text(encoding="utf-8"))
        return [json.dumps({"text": text}).encode() for text in texts] + (folder / "blns.txt").read_bytes().splitlines()
    return [path.read_bytes() for path in sorted(folder.rglob("*.json"))]


@pytest.mark.parametrize("name", ["blns", "jsontestsuite"])
def test_poison_is_signed_or_a_dead_letter_and_stops_no_worker(
    worlds: Worlds, real_data: Callable[[str], Path], name: str
) -> None:
    """Poison is value, text, id and key. Each dead letter holds its record; the documents around it are matched."""
    values = hostile(real_data(name))
    assert len(values) > 200
    good = stories(30)
    text = "some words of its own that many records here have in common"
    poison: list[tuple[bytes | None, bytes | None]] = []
    for value in values:
        quoted = json.dumps(value.decode("utf-8", "surrogateescape"))
        poison += [(b"key", value), (b"key", f'{{"text": {quoted}}}'.encode("utf-8", "surrogatepass"))]
        poison += [(b"key", f'{{"id": {quoted}, "text": "{text}"}}'.encode("utf-8", "surrogatepass"))]
        poison += [(value[:500], f'{{"text": "{text}"}}'.encode())]
    world = worlds()
    signer, matcher = world.place(SIGN), world.place(MATCH)
    world.load(good[:15])
    for start in range(0, len(poison), 500):
        world.send(poison[start : start + 500])
    world.load(good[15:])
    world.settle()
    assert (signer.endings, matcher.endings) == ([], [])
    letters = world.letters()
    assert len(letters) > 100
    records = {(record.partition, record.offset): record.value for record in world.records(world.topics.documents)}
    for letter in letters:
        value = records[letter["partition"], letter["offset"]] or b""
        kept = base64.b64decode(letter["value"])
        assert (kept, letter["value_bytes"]) == (value[:DEAD_BYTES_MAX], len(value))
    assert set(Counter((letter["partition"], letter["offset"]) for letter in letters).values()) == {1}
    found = Counter(world.pairs())
    assert {found[pair] for pair in world.expected(good)} == {1}


def test_a_flood_of_one_document_gives_a_link_each(worlds: Worlds) -> None:
    """3,000 copies of one content with different ids give 2,999 links that join them; other pairs are still found."""
    copies = 3_000
    world = worlds()
    world.place(SIGN)
    world.place(MATCH)
    good = stories(20)
    world.load(
        [Document(f"copy-{number}", "one text that somebody sends again and again", NOW) for number in range(copies)]
    )
    world.load(good)
    world.settle()
    found = Counter(world.pairs())
    assert set(found.values()) == {1}
    links = [pair for pair in found if pair[0].startswith("copy-")]
    assert len(links) == copies - 1
    joined = {"copy-0"}
    waiting = dict.fromkeys(links)
    while waiting:
        reached = [pair for pair in waiting if joined & set(pair)]
        assert reached, "the links join not all copies"
        for pair in reached:
            joined.update(pair)
            del waiting[pair]
    assert len(joined) == copies
    assert sorted(set(found) - set(links)) == world.expected(good)


def test_a_clock_that_is_years_ahead_or_behind_ends_no_window(worlds: Worlds) -> None:
    """A document from the future gets the time of its message; a document from the past has no pair. A message of 1970
    has no time: the right date of its document counts, and it has its pair."""
    world = worlds(window_seconds=3_600.0, lateness_seconds=60.0, limits={"skew_seconds": 10.0})
    world.place(SIGN)
    world.place(MATCH)
    text = stories(1)[0].text
    world.load([Document("a", text, NOW)], round(1000 * NOW))
    world.settle()
    skewed = [("future", 10 * YEAR_SECONDS), ("past", -10 * YEAR_SECONDS)]
    for name, seconds in skewed:
        world.load([Document(name, f"{name} {text}", NOW + seconds)], round(1000 * NOW))
        world.settle()
    world.load([Document("b", text, NOW + 1)], round(1000 * NOW))
    world.settle()
    world.load([Document("epoch", text, NOW + 2)], 1)
    world.settle()
    assert [pair for pair in world.pairs() if "epoch" in pair]
    found = [pair for pair in world.pairs() if "past" in pair]
    assert found == []
    assert ("a", "b") in world.pairs()
    assert len(set(world.pairs())) == len(world.pairs())


def test_a_message_of_another_configuration_ends_the_matcher_with_its_code(worlds: Worlds, tmp_path: Path) -> None:
    """The matcher process commits nothing of the step and exits, although its client has threads."""
    world = worlds(shards=1)
    signer = world.place(SIGN)
    world.load(stories(5))
    world.settle()
    signer.leave()
    other = Config(seed=2)
    batch = Signer(other).sign([Document("x", "a text of another signer", 0.0)]).batch
    kinds, places, ranks = np.full(1, DOCUMENT, np.uint8), np.zeros(1, np.int64), np.full(1, NO_RANK)
    rows = SignedRows(kinds, places, batch.ids, batch.id_starts, ranks, batch.times, batch.contents, batch.evidence)
    (message,) = encode_signed(rows, other.signing_fingerprint)
    world.producer.begin()
    world.producer.send(Message(world.topics.signed, 0, message))
    world.producer.commit()
    deployment = Deployment(world.kafka.bootstrap_servers, tmp_path, **world.given)
    del deployment.environment["NEARDUP_START"]
    try:
        matcher = deployment.start("match", "--from", "earliest", "--supervised")
        assert matcher.wait(WAIT_SECONDS_MAX) == Exit.GENERATION, deployment.log
        assert other.signing_fingerprint in deployment.log
        assert "Traceback" not in deployment.log
    finally:
        deployment.close()
    assert world.unread(MATCH) > 0
    assert world.pairs() == []


def test_an_offset_below_the_log_stops_the_signer_with_the_remedy(worlds: Worlds) -> None:
    """The signer stops at documents that were trimmed before they were signed."""
    world = worlds()
    signer = world.place(SIGN)
    world.load(stories(10))
    world.settle()
    signer.leave()
    world.load(stories(20))
    world.transport.trim(world.topics.documents, world.ends(world.topics.documents))
    world.load(stories(20))
    world.place(SIGN)
    with pytest.raises(OffsetGoneError, match=r"were deleted before a signer had read them: .* go on with --allow-gap"):
        world.settle()


def test_more_workers_than_partitions_wait_ready_and_take_over(worlds: Worlds) -> None:
    """Three matchers share one partition. Two own nothing and count as ready; when the owner leaves, one takes over."""
    world = worlds(shards=1, documents_partitions=1)
    world.place(SIGN)
    matchers = [world.place(MATCH, str(number)) for number in range(3)]
    documents = stories(60)
    world.load(documents[:30])
    world.settle()
    world.run(
        lambda: all(one.worker and one.worker.member.joined and one.worker.ready for one in matchers),
        "all are in the group",
    )
    owners = [place for place in matchers if place.worker.tables]
    assert len(owners) == 1
    owners[0].leave()
    world.load(documents[30:])
    world.settle()
    assert world.pairs() == world.expected(documents)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Disable the collector of reference cycles, so that it runs only when the test calls it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def records_in_cycles() -> int:
    """Collect all reference cycles, and return how many records were in them or held by them."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    count = sum(type(one) is Record for one in gc.garbage)
    gc.garbage.clear()
    gc.collect()
    return count


def test_memory_does_not_grow_over_a_long_run(worlds: Worlds, uncollected: None) -> None:
    """With empty windows a signer and a matcher hold as much after 48 rounds as after 16.

    The collector of reference cycles does not run meanwhile and finds no records afterwards: those of a poll are freed
    at the end of its step. Clients of other tests that look for a dead broker leave cycles of their own.
    """
    rounds, documents, pause_seconds = 16, 240, 1e5
    world = worlds(window_seconds=100.0, lateness_seconds=60.0, window_documents=2400)
    world.place(SIGN)
    world.place(MATCH)
    texts = [one.text for one in stories(documents)]
    blocks: list[int] = []
    cycles: list[int] = []
    for number in range(3 * rounds):
        seconds = NOW + 50 * number + pause_seconds * len(blocks)
        world.load([Document(f"{number}-{i}", f"{text} {number}", seconds) for i, text in enumerate(texts)])
        for place in world.places:
            place.turn()
        if (number + 1) % rounds == 0:
            world.settle()
            world.load([Document(f"last {number}", texts[0], seconds + pause_seconds)])
            world.settle()
            cycles.append(records_in_cycles())
            blocks.append(sys.getallocatedblocks())
    # A quarter of a block for each document; interpreter and client warm up by some 700 blocks, longer than this runs.
    assert blocks[2] - blocks[0] < 2 * documents * rounds / 4, blocks
    assert cycles == [0, 0, 0]
