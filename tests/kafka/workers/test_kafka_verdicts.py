"""Verdicts on a real broker: all four roles, with crashes and takeovers of the linker and the filter."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from kafka_world import Place, World, stories
from verdict_oracle import expected_lines

from neardup import Document
from neardup.errors import ConfigError
from neardup_workers.outside.topics.messages import partition_of_key
from neardup_workers.outside.topics.names import FILTER, LINK, MATCH, SIGN
from neardup_workers.outside.topics.verdicts import parse_run
from neardup_workers.outside.transport.protocol import Message

Worlds = Callable[..., World]
# Words of titles that share little.
NAMES = ("Aberdeen", "Boston", "Cologne", "Dunkirk", "Esbjerg", "Florence", "Gothenburg")


def lines_of(world: World) -> dict[int, list[dict[str, Any]]]:
    """The committed verdicts of each partition, in order."""
    found = defaultdict(list)
    for record in world.records(world.topics.verdicts):
        found[record.partition] += parse_run(record.value)
    return found


def check_verdicts(world: World) -> dict[int, list[dict[str, Any]]]:
    """The verdicts equal the model's, each once and in order; returns them."""
    expected = defaultdict(list)
    signed, links = world.records(world.topics.signed), world.records(world.topics.links)
    for place, line in expected_lines(signed, links, world.settings):
        expected[place >> 48].append(line)
    found = lines_of(world)
    assert found == expected
    sent = world.records(world.topics.documents)
    assert [(r.partition, r.offset) for r in sent] == [(s, x["offset"]) for s in sorted(found) for x in found[s]]
    return found


def check(world: World) -> None:
    """The verdicts equal the model's, each once and in order; ``documents.unique`` holds the kept documents, byte for
    byte, with the headers of their traces.
    """
    found, sent = check_verdicts(world), world.records(world.topics.documents)
    kept = {
        (s, line["offset"])
        for s, lines in found.items()
        for line in lines
        if line["status"] in ("original", "update", "removed")
    }
    unique = [(*record[2:6], record.headers[:-1]) for record in world.records(world.topics.unique)]
    assert unique == [record[2:] for record in sent if (record.partition, record.offset) in kept]


def statuses(world: World) -> dict[tuple[int, int], str]:
    """The status of each document, by partition and offset."""
    return {
        (partition, line["offset"]): line["status"] for partition, lines in lines_of(world).items() for line in lines
    }


def decided(linker: Place) -> int:
    """How many documents the running linker has decided and committed."""
    return 0 if linker.worker is None else int(linker.worker.state.arrivals)


def feed(count: int) -> list[Document]:
    """Send stories, some of them twice."""
    chance = random.Random(3)
    documents = stories(count)
    return [chance.choice(documents)._replace(id=f"copy-{d.id}") if chance.random() < 0.2 else d for d in documents]


def test_every_document_gets_one_verdict_after_crashes_of_linker_and_filter(worlds: Worlds) -> None:
    """Linker and filter are killed, replaced by a standby and restored from the log; the last tombstone removes a
    document. Then a person judges.
    """
    world = worlds(verdicts=True)
    documents = feed(300)
    for role in (SIGN, MATCH, LINK, FILTER):
        world.place(role)
    standby = world.place(LINK, "1")
    world.load(documents[:100])
    world.settle()
    world.run(lambda: sum(map(len, lines_of(world).values())) == 100, "the first hundred have a verdict")
    _, matcher, linker, filter_, _ = world.places
    linker.leave()
    filter_.kill()
    world.load(documents[100:200])
    world.run(lambda: sum(map(len, lines_of(world).values())) == 200, "another linker has gone on")
    world.run(lambda: standby.worker and standby.worker.running, "it is the standby that runs")
    standby.kill()
    matcher.kill()
    world.load(documents[200:])
    world.send([(documents[0].id.encode(), None), (b"k", b"{")])
    world.settle()
    world.run(lambda: sum(map(len, lines_of(world).values())) == 302, "all have a verdict")
    world.settle()
    check(world)
    check_judged(world, [line for lines in lines_of(world).values() for line in lines], documents)


