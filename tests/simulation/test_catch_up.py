"""A catch-up over many windows finds the pairs of an undisturbed stream, in any order of signing."""

from __future__ import annotations

import random
from collections.abc import Callable

import orjson
import pytest
from memory_transport import MemoryTransport
from quick_parameters import quick_first
from sim_cluster import MATCHERS, SIGNERS, Cluster
from sim_documents import UNREADABLE, Habits
from sim_scenario import Place, Scenario

from neardup import Config, Deduplicator, Document
from neardup_workers.doing.stages import alignment
from neardup_workers.outside.transport.protocol import Message

WINDOW, LATENESS, SKEW = 600.0, 60.0, 100.0
CONFIG = Config(threshold=0.7, recall=0.9, window_seconds=WINDOW, lateness_seconds=LATENESS)
PARTITIONS = 4
COUNT = 360
STEP_SECONDS = 20.0  # from one document to the next: three fit into the lateness, the backlog holds twelve windows
YEAR_SECONDS = 365 * 86_400.0


class Backlog(Cluster):
    """A cluster whose workers start after all documents are written, and the expected pairs."""

    def __init__(self, shares: tuple[int, ...] = (1,) * PARTITIONS) -> None:
        habits = Habits(skew_seconds=SKEW)
        super().__init__(Scenario(CONFIG, habits, len(shares), shards=3))
        self.chance, self.shares = random.Random(9), shares
        self.written: list[Document] = []

    def document(self, name: str, text: str, event_seconds: float | None = None, seconds: float | None = None) -> None:
        """One document in a random partition; ``event_seconds`` is its own time, if it differs from the message's."""
        at = self.memory.now_seconds if seconds is None else seconds
        event = at if event_seconds is None else event_seconds
        (partition,) = self.chance.choices(range(len(self.shares)), self.shares)
        self.write_to(partition, Document(name, text, event), at)
        self.written.append(Document(name, text, min(event, int(at * 1000) / 1000 + SKEW)))

    def write_to(self, partition: int, document: Document, seconds: float) -> None:
        """Write one message with this time."""
        value = orjson.dumps({"id": document.id, "text": document.text, "timestamp": document.timestamp})
        self.memory.append(self.topics.documents, partition, value, document.id.encode(), int(seconds * 1000))

    def write(self, count: int = COUNT, odd: Callable[[int], None] = lambda number: None) -> None:
        """Write one document each ``STEP_SECONDS``; after each of them ``odd`` may add other records."""
        for i, text in enumerate(stories(count)):
            self.memory.advance(STEP_SECONDS)
            self.document(f"d{i}", text)
            odd(i)

    def expected(self) -> list[tuple[str, str]]:
        """The pairs that one process finds in the documents in written order."""
        return pairs_of(self.written)

    def found(self) -> list[tuple[str, str]]:
        values = [orjson.loads(record.value or b"") for record in self.memory.records(self.topics.candidates)]
        return sorted(tuple(sorted((value["older"], value["newer"]))) for value in values if "older" in value)

    def begin(self, signers: int) -> list[Place]:
        self.add(MATCHERS)
        self.add(MATCHERS)
        return [self.add(SIGNERS) for _ in range(signers)]


def stories(count: int) -> list[str]:
    """Texts with distinct contents; half of them are near-duplicates of one of the last ten."""
    chance, words = random.Random(9), [f"word{i}" for i in range(3_000)]
    texts: list[str] = []
    for i in range(count):
        text = [chance.choice(words) for _ in range(30)]
        if texts and chance.random() < 0.5:
            text = chance.choice(texts[-10:]).split()
            text[chance.randrange(30)] = f"edit{i}"
        texts.append(" ".join(text))
    return texts


def pairs_of(documents: list[Document]) -> list[tuple[str, str]]:
    """The unordered pairs that one process finds."""
    found = Deduplicator(CONFIG).process(documents)
    return sorted(tuple(sorted((pair.older, pair.newer))) for pair in found)


@pytest.mark.long
@pytest.mark.parametrize("signers", quick_first([3, 1, 2], 1))
@pytest.mark.parametrize(
    "shares", [(1, 1, 1, 1), (10, 1, 1, 1), (1, 1, 1, 0)], ids=["even", "one has ten times as many", "one is idle"]
)
@pytest.mark.parametrize("records_max", quick_first([7, 500], 1))
def test_a_backlog_gives_the_pairs_of_an_undisturbed_stream(
    signers: int, shares: tuple[int, ...], records_max: int
) -> None:
    """The result is the same for any spread of documents over partitions and of partitions over signers."""
    backlog = Backlog(shares)
    backlog.write()
    backlog.begin(signers)
    backlog.settle(records_max)
    assert len(backlog.expected()) > COUNT / 2
    assert backlog.found() == backlog.expected()


