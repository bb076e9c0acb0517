"""A backlog of hours, or an archive loaded at once, loses no pair although lateness is minutes."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from kafka_world import World, reached

from neardup import Document
from neardup_workers.doing.session.loader import Loader
from neardup_workers.doing.session.session import Session
from neardup_workers.outside.options.shared import SessionOptions
from neardup_workers.outside.topics.names import MATCH, SIGN
from neardup_workers.outside.transport.protocol import Message

Worlds = Callable[..., World]
COUNT = 1_000
HOURS_SECONDS = 6 * 3_600.0
PARTITIONS = 8
# Partition 0 has ten times the documents of the others; partition 7 has none.
SHARES = (10, 1, 1, 1, 1, 1, 1, 0)
SETTINGS = {
    "window_seconds": 3_600.0, "lateness_seconds": 600.0, "documents_partitions": PARTITIONS, "shards": 4,
}  # fmt: skip


def past() -> list[Document]:
    """Documents with distinct contents in order of time; half of them are near-duplicates of one of the last twenty."""
    chance, words = random.Random(5), [f"word{i}" for i in range(4_000)]
    begin, made = time.time() - HOURS_SECONDS, list[Document]()
    for i in range(COUNT):
        text = [chance.choice(words) for _ in range(40)]
        if made and chance.random() < 0.5:
            text = chance.choice(made[-20:]).text.split()
            text[chance.randrange(40)] = f"edit{i}"
        made.append(Document(f"d{i}", " ".join(text), begin + HOURS_SECONDS * i / COUNT))
    return made


def line(document: Document) -> bytes:
    return orjson.dumps({"id": document.id, "text": document.text, "timestamp": document.timestamp})


def write(world: World, documents: list[Document]) -> None:
    """Write as producers did while the signers were away: each message has the time of its document."""
    chance = random.Random(7)
    world.producer.begin()
    for document in documents:
        (partition,) = chance.choices(range(PARTITIONS), SHARES)
        assert document.timestamp is not None
        milliseconds = int(document.timestamp * 1000)
        world.producer.send(
            Message(world.topics.documents, partition, line(document), document.id.encode(), milliseconds)
        )
    world.producer.flush()
    world.producer.commit()


def start(world: World) -> None:
    for role in (SIGN, MATCH):
        for instance in ("0", "1"):
            world.place(role, instance)


def settle(world: World) -> None:
    """Give every worker turns until all documents are signed and matched; a catch-up takes longer than other waits."""
    signers, ends = world.places[:2], world.ends(world.topics.documents)
    world.run(lambda: reached(signers, ends), "the documents are signed", seconds_max=120.0)
    world.settle()


def lost(world: World, documents: list[Document]) -> tuple[int, int]:
    """Return the number of missing pairs and of all pairs of an undisturbed stream; no pair is wrong or repeated."""
    expected, found = world.expected(documents), world.pairs()
    assert len(found) == len(set(found))
    assert set(found) <= set(expected)
    assert len(expected) > COUNT / 2
    return len(set(expected) - set(found)), len(expected)


def test_the_pairs_of_a_backlog_equal_those_of_an_undisturbed_stream(worlds: Worlds) -> None:
    """Two signers and two matchers return after six hours, with a window of one hour and a lateness of ten minutes."""
    world = worlds(**SETTINGS)
    documents = past()
    write(world, documents)
    start(world)
    settle(world)
    assert lost(world, documents)[0] == 0, lost(world, documents)


def test_the_pairs_of_an_archive_equal_those_of_an_undisturbed_stream(
    worlds: Worlds, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The archive of six hours is loaded in order of its times, in some seconds, while the workers are idle."""
    caplog.set_level(logging.DEBUG, "neardup_workers.outside.readers")  # a defect of a reader is shown there alone
    world = worlds(**SETTINGS)
    documents = past()
    (tmp_path / "archive.jsonl").write_bytes(b"\n".join(map(line, documents)))
    start(world)
    world.run(lambda: [len(place.running()) for place in world.places] == [4, 4, 2, 2], "each is idle with its share")
    with Session(world.settings, SessionOptions([], quiet=True)) as session:
        loader = Loader(world.transport, world.settings, session)
        loader.load([str(tmp_path / "archive.jsonl")])
        loader.close()
    report = session.report
    assert (report.documents, report.refused) == (COUNT, {}), (session.stop.signal, session._reader_left)
    assert len(world.records(world.topics.documents)) == COUNT, "committed, and not only written"
    settle(world)
    assert (lost(world, documents)[0], world.letters()) == (0, []), lost(world, documents)