def check_judged(world: World, lines: list[dict[str, Any]], documents: list[Document]) -> None:
    """A copy is taken apart and an original put to a story: the verdicts say so, and copies follow another linker."""
    texts = {document.id: document.text for document in documents}
    there = [line for line in lines if documents[0].id not in line.values()]  # it was removed
    copy = next(x for x in there if x["status"] == "duplicate" and texts[x["id"]] != texts[x["duplicate_of"]])
    first, last, *_ = (line for line in there if line["status"] == "original" and line["cluster"] != copy["cluster"])
    judge(world, copy["id"], texts[copy["id"]], "neardup-apart", copy["duplicate_of"])
    judge(world, last["id"], texts[last["id"]], "neardup-together", first["id"])
    world.run(lambda: sum(map(len, lines_of(world).values())) == 304, "both have a verdict")
    next(place for place in world.places if place.role == LINK).kill()
    world.load([Document(f"again {one['id']}", texts[one["id"]]) for one in (copy, last)])
    world.run(lambda: sum(map(len, lines_of(world).values())) == 306, "their copies have one")
    found = {line.get("id"): line for lines in lines_of(world).values() for line in lines}
    assert [found[copy["id"]].get("judged"), found[copy["id"]]["status"]] == [True, "original"]
    assert [found[last["id"]].get("judged"), found[last["id"]]["status"]] == [True, "update"]
    assert found[f"again {copy['id']}"]["cluster"] == found[copy["id"]]["cluster"] != copy["cluster"]
    assert found[f"again {last['id']}"]["cluster"] == found[last["id"]]["cluster"] == first["cluster"]


def judge(world: World, id_: str, text: str, header: str, other: str) -> None:
    """Send a document again, with what a person says of it and another id."""
    partition = partition_of_key(id_.encode(), world.settings.documents_partitions)
    value = orjson.dumps({"id": id_, "text": text})
    world.producer.begin()
    world.producer.send(
        Message(world.topics.documents, partition, value, id_.encode(), headers=((header, other.encode()),))
    )
    world.producer.flush()
    world.producer.commit()


def text_of(story: int, variant: int) -> str:
    """A text of forty words, of which the variant decides one. Two stories have nothing in common."""
    chance = random.Random(str(story))  # a number and its negative would give the same words
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(40)]
    words[7] = f"variant{variant}"
    return " ".join(words)


# Id, variant of its story and seconds of each document, and the verdict; the first letters of an id are the number of
# the sequence, and its story. A variant below 0 is another story, and none is a removal.
SEQUENCES: list[tuple[str, int | None, float, str]] = [
    ("1-x1", 0, 0, "original"), ("1-x2", 0, 1, "duplicate 1-x1"), ("1-y", 1, 2, "duplicate 1-x1"),
    ("2-x1", 0, 0, "original"), ("2-x2", 0, 0, "duplicate 2-x1"), ("2-x3", 0, 0, "duplicate 2-x1"),
    ("5-old", 0, 0, "original"),
    ("6-x", 0, 0, "original"), ("6-y", 1, 1, "duplicate 6-x"), ("6-y", 1, 2, "unchanged 6-x"),
    ("6-z", 2, 3, "duplicate 6-x"),
    ("7-x", 0, 0, "original"), ("7-x", -1, 1, "original"), ("7-x", 0, 2, "update"),
    ("8-x", 0, 0, "original"), ("8-x", -1, 1, "original"), ("8-y", 1, 2, "duplicate 8-x"),
    ("10-x", 0, 0, "original"), ("10-y", 1, 1, "duplicate 10-x"), ("10-x", None, 1, "removed"),
    ("10-z", 2, 2, "duplicate 10-y"),
    ("11-x", 0, 0, "original"), ("11-x", 1, 1, "update"), ("11-y", 2, 2, "duplicate 11-x"),
    ("9-x", 0, 0, "original"), ("12-x", 0, 0, "original"),
    *[
        row
        for n in range(1, 13)
        for row in (("9-x", 0, 480.0 * n, "unchanged"), (f"12-x{n}", 1, 480.0 * n, "duplicate 12-x"))
    ],
    ("12-y", 2, 480.0 * 12, "duplicate 12-x"), ("5-new", 1, 480.0 * 12, "original"),
]  # fmt: skip