@pytest.mark.long
def test_without_alignment_pairs_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this fact the tests above would prove nothing."""
    monkeypatch.setattr(alignment.Alignment, "_limits", lambda self, at, now_ms: alignment._Limits(at, now_ms, now_ms))
    backlog = Backlog()
    backlog.write()
    backlog.begin(2)
    backlog.settle(7)
    assert len(backlog.found()) < len(backlog.expected()) * 0.9


@pytest.mark.long
@pytest.mark.parametrize("signers", [1, 2])
def test_odd_documents_do_not_disturb_the_others(signers: int) -> None:
    """Odd input: poison, times of 1970 and of next year, messages from next year or without a time, removals of unknown
    ids.
    """
    backlog = Backlog()

    def odd(number: int) -> None:
        now = backlog.memory.now_seconds
        topic, partition = backlog.topics.documents, number % PARTITIONS
        if number == 100:
            backlog.document("ancient", "an old text that no one else has ever written", 5.0)
        elif number == 150:
            backlog.document("ahead", "a text from next year that no one else has written", now + YEAR_SECONDS)
        elif number % 40 == 0:
            _, key, value = UNREADABLE[number // 40]
            backlog.memory.append(topic, partition, value, key)
        elif number % 40 in (1, 2):
            stamp = -1 if number % 2 else int((now + YEAR_SECONDS) * 1000)
            first, second = (" ".join(f"{name}{number * i}" for i in range(1, 20)) for name in ("first", "odd"))
            backlog.write_to(partition, Document(f"first{number}", first, now), now)  # the next one inherits its time
            value = orjson.dumps({"text": second, "timestamp": now})
            backlog.memory.append(topic, partition, value, b"odd%d" % number, stamp)
        elif number % 40 == 3:
            backlog.memory.append(topic, partition, None, b"unknown")

    backlog.write(odd=odd)
    backlog.begin(signers)
    backlog.settle()
    assert backlog.found() == backlog.expected()


@pytest.mark.long
@pytest.mark.parametrize("signers", [1, 2])
def test_transactions_of_the_producers_do_not_hold_back_the_others(signers: int) -> None:
    """Every partition ends in control records of committed and aborted transactions; one transaction stays open for a
    while.

    Readers cannot read past the open transaction, so its partition counts as caught up; the transaction never commits.
    """
    backlog = Backlog()
    producer = MemoryTransport(backlog.memory).producer("outside")
    topic = backlog.topics.documents
    start = backlog.memory.now_seconds
    backlog.memory.advance(STEP_SECONDS * COUNT)
    for i, text in enumerate(stories(COUNT)):
        seconds = start + STEP_SECONDS * i
        document = Document(f"d{i}", text, seconds)
        value = orjson.dumps({"id": document.id, "text": text, "timestamp": seconds})
        for is_kept in (False, True):
            producer.begin()
            producer.send(Message(topic, i % PARTITIONS, value, document.id.encode(), int(seconds * 1000)))
            if is_kept:
                producer.commit()
            else:
                producer.abort()
        backlog.written.append(document)
    producer.begin()
    producer.send(Message(topic, 1, b"{}", b"never", int(start * 1000)))
    backlog.begin(signers)
    backlog.settle()
    assert backlog.found() == backlog.expected()


@pytest.mark.long
def test_a_signer_that_dies_holds_back_the_others_until_its_partitions_have_moved() -> None:
    """After the move they find every pair."""
    backlog = Backlog()
    backlog.write()
    _, dying, _ = backlog.begin(3)
    while dying.taken < COUNT / 20:
        for place in backlog.places:
            backlog.turn(place, 7)
        backlog.memory.advance(0.1)
    backlog.places.remove(dying)
    backlog.settle()
    assert backlog.found() == backlog.expected()


@pytest.mark.long
@pytest.mark.parametrize("signers", quick_first([3, 1, 2], 1))
def test_an_archive_that_is_loaded_into_idle_partitions_is_signed_in_its_order(signers: int) -> None:
    """Each tenth of a second loads hours of the archive; batches become visible in one partition after the other."""
    loaded = Backlog()
    loaded.begin(signers)
    for _ in range(10):
        take_turns(loaded)
    start = loaded.memory.now_seconds
    loaded.memory.advance(2 * STEP_SECONDS * COUNT)
    archive = [(start + STEP_SECONDS * i, f"d{i}", text) for i, text in enumerate(stories(COUNT))]
    for first in range(0, COUNT, 60):
        for partition in reversed(range(PARTITIONS)):
            for seconds, name, text in archive[first : first + 60]:
                if int(name[1:]) % PARTITIONS == partition:
                    loaded.write_to(partition, Document(name, text, seconds), seconds)
            take_turns(loaded)
    loaded.settle()
    assert loaded.found() == pairs_of([Document(name, text, seconds) for seconds, name, text in archive])


def take_turns(backlog: Backlog) -> None:
    """Give every worker one turn, in a tenth of a second."""
    for place in list(backlog.places):
        backlog.turn(place)
    backlog.memory.advance(0.1)