def test_the_sequences_are_decided_as_they_must_be(worlds: Worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are short and a matcher commits between them (11); a linker restarts while partitions are idle (12), and
    after the original of a story has left the window."""
    monkeypatch.setattr("neardup_workers.outside.topics.signed.BYTES_MAX", 200)
    world = worlds(verdicts=True, documents_partitions=1, shards=3, window_seconds=600.0, lateness_seconds=60.0)
    for role in (SIGN, MATCH, LINK, FILTER):
        world.place(role)
    begin = time.time() - 1e5
    messages: list[tuple[bytes | None, bytes | None]] = []
    for id_, variant, seconds, _ in SEQUENCES:
        story = int(id_.split("-")[0])
        text = None if variant is None else text_of(story if variant >= 0 else -story, variant)
        value = None if text is None else orjson.dumps({"id": id_, "text": text, "timestamp": begin + seconds})
        messages.append((id_.encode(), value))
    for part in (messages[:12], messages[12:-2], messages[-2:]):
        world.send(part)
        world.settle(records_max=3)
        world.places[2].kill()
    world.settle()
    lines = lines_of(world)[0]
    found = [" ".join(filter(None, [line["id"], line["status"], line.get("duplicate_of")])) for line in lines]
    assert found == [f"{id_} {verdict}" for id_, _, _, verdict in SEQUENCES]
    check(world)


def test_a_matcher_that_stands_still_holds_back_verdicts_and_nothing_else(worlds: Worlds) -> None:
    """Every document is signed and every arrival read; when the matcher goes on, all have their verdict (13)."""
    world = worlds(verdicts=True)
    documents = feed(150)
    signer, matcher, linker, filter_ = (world.place(role) for role in (SIGN, MATCH, LINK, FILTER))
    world.load(documents[:50])
    world.run(lambda: decided(linker) == 50, "the first have a verdict")
    world.settle()
    world.places = [signer, linker, filter_]
    world.load(documents[50:])
    world.run(lambda: linker.worker and linker.worker.state.undecided == 100, "the linker has read every arrival")
    assert sum(map(len, lines_of(world).values())) == 50
    world.places = [signer, matcher, linker, filter_]
    world.run(lambda: decided(linker) == 150, "all have a verdict")
    world.settle()
    check(world)


def test_two_generations_decide_the_same_documents_side_by_side(worlds: Worlds) -> None:
    """Each has its own verdicts, and ``documents.unique`` follows the one that has a filter, until the filter of the
    other one takes over where it stopped (14). The other one also joins stories by their titles.
    """
    world = worlds(verdicts=True)
    other = worlds(verdicts=True, topic_prefix=world.settings.topic_prefix, threshold=0.75, scheme="signals:title=0.9")
    documents = [document._replace(title=f"{NAMES[n % 7]} in the news") for n, document in enumerate(feed(120))]
    assert world.topics.documents == other.topics.documents
    for each, roles in ((world, (SIGN, MATCH, LINK, FILTER)), (other, (SIGN, MATCH, LINK))):
        for role in roles:
            each.place(role)
    other.load(documents[:80])  # its producer took the place of the other one, which has the same name

    def have_decided(count: int) -> bool:
        """Also give the other one its turns: members that do not poll leave their group."""
        for place in world.places:
            place.turn()
        return all(decided(each.places[2]) == count for each in (world, other))

    other.run(lambda: have_decided(80), "all have a verdict")
    for each in (world, other):
        each.settle()
        check_verdicts(each)
    check(world)
    stopped = world.ends(world.topics.documents)
    early = other.place(FILTER, start=world.names.generation)
    with pytest.raises(ConfigError, match=r"1 filters of generation .* still work"):
        other.run(lambda: False, "the filter refuses to start next to another one")
    early.leave()
    world.places[3].leave()
    other.place(FILTER, start=world.names.generation)
    other.load(documents[80:])
    other.run(lambda: have_decided(120), "all have a verdict")
    for each in (world, other):
        each.settle()
        check_verdicts(each)
    joined = [line["status"] for lines in lines_of(other).values() for line in lines if line.get("signal") == "title"]
    assert joined
    assert set(joined) == {"update"}
    assert not any(line.get("signal") for lines in lines_of(world).values() for line in lines)
    before, after = statuses(world), statuses(other)
    assert [record[2:6] for record in world.records(world.topics.unique)] == [
        record[2:6]
        for record in world.records(world.topics.documents)
        if (before if record.offset < stopped[record.partition] else after)[record[:2]] != "duplicate"
    ]
